"""From matches to what is sent on: rows of the output, or partial results for the units of the next stage.

A result depends on the tuples it is made of and on nothing else: the order of ids, of parts and of columns follows the
query's relations, not who probed whom.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from biclique.core.rows import Rows, Vector, concat_rows, concat_vectors
from biclique.core.stamps import epoch_of
from biclique.kernels.evaluate import compile_expression, failures
from biclique.kernels.hashing import result_ids
from biclique.plan.model import LEFT, PLACE, Plan, Stage
from biclique.query.expression import Column, Expression
from biclique.query.model import Aggregate, GroupKey
from biclique.routing.table import RoutingTable
from biclique.tiers.cutting import RECORD_BYTES_MAX, cut_block
from biclique.tiers.entry import Routing
from biclique.tiers.failing_keys import FailingKeys
from biclique.tiers.found import Found
from biclique.tiers.matching import pair_positions
from biclique.tiers.messages import Address, Block, Producer, Record, Results, unit_address
from biclique.tiers.payloads import Payloads


class Pairs:
    """One chunk of matches with everything that is asked of it gathered at most once. `payloads`: of the batch that it
    is of."""

    def __init__(self, probes: Rows, found: Found, probing_columns: int, stored_side: int, payloads: Payloads) -> None:
        self._probes, self._found, self._split = probes, found, probing_columns
        self._stored_side, self._payloads = stored_side, payloads
        self.count = len(found.probe)
        self._stored: Rows | None = None

    @property
    def stored(self) -> Rows:
        if self._stored is None:
            self._stored = self._found.store.gather(self._found.stored)
        return self._stored

    def columns(self, places: Sequence[int], width: int) -> list[Vector | None]:
        columns: list[Vector | None] = [None] * width
        for place in places:
            if place < self._split:
                columns[place] = self._probing_column(place)
            else:
                columns[place] = self._stored_column(place - self._split)
        return columns

    def _probing_column(self, position: int) -> Vector:
        column, side = self._probes.columns[position].take(self._found.probe), 1 - self._stored_side
        if not self._payloads.leaves(side):
            return column
        return self._payloads.completed(side, position, column, self._probes.columns[PLACE].take(self._found.probe))

    def _stored_column(self, position: int) -> Vector:
        column, side = self.stored.columns[position], self._stored_side
        if not self._payloads.leaves(side):
            return column
        return self._payloads.completed(side, position, column, self.stored.columns[PLACE])

    def times(self) -> NDArray[np.int64]:
        return np.maximum(self._probes.newest[self._found.probe], self.stored.newest)

    def oldest(self) -> NDArray[np.int64]:
        return np.minimum(self._probes.oldest[self._found.probe], self.stored.oldest)

    def stamps(self) -> NDArray[np.uint64]:
        return self._probes.stamps[self._found.probe]

    def ids(self) -> tuple[NDArray[np.int64], ...]:
        """Of the probing row's parts, then of the stored row's."""
        return (*(ids[self._found.probe] for ids in self._probes.ids), *self.stored.ids)


class PairPrograms:
    """Expressions over the pairs of one stage, for one direction of probing."""

    def __init__(self, stage: Stage, stored_side: int, expressions: Sequence[Expression]) -> None:
        positions = pair_positions(stage, stored_side)
        self._stored_side = stored_side
        self._probing_columns = len(stage.sides[1 - stored_side].columns)
        self._width = len(positions)
        self._programs = tuple(compile_expression(expression, positions) for expression in expressions)
        self._places = tuple(sorted({place for program in self._programs for place in program.columns}))

    def pairs(self, probes: Rows, found: Found, payloads: Payloads) -> Pairs:
        return Pairs(probes, found, self._probing_columns, self._stored_side, payloads)

    def run(self, pairs: Pairs) -> list[Vector]:
        columns = pairs.columns(self._places, self._width)
        return [program.run(columns, pairs.count) for program in self._programs]


def relation_order(stage: Stage, stored_side: int) -> tuple[int, ...]:
    """Positions in `Pairs.ids()` by ascending relation."""
    relations = (*stage.sides[1 - stored_side].relations, *stage.sides[stored_side].relations)
    return tuple(int(i) for i in np.argsort(relations))


class ResultEmission:
    """The select list over matches of the last stage, in records of at most `bytes_max`, or of one chunk's matches."""

    def __init__(self, plan: Plan, bytes_max: int, payloads: Payloads) -> None:
        self._bytes_max, self._payloads = bytes_max, payloads
        stage = plan.stages[-1]
        expressions: list[Expression] = []
        for item in plan.query.items:
            assert not isinstance(item.value, Aggregate | GroupKey)
            expressions.append(item.value)
        self.expressions = tuple(expressions)  # all that is made of a match, here and in the other emissions
        self._programs = tuple(PairPrograms(stage, side, expressions) for side in range(2))
        self._orders = tuple(relation_order(stage, side) for side in range(2))
        self.failures = 0

    def results(self, probes: Mapping[int, Rows], found: Mapping[int, list[Found]]) -> list[Results]:
        records: list[Results] = []
        parts: list[Results] = []
        size = 0
        for side, chunks in found.items():
            for chunk in chunks:
                pairs = self._programs[side].pairs(probes[side], chunk, self._payloads)
                columns = self._programs[side].run(pairs)
                self.failures += sum(failures(column) for column in columns)
                ids = pairs.ids()
                high, low = result_ids(tuple(ids[i] for i in self._orders[side]))
                part = Results(tuple(_without_failures(c) for c in columns), high, low, pairs.times())
                more = sum(column.nbytes for column in part.columns)
                if parts and size + more > self._bytes_max:
                    records.append(concat_results(parts))
                    parts, size = [], 0
                parts.append(part)
                size += more
        return [*records, concat_results(parts)] if parts else []


