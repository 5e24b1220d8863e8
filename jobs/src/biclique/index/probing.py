"""Probing a chain: segment by segment and run by run, into chunks of matches.

A run answers with one range for each probe; ranges are expanded into the chunk's buffers until these are full, and the
cursor (probe, position in its range) says where to go on. So memory is bounded by the chunk, and the work done before a
chunk is handed on is bounded too.

Two tests are made on rows, and only where they can fail: the stamp in runs that hold a row of this step
(`fresh_from`), the window in segments that straddle it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from biclique.index.arrangement import Bounds, Probes, arrange_probes
from biclique.index.protocol import Matches, ProbeCounters, ProbeKeys, ProbeOrder
from biclique.index.runs import Run
from biclique.index.segment import ProbeTimes, Reach, Segment
from biclique.kernels.dominance import expand_dominance
from biclique.kernels.expand import TOUCHED, WRITTEN, expand_ranges, expand_tested, new_cursor
from biclique.kernels.scan import scan_rows

FRESH_NEVER = 1 << 31  # above every row number


class Chunk:
    """The buffers of a store's matches and ranges, made when first needed and used again."""

    __slots__ = ("_ends", "_pairs", "_starts", "probe", "stored")

    def __init__(self, pairs: int) -> None:
        self._pairs = pairs
        self.probe = np.empty(0, np.int32)
        self.stored = np.empty(0, np.int64)
        self._starts = np.empty(0, np.int64)
        self._ends = np.empty(0, np.int64)

    def prepare(self, probes: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        if len(self.probe) != self._pairs:
            self.probe, self.stored = np.empty(self._pairs, np.int32), np.empty(self._pairs, np.int64)
        if len(self._starts) < probes:
            self._starts, self._ends = np.empty(probes, np.int64), np.empty(probes, np.int64)
        return self._starts[:probes], self._ends[:probes]

    def matches(self, count: int) -> Matches:
        return Matches(self.probe[:count], self.stored[:count])


class ProbeTests:
    """What the tests need of the probes, in the order of `numbers`; times only where there is a window."""

    __slots__ = ("fresh_from", "newest", "oldest", "stamps", "times")

    def __init__(self, order: ProbeOrder, numbers: NDArray[np.int32]) -> None:
        self.times = ProbeTimes(order)
        self.fresh_from = order.fresh_from
        self.stamps = order.stamps[numbers]
        if self.times.timed:
            self.newest = order.newest[numbers]
            self.oldest = self.newest if order.oldest is order.newest else order.oldest[numbers]
        else:
            self.newest = self.oldest = np.zeros(len(numbers), np.int64)

    def fresh_row(self, segment: Segment) -> int:
        return min(max(0, self.fresh_from - segment.base), FRESH_NEVER)

    def arguments(self, segment: Segment, straddles: bool) -> tuple[Any, ...]:
        """The tail of the arguments of every testing kernel."""
        return (
            segment.rows.stamps,
            segment.rows.newest,
            segment.rows.oldest,
            self.stamps,
            self.newest,
            self.oldest,
            np.uint64(self.times.stored_window),
            np.uint64(self.times.probe_window),
            straddles,
        )


class RunExpansion:
    """The ranges of one run, to be expanded by one of three kernels."""

    __slots__ = ("_arguments", "_kernel", "cursor")

    def __init__(
        self,
        run: Run,
        segment: Segment,
        probes: Probes,
        tests: ProbeTests,
        straddles: bool,
        ranges: tuple[NDArray[np.int64], NDArray[np.int64]],
        chunk: Chunk,
        written: int,
    ) -> None:
        starts, ends = ranges
        self.cursor = new_cursor()
        self.cursor[WRITTEN] = written
        fresh_row = tests.fresh_row(segment)
        tested = straddles or run.last_row >= fresh_row
        self._kernel: Callable[..., bool]
        self._arguments: tuple[Any, ...]
        out = (run.rows, segment.base, self.cursor, chunk.probe, chunk.stored)
        if probes.second_low is not None:
            assert run.second is not None
            nodes = run.hierarchy
            self._kernel = expand_dominance
            self._arguments = (
                *(starts, ends, probes.numbers, probes.second_low, probes.second_high, run.second),
                *(nodes.levels, nodes.greatest, nodes.least),
                *out,
                fresh_row,
                *tests.arguments(segment, straddles),
            )
        elif tested:
            self._kernel = expand_tested
            self._arguments = (starts, ends, probes.numbers, *out, fresh_row, *tests.arguments(segment, straddles))
        else:
            self._kernel = expand_ranges
            self._arguments = (starts, ends, probes.numbers, *out)

    def fill(self) -> bool:
        """True: done; False: the chunk is full."""
        return bool(self._kernel(*self._arguments))


def probe_runs(
    segments: Sequence[Segment],
    keys: ProbeKeys,
    bounds: Bounds,
    order: ProbeOrder,
    chunk: Chunk,
    counters: ProbeCounters,
) -> Iterator[Matches]:
    probes = arrange_probes(keys, bounds)
    if probes is None:
        return
    counters.probes += len(probes)
    tests = ProbeTests(order, probes.numbers)
    ranges = chunk.prepare(len(probes))
    written = 0
    for segment in list(segments):
        reach = tests.times.reach(segment)
        if reach is Reach.OUTSIDE:
            continue
        for run in list(segment.runs.all):
            touched = probes.ranges(run, *ranges)
            if touched < 0:
                continue
            counters.lookups += len(probes)
            expansion = RunExpansion(run, segment, probes, tests, reach is Reach.STRADDLES, ranges, chunk, written)
            while not expansion.fill():
                written = int(expansion.cursor[WRITTEN])
                counters.matches += written
                yield chunk.matches(written)
                expansion.cursor[WRITTEN] = 0
            written = int(expansion.cursor[WRITTEN])
            candidates = int(expansion.cursor[TOUCHED])
            counters.candidates += candidates
            counters.comparisons += touched + candidates
    if written:
        counters.matches += written
        yield chunk.matches(written)


def probe_scan(
    segments: Sequence[Segment], keys: ProbeKeys, order: ProbeOrder, chunk: Chunk, counters: ProbeCounters
) -> Iterator[Matches]:
    chosen = np.arange(keys.count) if keys.active is None else np.flatnonzero(keys.active)
    numbers = chosen.astype(np.int32)
    if len(numbers) == 0:
        return
    counters.probes += len(numbers)
    tests = ProbeTests(order, numbers)
    limits, _ = chunk.prepare(len(numbers))
    written = 0
    for segment in list(segments):
        reach = tests.times.reach(segment)
        if reach is Reach.OUTSIDE:
            continue
        counters.lookups += len(numbers)
        _, newest, oldest, _, probe_newest, probe_oldest, *windows = tests.arguments(segment, reach is Reach.STRADDLES)
        fresh_row = tests.fresh_row(segment)
        limits[:] = len(segment)
        if fresh_row < len(segment):
            limits[:] = fresh_row + np.searchsorted(segment.rows.stamps[fresh_row:], tests.stamps)
        cursor = new_cursor()
        cursor[WRITTEN] = written
        while not scan_rows(
            *(limits, numbers, segment.base, cursor, chunk.probe, chunk.stored),
            *(newest, oldest, probe_newest, probe_oldest),
            *windows,
        ):
            counters.matches += int(cursor[WRITTEN])
            yield chunk.matches(int(cursor[WRITTEN]))
            cursor[WRITTEN] = 0
        written = int(cursor[WRITTEN])
        counters.candidates += int(cursor[TOUCHED])
        counters.comparisons += int(cursor[TOUCHED])
    if written:
        counters.matches += written
        yield chunk.matches(written)
