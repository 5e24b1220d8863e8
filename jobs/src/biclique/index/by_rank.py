"""A window of so many tuples: a store whose measure of time is the rank (core/ranks.py).

Stores hold two times of a row, and ask of a pair only how far they are apart. Here both are the row's rank among the
tuples of its relation, so bounds, straddling segments, archive periods and expiry are those of any window; the event
time, which makes the result's time, is kept as one more column. The probing rows' times must be their ranks among the
same relation's tuples: ProbeOrder holds those.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from biclique.core.rows import Rows, Vector
from biclique.core.stamps import Ids, Stamps
from biclique.index.protocol import Matches, ProbeCounters, ProbeKeys, ProbeOrder, RangeTotals, Store, StoredKeys


class ByRankStore:
    """A Store. Rows go in and come out with their rank as their only ordinal. `inner`: keeps one more TIMESTAMP."""

    def __init__(self, inner: Store) -> None:
        self._inner = inner
        self.counters: ProbeCounters = inner.counters

    def append(self, rows: Rows, keys: StoredKeys) -> int:
        (rank,) = rows.ordinals
        measured = Rows(rows.stamps, rows.ids, rank, rank, (*rows.columns, Vector(rows.newest)))
        return self._inner.append(measured, keys)

    def probe(self, keys: ProbeKeys, order: ProbeOrder) -> Iterator[Matches]:
        return self._inner.probe(keys, order)

    def totals(self, keys: ProbeKeys, order: ProbeOrder) -> RangeTotals | None:
        return self._inner.totals(keys, order)

    def gather(self, stored: NDArray[np.int64]) -> Rows:
        return _in_time(self._inner.gather(stored))

    def column(self, position: int, stored: NDArray[np.int64]) -> Vector:
        return self._inner.column(position, stored)

    def names(self, stored: NDArray[np.int64]) -> tuple[Stamps, tuple[Ids, ...]]:
        return self._inner.names(stored)

    def text_bytes(self, stored: NDArray[np.int64]) -> NDArray[np.int64] | None:
        return self._inner.text_bytes(stored)

    def expire(self, oldest_needed: int) -> int:
        return self._inner.expire(oldest_needed)

    def rows_from(self, position: int, rows_max: int, bytes_max: int) -> tuple[Rows, int]:
        measured, behind = self._inner.rows_from(position, rows_max, bytes_max)
        return _in_time(measured), behind

    @property
    def end(self) -> int:
        return self._inner.end

    @property
    def rows(self) -> int:
        return self._inner.rows

    @property
    def bytes(self) -> int:
        return self._inner.bytes

    @property
    def bytes_reserved(self) -> int:
        return self._inner.bytes_reserved

    def bytes_below(self, oldest_needed: int) -> int:
        return self._inner.bytes_below(oldest_needed)


def _in_time(measured: Rows) -> Rows:
    *columns, times = measured.columns
    assert isinstance(times.values, np.ndarray)
    newest = times.values.astype(np.int64, copy=False)
    return Rows(measured.stamps, measured.ids, newest, newest, tuple(columns), (measured.newest,))
