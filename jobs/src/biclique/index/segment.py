"""One link of the chain: rows of an archive period in stamp order, their sorted runs, and the bounds of their times.

A segment is open (the last of the chain, it takes rows) or sealed (immutable but for the merging of its runs into one).
"""

from __future__ import annotations

from enum import Enum

import numpy as np
from numpy.typing import NDArray

from biclique.core.rows import Rows
from biclique.index.columns import StoredRows
from biclique.index.protocol import KEY_MAX, KEY_MIN, ProbeOrder, StoreLayout
from biclique.index.runs import Runs, SortKeys, sorted_run
from biclique.kernels.qualify import WINDOW_NONE


class Reach(Enum):
    """Where a segment lies in the windows of a batch of probes."""

    OUTSIDE = "no pair can qualify"
    INSIDE = "every pair qualifies"
    STRADDLES = "each pair is tested"


class Segment:
    """`base`: the reference of its first row; `opened_at`: the greatest time of the chain before it."""

    __slots__ = (
        "base",
        "bound_seen",
        "newest_max",
        "newest_min",
        "oldest_max",
        "oldest_min",
        "opened_at",
        "rows",
        "runs",
        "sealed",
    )

    def __init__(self, layout: StoreLayout, base: int, opened_at: int | None) -> None:
        self.base, self.opened_at = base, opened_at
        self.rows = StoredRows(layout.column_types, layout.id_parts)
        self.runs = Runs()
        self.newest_min, self.newest_max = KEY_MAX, KEY_MIN
        self.oldest_min, self.oldest_max = KEY_MAX, KEY_MIN
        self.sealed = False
        self.bound_seen: int | None = None  # by the first expiry since it was opened

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def end(self) -> int:
        return self.base + len(self.rows)

    @property
    def nbytes(self) -> int:
        return self.rows.nbytes + self.runs.nbytes

    @property
    def bytes_reserved(self) -> int:
        """Every run may be on its way into a greater one; not where there is one run for good."""
        runs = self.runs.settled_bytes
        return self.rows.nbytes + (runs if self.sealed and self.runs.settled else 2 * runs)

    def extend(self, rows: Rows, keys: SortKeys | None, indexed: NDArray[np.bool_] | None) -> None:
        assert not self.sealed
        start = len(self.rows)
        self.rows.extend(rows)
        self.newest_min = min(self.newest_min, int(rows.newest.min()))
        self.newest_max = max(self.newest_max, int(rows.newest.max()))
        self.oldest_min = min(self.oldest_min, int(rows.oldest.min()))
        self.oldest_max = max(self.oldest_max, int(rows.oldest.max()))
        if keys is None:
            return
        numbers = np.arange(start, start + len(rows), dtype=np.int32)
        if indexed is not None and not indexed.all():
            numbers = numbers[indexed]
            keys = SortKeys(
                keys.major[indexed],
                None if keys.minor is None else keys.minor[indexed],
                None if keys.second is None else keys.second[indexed],
            )
        if len(numbers):
            self.runs.add(sorted_run(keys, numbers))

    def seal(self) -> None:
        self.sealed = True
        self.rows.trim()
        self.runs.seal()


class ProbeTimes:
    """The bounds of a batch of probes' times, against which each segment is placed; plain ints, which cannot
    overflow."""

    __slots__ = ("newest_max", "newest_min", "oldest_max", "oldest_min", "probe_window", "stored_window", "timed")

    def __init__(self, order: ProbeOrder) -> None:
        self.timed = order.stored_window_us is not None or order.probe_window_us is not None
        self.stored_window = WINDOW_NONE if order.stored_window_us is None else order.stored_window_us
        self.probe_window = WINDOW_NONE if order.probe_window_us is None else order.probe_window_us
        if self.timed:
            self.newest_min, self.newest_max = int(order.newest.min()), int(order.newest.max())
            self.oldest_min, self.oldest_max = int(order.oldest.min()), int(order.oldest.max())

    def reach(self, segment: Segment) -> Reach:
        if not self.timed:
            return Reach.INSIDE
        if segment.oldest_max < self.oldest_min:
            narrow = wide = self.stored_window
        elif segment.oldest_min > self.oldest_max:
            narrow = wide = self.probe_window
        else:
            narrow, wide = sorted((self.stored_window, self.probe_window))
        greatest, least = max(segment.newest_max, self.newest_max), min(segment.oldest_min, self.oldest_min)
        if greatest - least <= narrow:
            return Reach.INSIDE
        if max(segment.newest_min - self.oldest_max, self.newest_min - segment.oldest_max) > wide:
            return Reach.OUTSIDE
        return Reach.STRADDLES
