"""COUNT and SUM over the rows that qualify, without visiting them.

A run whose every row qualifies answers a probe from two positions: prefix sums for integers, a hierarchy of sums for
DOUBLE (kernels/prefix_sums.py), made when a run is first asked and kept with it. Rows that must be tested one by one,
which are those of this step and those of segments that straddle the window, are expanded and added up row by row; so
the totals are right everywhere and O(log n) wherever no test is due.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from biclique.index.arrangement import Bounds, arrange_probes
from biclique.index.columns import NumberColumn
from biclique.index.probing import Chunk, ProbeTests, RunExpansion
from biclique.index.protocol import ProbeCounters, ProbeKeys, ProbeOrder, RangeTotals, StoreLayout
from biclique.index.runs import Run
from biclique.index.segment import Reach, Segment
from biclique.kernels.dominance import level_starts
from biclique.kernels.expand import TOUCHED, WRITTEN
from biclique.kernels.prefix_sums import (
    add_counts,
    add_double_ranges,
    add_double_rows,
    add_integer_ranges,
    add_rows,
    add_valid_ranges,
    block_ends,
    count_blocks,
    sum_blocks,
    sum_nodes,
)
from biclique.query.types import Kind

NO_MASK = np.empty(0, np.bool_)

Ranges = tuple[NDArray[np.int64], NDArray[np.int64]]


@dataclass(frozen=True, slots=True)
class RunSums:
    """Of one column in one run. `counts` empty: no null, else values that are there, at ends of blocks. INTEGER: high
    and low sums there; DOUBLE: levels, and of their nodes sums and errors."""

    counts: NDArray[np.int64]
    parts: tuple[NDArray[Any], ...]

    @property
    def nbytes(self) -> int:
        return self.counts.nbytes + sum(part.nbytes for part in self.parts)


def sums_of(run: Run, column: NumberColumn, double: bool) -> RunSums:
    mask = column.valid
    ends = block_ends(len(run))
    counts = np.empty(0, np.int64)
    # A column may have got its first null after the run was made: rows before it are all there.
    if mask is not None:
        counts = np.empty(ends, np.int64)
        count_blocks(mask, run.rows, counts)
    mask = NO_MASK if mask is None else mask
    if double:
        levels = level_starts(len(run))
        nodes = int(levels[-1])
        sums, errors = np.empty(nodes), np.empty(nodes)
        sum_nodes(column.values, mask, run.rows, levels, sums, errors)
        return RunSums(counts, (levels, sums, errors))
    high, low = np.empty(ends, np.int64), np.empty(ends, np.int64)
    sum_blocks(column.values, mask, run.rows, high, low)
    return RunSums(counts, (high, low))


class Accumulator:
    """The totals of one column, one entry for each probing row."""

    __slots__ = ("double", "high", "low", "place", "valid")

    def __init__(self, place: int, double: bool, count: int) -> None:
        self.place, self.double = place, double
        self.valid = np.zeros(count, np.int64)
        kind = np.float64 if double else np.int64
        self.high: NDArray[Any] = np.zeros(count, kind)  # DOUBLE: the sum
        self.low: NDArray[Any] = np.zeros(count, kind)  # DOUBLE: its error

    def add_ranges(self, ranges: Ranges, probes: NDArray[np.int32], run: Run, segment: Segment, sums: RunSums) -> int:
        """Returns the values, nodes and ends of blocks touched."""
        column = segment.rows.columns[self.place]
        assert isinstance(column, NumberColumn)
        mask, touched = NO_MASK, 0
        if len(sums.counts) and column.valid is not None:
            mask = column.valid
            touched = int(add_valid_ranges(*ranges, probes, run.rows, mask, sums.counts, self.valid))
        else:
            add_counts(*ranges, probes, self.valid)
        add: Callable[..., int] = add_double_ranges if self.double else add_integer_ranges
        return touched + int(add(*ranges, probes, run.rows, column.values, mask, *sums.parts, self.high, self.low))

    def add_rows(self, chunk: Chunk, count: int, segment: Segment) -> None:
        column = segment.rows.columns[self.place]
        assert isinstance(column, NumberColumn)
        mask = NO_MASK if column.valid is None else column.valid
        add: Callable[..., None] = add_double_rows if self.double else add_rows
        pairs = chunk.matches(count)
        add(pairs.probe, pairs.stored, segment.base, column.values, mask, self.valid, self.high, self.low)


def range_totals(
    segments: Sequence[Segment],
    layout: StoreLayout,
    keys: ProbeKeys,
    bounds: Bounds,
    order: ProbeOrder,
    chunk: Chunk,
    counters: ProbeCounters,
) -> RangeTotals:
    count = np.zeros(keys.count, np.int64)
    columns = tuple(
        Accumulator(place, layout.column_types[place].kind is Kind.DOUBLE, keys.count) for place in layout.sums
    )
    probes = arrange_probes(keys, bounds)
    if probes is not None:
        counters.probes += len(probes)
        tests = ProbeTests(order, probes.numbers)
        ranges = chunk.prepare(len(probes))
        for segment in segments:
            reach = tests.times.reach(segment)
            if reach is Reach.OUTSIDE:
                continue
            straddles = reach is Reach.STRADDLES
            for run in segment.runs.all:
                touched = probes.ranges(run, *ranges)
                if touched < 0:
                    continue
                counters.lookups += len(probes)
                counters.comparisons += touched
                if not straddles and run.last_row < tests.fresh_row(segment):
                    add_counts(*ranges, probes.numbers, count)
                    for column, sums in zip(columns, _sums_of_run(run, segment, columns), strict=True):
                        counters.comparisons += column.add_ranges(ranges, probes.numbers, run, segment, sums)
                    continue
                expansion = RunExpansion(run, segment, probes, tests, straddles, ranges, chunk, 0)
                done = False
                while not done:
                    done = expansion.fill()
                    written = int(expansion.cursor[WRITTEN])
                    expansion.cursor[WRITTEN] = 0
                    count += np.bincount(chunk.probe[:written], minlength=keys.count)
                    for column in columns:
                        column.add_rows(chunk, written, segment)
                candidates = int(expansion.cursor[TOUCHED])
                counters.candidates += candidates
                counters.comparisons += candidates
    # One pass of full chunks costs len(count) each through bincount; a chunk holds more pairs than a step has probes.
    counters.matches += int(count.sum())
    return RangeTotals(
        count, tuple(column.valid for column in columns), tuple((column.high, column.low) for column in columns)
    )


def _sums_of_run(run: Run, segment: Segment, columns: Sequence[Accumulator]) -> tuple[RunSums, ...]:
    if len(run.sums) != len(columns):
        made = []
        for accumulator in columns:
            column = segment.rows.columns[accumulator.place]
            assert isinstance(column, NumberColumn)
            made.append(sums_of(run, column, accumulator.double))
        run.sums = tuple(made)
    return run.sums
