"""One log, one answer: what a unit must emit, read naively from all that it was ever given, in one go.

The pair rule is the whole of it: a stored row meets a probing one if its stamp is smaller and the pair qualifies. A
unit that took over a sibling's rows up to S answers for them above S only; one whose rows were taken over answers up
to S only.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property

from biclique.core.stamps import epoch_of
from biclique.plan.model import LEFT, RIGHT, Plan
from biclique.query.expression import Expression, relations_of
from biclique.routing.protocol import Role
from biclique.routing.table import Move, UnitId
from tests.model.evidence import Evidence
from tests.model.pieces import Logs, Piece, holds

Ids = tuple[int, ...]
Stamps = Mapping[int, Sequence[int]]
INFINITE = 1 << 62


class StagePredicate:
    """What a stage must test of a left and a right row; remembered, since many units ask about the same pair. `stamps`:
    of all accepted tuples of each relation, in order: what a window of so many tuples counts."""

    def __init__(self, plan: Plan, number: int, stamps: Stamps) -> None:
        stage = plan.stages[number]
        left, right = (frozenset(side.relations) for side in stage.sides)
        self._conjuncts: list[Expression] = [
            p
            for p in plan.query.predicates
            if (used := relations_of(p)) <= left | right and (not used <= left if used else number == 0)
        ]
        self._windows = tuple(side.window_us for side in stage.sides)
        self._relations = tuple(side.relations[0] for side in stage.sides)
        self._tuples = [plan.query.relations[relation].window.tuples for relation in self._relations]
        self._stamps = stamps
        self._known: dict[tuple[Ids, Ids], bool] = {}

    def __call__(self, left: Piece, right: Piece) -> bool:
        key = left.ids, right.ids
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._within_window(left, right) and self._matches(left, right)
        return known

    def _within_window(self, left: Piece, right: Piece) -> bool:
        if any(self._tuples):
            return self._among_the_last(left, right)
        window = self._windows[LEFT if left.oldest <= right.oldest else RIGHT]
        return window is None or max(left.newest, right.newest) - min(left.oldest, right.oldest) <= window

    def _among_the_last(self, left: Piece, right: Piece) -> bool:
        """Whether the older tuple is among the last so many of its relation before the newer one."""
        older, newer, side = (left, right, LEFT) if left.stamp < right.stamp else (right, left, RIGHT)
        tuples, stamps = self._tuples[side], self._stamps[self._relations[side]]
        return tuples is None or bisect_left(stamps, newer.stamp) - bisect_left(stamps, older.stamp) <= tuples

    def _matches(self, left: Piece, right: Piece) -> bool:
        values = {**left.values, **right.values}
        return all(holds(conjunct, values) for conjunct in self._conjuncts)


class UnitAnswers:
    def __init__(self, evidence: Evidence, logs: Logs, stamps: Stamps) -> None:
        self._evidence, self._logs = evidence, logs
        self._predicates: list[Callable[[Piece, Piece], bool]] = [
            StagePredicate(evidence.plan, stage.number, stamps) for stage in evidence.plan.stages
        ]

    @cached_property
    def moves(self) -> tuple[Move, ...]:
        return self._evidence.tables[-1].moves

    def switch(self, move: Move) -> int:
        return self._evidence.stage_switch.get((move.version, move.source.subgroup.stage), INFINITE)

    def pairs(self, unit: UnitId) -> Iterator[tuple[Piece, Piece]]:
        """(left, right) of every pair that this unit must have emitted, once each."""
        qualifies = self._predicates[unit.subgroup.stage]
        stored, until = self._stored(unit), self._answers_until(unit)
        for given in self._logs.given(unit):
            probe = given.piece
            epoch = epoch_of(probe.stamp)
            if given.role is Role.STORE or epoch > until:
                continue
            for piece, above in stored[1 - given.side]:
                if piece.stamp < probe.stamp and epoch > above:
                    left, right = (probe, piece) if given.side == LEFT else (piece, probe)
                    if qualifies(left, right):
                        yield left, right

    def _stored(self, unit: UnitId) -> dict[int, list[tuple[Piece, int]]]:
        found: dict[int, list[tuple[Piece, int]]] = defaultdict(list)
        for side, piece in self._own(unit, INFINITE):
            found[side].append((piece, -1))
        for move in self.moves:
            if move.target == unit:
                switch = self.switch(move)
                for side, piece in self.rows_up_to(move.source, switch):
                    found[side].append((piece, switch))
        return found

    def _own(self, unit: UnitId, until: int) -> Iterator[tuple[int, Piece]]:
        for given in self._logs.given(unit):
            if given.role is not Role.PROBE and epoch_of(given.piece.stamp) <= until:
                yield given.side, given.piece

    def rows_up_to(self, unit: UnitId, until: int) -> Iterator[tuple[int, Piece]]:
        """All that a unit held with stamps up to an epoch: its own, and what had been moved to it before."""
        yield from self._own(unit, until)
        for move in self.moves:
            if move.target == unit and self.switch(move) < until:
                yield from self.rows_up_to(move.source, self.switch(move))

    def _answers_until(self, unit: UnitId) -> int:
        return min((self.switch(move) for move in self.moves if move.source == unit), default=INFINITE)