def _without_failures(vector: Vector) -> Vector:
    return vector if vector.failed is None else Vector(vector.values, vector.valid)


def concat_results(parts: Sequence[Results]) -> Results:
    if len(parts) == 1:
        return parts[0]
    return Results(
        tuple(concat_vectors([part.columns[i] for part in parts]) for i in range(len(parts[0].columns))),
        np.concatenate([part.ids_high for part in parts]),
        np.concatenate([part.ids_low for part in parts]),
        np.concatenate([part.times for part in parts]),
    )


class StageEmission:
    """Partial results of one stage, as rows of the left side of the next. They inherit the greatest stamp of their
    parts, which is the probe's, and the least and greatest of their times. They travel whole: they are matches, and
    what was fetched for one serves all that are made of its tuples in the same batch. Were the places sent on instead,
    each unit of the next stage would fetch the same blocks again, and shuffled would have to be kept for partial
    results, too."""

    def __init__(
        self, plan: Plan, stage: Stage, producer: Producer, payloads: Payloads, record_bytes: int = RECORD_BYTES_MAX
    ) -> None:
        self._producer, self._payloads, self._record_bytes = producer, payloads, record_bytes
        following = plan.stages[stage.number + 1]
        self._routing = Routing(plan, following.number, LEFT)
        target = following.sides[LEFT]
        self._failing_keys = FailingKeys(target)
        self.failures = 0
        wanted: tuple[Column, ...] = target.columns
        self.expressions: tuple[Expression, ...] = wanted
        self._programs = tuple(PairPrograms(stage, side, wanted) for side in range(2))
        self._parts: list[tuple[int, ...]] = []
        for side in range(2):
            held = (*stage.sides[1 - side].relations, *stage.sides[side].relations)
            self._parts.append(tuple(held.index(relation) for relation in target.relations))

    def blocks(
        self, probes: Mapping[int, Rows], found: Mapping[int, list[Found]], table: RoutingTable
    ) -> list[tuple[Address, Record]]:
        parts: list[Rows] = []
        for side, chunks in found.items():
            for chunk in chunks:
                pairs = self._programs[side].pairs(probes[side], chunk, self._payloads)
                ids = pairs.ids()
                parts.append(
                    Rows(
                        pairs.stamps(),
                        tuple(ids[i] for i in self._parts[side]),
                        pairs.times(),
                        pairs.oldest(),
                        tuple(self._programs[side].run(pairs)),
                    )
                )
        if not parts:
            return []
        rows = concat_rows(parts)
        self.failures += self._failing_keys.count(rows.columns, len(rows))
        rows = rows.take(np.lexsort((*reversed(rows.ids), rows.stamps)))
        sends: list[tuple[Address, Record]] = []
        for share in self._routing.shares(rows, table):
            part = rows if share.rows is None else rows.take(share.rows)
            epoch = epoch_of(int(part.stamps[0]))
            block = Block(self._routing.stage, LEFT, share.role, self._producer, epoch, part)
            sends += ((unit_address(share.unit), piece) for piece in cut_block(block, self._record_bytes))
        return sends
