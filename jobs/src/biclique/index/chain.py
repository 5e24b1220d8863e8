"""The chained index: a side's tuples of one unit as a chain of segments, of which only the last one grows.

References number the rows ever appended, so they follow on within an append and across segments, and a segment is
found by its first reference.

A segment is archived (sealed) once the chain's greatest time has moved on by more than the archive period since the
segment was opened. For rows in time order that is the same as newest - oldest > period. For rows out of order it is
not: a single late row would make every new segment span more than the period at once, and the chain would fall into
segments of one row. As it is, a window of time holds at most window / period + 2 segments, whatever the order. A
segment with fewer than `segment_rows_min` rows is not archived yet: a side with few rows a period (or one that is read
faster than it was written) would pay for a look-up per handful of rows. In full history a segment ends at
SEGMENT_ROWS_MAX.

Expiry drops a segment once its greatest `oldest` time is below the bound (Theorem 1: no later probe can qualify with
any of its rows). A row that is not indexed is stored and expires as the others do: it counts, and a checkpoint holds
it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from biclique.core.rows import Rows, Vector, concat_rows, concat_vectors
from biclique.core.stamps import Ids, Stamps
from biclique.index.arrangement import Arrangement
from biclique.index.columns import StoredRows
from biclique.index.probing import Chunk, probe_runs, probe_scan
from biclique.index.protocol import (
    Matches,
    ProbeCounters,
    ProbeKeys,
    ProbeOrder,
    RangeTotals,
    StoredKeys,
    StoreLayout,
)
from biclique.index.runs import SortKeys
from biclique.index.segment import Segment
from biclique.index.totals import range_totals
from biclique.query.types import Kind

Taken = TypeVar("Taken", Rows, Vector, NDArray[np.int64])

SEGMENT_ROWS_MAX = 1 << 30  # row numbers within a segment are int32


class ChainStore:
    """A Store (index/protocol.py). `arrangement` None: no key, every stored row is a candidate."""

    def __init__(
        self, layout: StoreLayout, arrangement: Arrangement | None, summable: bool, pairs_per_chunk: int
    ) -> None:
        self.counters = ProbeCounters()
        self._layout = layout
        self._has_texts = any(type_.kind is Kind.STRING for type_ in layout.column_types)
        self._arrangement = arrangement
        self._summable = summable
        self._segments: list[Segment] = []
        self._end = 0
        self._newest: int | None = None  # greatest time ever appended
        self._chunk = Chunk(pairs_per_chunk)

    @property
    def end(self) -> int:
        return self._end

    @property
    def rows(self) -> int:
        return sum(len(segment) for segment in self._segments)

    @property
    def bytes(self) -> int:
        return sum(segment.nbytes for segment in self._segments)

    @property
    def bytes_reserved(self) -> int:
        return sum(segment.bytes_reserved for segment in self._segments)

    def bytes_below(self, oldest_needed: int) -> int:
        return sum(segment.rows.nbytes for segment in self._segments if segment.oldest_max < oldest_needed)

    @property
    def segments(self) -> int:
        return len(self._segments)

    @property
    def runs(self) -> int:
        """What a probe pays for: one look-up each."""
        return sum(len(segment.runs.all) for segment in self._segments)

    # --- storing -----------------------------------------------------------------------------------------------------

    def append(self, rows: Rows, keys: StoredKeys) -> int:
        first = self._end
        count = len(rows)
        if count == 0:
            return first
        sort_keys = None if self._arrangement is None else self._arrangement.sort_keys(keys)
        # Before the rows come: merged with these, a whole run would be held against the stamps of this step's probes.
        for segment in self._segments:
            if segment.sealed and not segment.runs.settled:
                segment.runs.settle(count)
        start = 0
        while start < count:
            segment = self._open_segment()
            stop, full = self._room(segment, rows, start)
            whole = start == 0 and stop == count
            segment.extend(
                rows if whole else rows.slice(start, stop),
                sort_keys if whole or sort_keys is None else _slice_keys(sort_keys, start, stop),
                keys.indexed if whole or keys.indexed is None else keys.indexed[start:stop],
            )
            self._end += stop - start
            newest = segment.newest_max
            self._newest = newest if self._newest is None else max(self._newest, newest)
            if full:
                segment.seal()
            start = stop
        return first

    def _open_segment(self) -> Segment:
        if not self._segments or self._segments[-1].sealed:
            self._segments.append(Segment(self._layout, self._end, self._newest))
        return self._segments[-1]

    def _room(self, segment: Segment, rows: Rows, start: int) -> tuple[int, bool]:
        """How far into the rows the segment goes on, and whether it is then to be sealed."""
        stop = min(len(rows), start + SEGMENT_ROWS_MAX - len(segment))
        full = len(segment) + stop - start == SEGMENT_ROWS_MAX
        period = self._layout.archive_period_us
        if period is not None:
            if segment.opened_at is None:
                segment.opened_at = int(rows.newest[start])
            # A row beyond the period is the segment's last. Times near the ends of int64 must not wrap.
            bound = segment.opened_at + period
            beyond = rows.newest[start:stop] > bound if bound < np.iinfo(np.int64).max else np.zeros(0, np.bool_)
            beyond[: max(0, self._layout.segment_rows_min - len(segment) - 1)] = False
            place = int(beyond.argmax()) if len(beyond) else 0
            if len(beyond) and beyond[place]:
                return start + place + 1, True
        return stop, full

    def expire(self, oldest_needed: int) -> int:
        self._seal_by_bound(oldest_needed)
        kept = [segment for segment in self._segments if segment.oldest_max >= oldest_needed]
        dropped = self.rows - sum(len(segment) for segment in kept)
        self._segments = kept
        return dropped

    def _seal_by_bound(self, oldest_needed: int) -> None:
        """Also where the rows' times tell nothing: one row far ahead of all others would else keep its segment open,
        and all that follows in it, for ever."""
        period = self._layout.archive_period_us
        if period is None or not self._segments or self._segments[-1].sealed:
            return
        segment = self._segments[-1]
        if segment.bound_seen is None:
            segment.bound_seen = oldest_needed
        elif oldest_needed - segment.bound_seen > period and len(segment) >= self._layout.segment_rows_min:
            segment.seal()

    # --- finding -----------------------------------------------------------------------------------------------------

    def probe(self, keys: ProbeKeys, order: ProbeOrder) -> Iterator[Matches]:
        if self._arrangement is None:
            return probe_scan(self._segments, keys, order, self._chunk, self.counters)
        return probe_runs(self._segments, keys, self._arrangement.bounds(keys), order, self._chunk, self.counters)

    def totals(self, keys: ProbeKeys, order: ProbeOrder) -> RangeTotals | None:
        if not self._summable or self._arrangement is None:
            return None
        return range_totals(
            self._segments, self._layout, keys, self._arrangement.bounds(keys), order, self._chunk, self.counters
        )

    # --- reading back ------------------------------------------------------------------------------------------------

    def gather(self, stored: NDArray[np.int64]) -> Rows:
        return self._collect(stored, StoredRows.take, concat_rows)

    def column(self, position: int, stored: NDArray[np.int64]) -> Vector:
        return self._collect(
            stored, lambda rows, numbers, base: rows.columns[position].take(numbers, base), concat_vectors
        )

    def names(self, stored: NDArray[np.int64]) -> tuple[Stamps, tuple[Ids, ...]]:
        rows = self._collect(stored, StoredRows.names, concat_rows)
        return rows.stamps, rows.ids

    def text_bytes(self, stored: NDArray[np.int64]) -> NDArray[np.int64] | None:
        if not self._has_texts:
            return None
        return self._collect(stored, StoredRows.text_bytes, np.concatenate)

    def _collect(
        self,
        stored: NDArray[np.int64],
        take: Callable[[StoredRows, NDArray[np.int64], int], Taken],
        concat: Callable[[Sequence[Taken]], Taken],
    ) -> Taken:
        if len(stored) == 0:
            return take(StoredRows(self._layout.column_types, self._layout.id_parts), stored, 0)
        least = int(stored.min())
        assert self._segments[0].base <= least and int(stored.max()) < self._end, "a reference to a row not stored"
        last = self._segments[-1]
        if least >= last.base:
            return take(last.rows, stored, last.base)
        bases = np.array([segment.base for segment in self._segments], np.int64)
        homes = np.searchsorted(bases, stored, side="right") - 1
        cuts: NDArray[np.int64] = np.flatnonzero(homes[1:] != homes[:-1]) + 1
        if len(cuts) > 4 * len(bases):
            # References in no order: by segment, and back.
            order = np.argsort(homes, kind="stable")
            back = np.empty(len(order), np.int64)
            back[order] = np.arange(len(order))
            return self._collect(stored[order], take, concat).take(back)
        parts = []
        for start, stop in pairwise([0, *cuts.tolist(), len(stored)]):
            segment = self._segments[int(homes[start])]
            parts.append(take(segment.rows, stored[start:stop], segment.base))
        return concat(parts)

    def rows_from(self, position: int, rows_max: int, bytes_max: int) -> tuple[Rows, int]:
        parts: list[Rows] = []
        at, count, size = position, 0, 0
        for segment in self._segments:
            if segment.end <= at:
                continue
            first = max(0, at - segment.base)
            fitting = segment.rows.fitting(first, rows_max - count, bytes_max - size)
            stop = max(fitting, first + 1) if not parts else fitting
            if stop > first:
                parts.append(segment.rows.slice(first, stop))
                at, count, size = segment.base + stop, count + stop - first, size + parts[-1].nbytes
            if stop < len(segment):
                break
        if not parts:
            return StoredRows(self._layout.column_types, self._layout.id_parts).slice(0, 0), self._end
        return concat_rows(parts), at


def _slice_keys(keys: SortKeys, start: int, stop: int) -> SortKeys:
    return SortKeys(
        keys.major[start:stop],
        None if keys.minor is None else keys.minor[start:stop],
        None if keys.second is None else keys.second[start:stop],
    )
