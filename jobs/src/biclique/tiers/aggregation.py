"""Aggregation in the joiner: the matches of a step become shares of groups, and only those travel to the mergers.

Where no pair has to be looked at (plan/range_totals.py), counts and sums come from the index. `SELECT DISTINCT` travels
as groups without aggregates: the row itself is the key, with a window its time too.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from biclique.core.rows import Rows, Vector, concat_vectors
from biclique.index.protocol import RangeTotals
from biclique.kernels.evaluate import Program, compile_expression, failures
from biclique.kernels.hashing import hash_rows
from biclique.kernels.partials import Shares, StoredTotals, from_totals, shares_of, window_starts
from biclique.plan.model import Plan, Side
from biclique.plan.range_totals import SideTotals, range_totals
from biclique.query.expression import Expression
from biclique.query.model import Aggregate, GroupKey, Query
from biclique.query.types import TIMESTAMP, Type
from biclique.tiers.cutting import RECORD_BYTES_MAX, cut_partials
from biclique.tiers.emission import PairPrograms
from biclique.tiers.found import Found
from biclique.tiers.matching import Probing
from biclique.tiers.messages import Address, Partials, Producer, Record, Topic
from biclique.tiers.payloads import Payloads
from biclique.tiers.state import positions_of


def key_expressions(query: Query) -> tuple[Expression, ...]:
    if query.aggregating:
        return query.group_by
    return tuple(item.value for item in query.items if not isinstance(item.value, Aggregate | GroupKey))


def distinct_window_us(query: Query) -> int | None:
    """The window within which an equal row is not written again; None: never again."""
    if not query.distinct:
        return None
    windows = [relation.window.time_us for relation in query.relations]
    return None if None in windows else max(window for window in windows if window is not None)


def key_types(query: Query) -> tuple[Type, ...]:
    """Of `Partials.keys`. The last is a time where windows close or a DISTINCT row may come again."""
    types = tuple(expression.type for expression in key_expressions(query))
    timed = query.tumble_us is not None or distinct_window_us(query) is not None
    return (*types, TIMESTAMP) if timed else types


class PartialEmission:
    """Of one unit of the last stage."""

    def __init__(
        self, plan: Plan, producer: Producer, payloads: Payloads, record_bytes: int = RECORD_BYTES_MAX
    ) -> None:
        self._query, self._producer, self._mergers = plan.query, producer, plan.mergers
        self._payloads, self._record_bytes = payloads, record_bytes
        stage = plan.stages[-1]
        self._values = tuple(i.value for i in plan.query.items if isinstance(i.value, Aggregate | GroupKey))
        keys = key_expressions(plan.query)
        self._key_count = len(keys)
        arguments = [v.argument for v in self._values if isinstance(v, Aggregate) and v.argument is not None]
        self.expressions: tuple[Expression, ...] = (*keys, *arguments)
        self._programs = tuple(PairPrograms(stage, side, self.expressions) for side in range(2))
        self._without_pairs = tuple(
            None if totals is None else _WithoutPairs(plan.query, stage.sides[1 - side], totals)
            for side, totals in enumerate(range_totals(plan.query, stage))
        )
        self.failures = 0

    def sums(self, side: int) -> tuple[int, ...]:
        """The columns of a stored side of which range sums are asked."""
        found = self._without_pairs[side]
        return found.summed if found else ()

    def partials(
        self, probes: Mapping[int, Rows], found: Mapping[int, list[Found]], epoch: int
    ) -> list[tuple[Address, Record]]:
        columns: list[list[Vector]] = []
        times: list[NDArray[np.int64]] = []
        for side, chunks in found.items():
            for chunk in chunks:
                pairs = self._programs[side].pairs(probes[side], chunk, self._payloads)
                made = self._programs[side].run(pairs)
                self.failures += sum(failures(column) for column in made)
                columns.append([Vector(column.values, column.valid) for column in made])
                times.append(pairs.times())
        if not columns:
            return []
        joined = [concat_vectors([part[i] for part in columns]) for i in range(len(columns[0]))]
        newest = np.concatenate(times)
        keys = [*joined[: self._key_count], *self._time_keys(newest)]
        arguments = iter(joined[self._key_count :])
        given = [next(arguments) if isinstance(v, Aggregate) and v.argument is not None else None for v in self._values]
        return self._addressed(shares_of(self._values, keys, given, newest), epoch)

    def from_totals(
        self, probings: Mapping[int, Probing], probes: Mapping[int, Rows], fresh_from: Mapping[int, int], epoch: int
    ) -> list[tuple[Address, Record]] | None:
        """The shares of a whole step without a look at its pairs; None where that is not possible."""
        if any(self._without_pairs[side] is None for side in probes):
            return None  # before the other side is asked in vain
        answers: list[tuple[_WithoutPairs, Rows, list[RangeTotals]]] = []
        for side, rows in probes.items():
            way = self._without_pairs[side]
            found = None if way is None or not way.fits(rows) else probings[side].totals(rows, fresh_from[side])
            if way is None or found is None:
                return None
            answers.append((way, rows, found))
        sends: list[tuple[Address, Record]] = []
        for way, rows, found in answers:
            keys = [program.run(rows.columns, len(rows)) for program in way.keys]
            own = [None if program is None else program.run(rows.columns, len(rows)) for program in way.arguments]
            masks = [column.failed for column in (*keys, *own) if column is not None and column.failed is not None]
            for totals in found:
                # As often as the pairs would have shown it.
                self.failures += sum(int(totals.count[mask].sum()) for mask in masks)
                sources: list[Vector | StoredTotals | None] = []
                for argument, place in zip(own, way.places, strict=True):
                    if place is not None:
                        first, second = totals.sums[place]
                        sources.append(StoredTotals(totals.valid[place], first, second))
                    else:
                        sources.append(None if argument is None else Vector(argument.values, argument.valid))
                plain = [Vector(key.values, key.valid) for key in keys]
                shares = from_totals(self._values, plain, rows.newest, totals.count, sources)
                sends += self._addressed(shares, epoch)
        return sends

    def _time_keys(self, newest: NDArray[np.int64]) -> list[Vector]:
        if self._query.tumble_us is not None:
            return [window_starts(newest, self._query.tumble_us)]
        return [] if distinct_window_us(self._query) is None else [Vector(newest)]

    def _addressed(self, shares: Shares, epoch: int) -> list[tuple[Address, Record]]:
        """A group belongs to one merger, by its key without any time."""
        if not len(shares):
            return []
        if self._mergers == 1:
            return self._cut(0, _partials(self._producer, epoch, shares))
        hashes, _ = hash_rows(shares.keys[: self._key_count], len(shares))
        owner = hashes % np.uint64(self._mergers)
        sends: list[tuple[Address, Record]] = []
        for number in range(self._mergers):
            rows = np.flatnonzero(owner == number)
            if len(rows):
                sends += self._cut(number, _partials(self._producer, epoch, taken(shares, rows)))
        return sends

    def _cut(self, merger: int, partials: Partials) -> list[tuple[Address, Record]]:
        return [(Address(Topic.PARTIALS, merger), piece) for piece in cut_partials(partials, self._record_bytes)]


def _partials(producer: Producer, epoch: int, shares: Shares) -> Partials:
    return Partials(producer, epoch, shares.keys, shares.states, shares.newest)


def taken(shares: Shares, rows: NDArray[np.int64]) -> Shares:
    return Shares(
        tuple(key.take(rows) for key in shares.keys),
        tuple(tuple(column.take(rows) for column in state) for state in shares.states),
        shares.newest[rows],
    )


class _WithoutPairs:
    """How a query's aggregates follow from counts and sums of stored ranges, for probes into one side."""

    def __init__(self, query: Query, probing: Side, totals: SideTotals) -> None:
        """For each item either the probing side's argument, or the place among the summed stored columns, or none."""
        positions = positions_of(probing.columns)
        self.places, self.summed = totals.places, totals.summed
        self.keys = tuple(compile_expression(key, positions) for key in query.group_by)
        self.arguments: list[Program | None] = []
        for item, place in zip(query.items, totals.places, strict=True):
            argument = item.value.argument if isinstance(item.value, Aggregate) and place is None else None
            self.arguments.append(None if argument is None else compile_expression(argument, positions))

    def fits(self, rows: Rows) -> bool:
        """Whether the texts that keys and arguments are of all these rows are few enough to be made at once."""
        programs = (*self.keys, *(program for program in self.arguments if program is not None))
        return all(program.pace is None or program.pace.fits(rows.columns, len(rows)) for program in programs)
