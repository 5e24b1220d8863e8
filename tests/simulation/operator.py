"""Rescaling as section 6 of the design tells it, as pure logic: what was announced and committed in, new tables out.

One version at a time: v+1 is written only when every sender has announced v, and carries S(v), the greatest first
epoch of v.

* Join: the new unit is probed by all (version v) before anyone stores to it (v+1).
* Leave by window: no more stores (v); once it is empty at a frontier at or above S(v), no more probes (v+1); then it
  goes.
* Leave by move: no more stores, and its tuples up to S(v) belong to a sibling (v); once its frontier is at S(v), no
  more probes (v+1); then it goes.
* A unit that sends to others which announce versions, too, holds them at S(v) from the time it stands there until it
  has left. Above that point they can apply nothing, so its move has no other operation beside it.
* A unit id that comes back has a new generation, and its life begins at the end of its partition.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Set
from dataclasses import dataclass, replace
from enum import Enum

from biclique.plan.model import Plan
from biclique.routing.table import Move, RoutingTable, Subgroup, UnitId
from biclique.tiers.announcements import Announcements
from biclique.tiers.messages import Signal
from biclique.tiers.progress import JoinerProgress

OPERATIONS_AT_ONCE = 2
UNITS_MAX = 3  # of a subgroup


class Kind(Enum):
    JOIN = "join"
    LEAVE_BY_WINDOW = "leave by window"
    LEAVE_BY_MOVE = "leave by move"
    GONE = "gone"


@dataclass(frozen=True)
class Operation:
    """`version`: the one that its present step waits for."""

    kind: Kind
    unit: UnitId
    version: int


@dataclass(frozen=True)
class Habits:
    """What an operator likes to begin. `moves`: of the leaves, where units could also wait until they are empty.
    `comebacks`: of the joins, where a unit has left before. `receivers_leave`: rather those that hold moved tuples or
    have left before, and with the chance of `comebacks_leave` only the latter."""

    moves: float = 0.6
    comebacks: float = 0.7
    comebacks_leave: float = 0.5
    receivers_leave: bool = False


HABITS = Habits()


@dataclass(frozen=True)
class Decision:
    """What the world does about it: start a unit, end one, show a table."""

    table: RoutingTable | None = None
    starts: UnitId | None = None
    ends: UnitId | None = None
    note: str = ""


@dataclass(frozen=True)
class Reach:
    """S of every version up to the newest: over all senders, and over those of each stage alone."""

    switch: Mapping[int, int]
    stage_switch: Mapping[tuple[int, int], int]


class Operator:
    """`scalable`: the subgroups that may grow and shrink; `windowed`: those whose units can wait until they are
    empty."""

    def __init__(
        self,
        plan: Plan,
        table: RoutingTable,
        scalable: frozenset[Subgroup],
        windowed: frozenset[Subgroup],
        habits: Habits = HABITS,
    ) -> None:
        self.table, self.operations, self._habits = table, list[Operation](), habits
        self._scalable, self._windowed = scalable, windowed
        self._stages = len(plan.stages) + (plan.mergers > 0)  # mergers listen to the units of the last stage
        self._announcements = Announcements(plan)
        self._left: list[UnitId] = []
        self._numbers = {subgroup: len(units) for subgroup, units in table.stores.items()}

    def hear(self, signal: Signal) -> None:
        self._announcements.hear(signal)

    def reach(self) -> Reach | None:
        """None while some sender has not announced the newest version."""
        known = self._announcements.switch_over(self.table)
        if known is None:
            return None
        whole, by_stage = known
        version = self.table.version
        return Reach(
            {**self.table.switch, version: whole},
            {**self.table.stage_switch, **{(version, stage): epoch for stage, epoch in by_stage.items()}},
        )

    def act(
        self, progress: Mapping[UnitId, JoinerProgress], left: Set[UnitId], rng: random.Random, may_begin: bool
    ) -> Decision:
        """`left`: units whose loops have said that they are done."""
        reach = self.reach()
        if reach is None:
            return Decision()
        for operation in self.operations:
            if decision := self._advance(operation, reach, progress.get(operation.unit), left):
                return decision
        alone = any(op.kind is not Kind.JOIN and self._holds_announcers(op.unit.subgroup) for op in self.operations)
        if may_begin and self._scalable and len(self.operations) < OPERATIONS_AT_ONCE and not alone:
            return self._begin(reach, rng)
        return Decision()

    def _advance(
        self, operation: Operation, reach: Reach, progress: JoinerProgress | None, left: Set[UnitId]
    ) -> Decision | None:
        unit, version = operation.unit, operation.version
        subgroup = unit.subgroup
        match operation.kind:
            case Kind.JOIN:
                self.operations.remove(operation)
                return self._publish(reach, stores={subgroup: (*self.table.stores[subgroup], unit)})
            case Kind.GONE:
                if subgroup.stage + 1 < self._stages and unit not in left:
                    return None  # others wait for its last signal
                self.operations.remove(operation)
                self._left.append(unit)
                return Decision(ends=unit, note=f"{unit} is gone")
            case Kind.LEAVE_BY_WINDOW | Kind.LEAVE_BY_MOVE:
                if progress is None or progress.frontier < reach.stage_switch[version, subgroup.stage]:
                    return None
                if operation.kind is Kind.LEAVE_BY_WINDOW and not progress.empty:
                    return None
                rest = tuple(u for u in self.table.probes[subgroup] if u != unit)
                decision = self._publish(reach, probes={subgroup: rest})
                at = self.operations.index(operation)
                self.operations[at] = replace(operation, kind=Kind.GONE, version=self.table.version)
                return decision

    def _begin(self, reach: Reach, rng: random.Random) -> Decision:
        subgroup = rng.choice(sorted(self._scalable))
        stores, probes = self.table.stores[subgroup], self.table.probes[subgroup]
        if len(probes) < UNITS_MAX and rng.random() < (0.4 if len(stores) > 1 else 0.8):
            unit = self._joiner(subgroup, rng)
            decision = self._publish(reach, probes={subgroup: (*probes, unit)}, born=unit)
            self.operations.append(Operation(Kind.JOIN, unit, self.table.version))
            return replace(decision, starts=unit)
        if len(stores) < 2:
            return Decision()
        unit = rng.choice(self._likely_leavers(stores, rng))
        rest = tuple(u for u in stores if u != unit)
        by_move = subgroup not in self._windowed or rng.random() < self._habits.moves
        if by_move and self.operations and self._holds_announcers(subgroup):
            return Decision()
        decision = self._publish(reach, stores={subgroup: rest}, move=(unit, rng.choice(rest)) if by_move else None)
        kind = Kind.LEAVE_BY_MOVE if by_move else Kind.LEAVE_BY_WINDOW
        self.operations.append(Operation(kind, unit, self.table.version))
        return decision

    def _likely_leavers(self, stores: tuple[UnitId, ...], rng: random.Random) -> tuple[UnitId, ...]:
        if not self._habits.receivers_leave:
            return stores
        back = tuple(unit for unit in stores if unit.generation)
        if back and rng.random() < self._habits.comebacks_leave:
            return back
        receivers = {move.target for move in self.table.moves}
        return tuple(unit for unit in stores if unit in receivers or unit.generation) or stores

    def _holds_announcers(self, subgroup: Subgroup) -> bool:
        return subgroup.stage + 2 < self._stages

    def _joiner(self, subgroup: Subgroup, rng: random.Random) -> UnitId:
        gone = [unit for unit in self._left if unit.subgroup == subgroup]
        if gone and rng.random() < self._habits.comebacks:
            self._left.remove(gone[0])
            return gone[0]._replace(generation=gone[0].generation + 1)
        number = self._numbers[subgroup]
        self._numbers[subgroup] += 1
        return UnitId(subgroup, number)

    def _publish(
        self,
        reach: Reach,
        stores: Mapping[Subgroup, tuple[UnitId, ...]] | None = None,
        probes: Mapping[Subgroup, tuple[UnitId, ...]] | None = None,
        move: tuple[UnitId, UnitId] | None = None,
        born: UnitId | None = None,
    ) -> Decision:
        old = self.table
        version = old.version + 1
        self.table = RoutingTable(
            version,
            {**old.stores, **(stores or {})},
            {**old.probes, **(probes or {})},
            reach.switch,
            (*old.moves, Move(*move, version)) if move else old.moves,
            reach.stage_switch,
            {**old.born, born: version} if born else old.born,
        )
        changes = [
            f"{what} {', '.join(map(str, units))}"
            for what, change in (("stores to", stores), ("probes to", probes))
            for units in (change or {}).values()
        ]
        changes += [f"{move[0]} moves to {move[1]}"] if move else []
        return Decision(table=self.table, note=f"version {version}: {'; '.join(changes)}")
