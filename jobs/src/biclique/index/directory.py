"""The directory of a run (kernels/directory.py), made as the run is: a piece with each piece of the merge.

It is as wide as the keys need: buckets of a power of two of key values, as few as hold BUCKET_ROWS rows or more on
average. Four bytes a bucket are a byte a row at most. Whether the keys are spread evenly enough for it is known
when all have been seen.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from biclique.kernels.directory import ROWS_CROWDED, Starts, begin_buckets

Keys = NDArray[np.int64]

BUCKET_ROWS = 4  # on average at least; in a line or two of the cache
CROWDED_SHARE_MAX = 0.5


class Directory:
    """Of a run of `rows` keys from `least` to `greatest`."""

    __slots__ = ("_cursor", "_least", "_seen", "_shift", "_starts")

    def __init__(self, least: int, greatest: int, rows: int) -> None:
        span, buckets_max = greatest - least, max(2, rows // BUCKET_ROWS)  # two: 64 bits are no shift
        self._least, self._shift = least, 0
        while span >> self._shift >= buckets_max:
            self._shift += 1
        self._starts: Starts = np.zeros((span >> self._shift) + 2, np.int32)
        self._cursor = np.zeros(2, np.int64)
        self._seen = 0

    def go_on(self, keys: Keys, known: int) -> None:
        """The first `known` of the run's keys are there."""
        begin_buckets(keys, self._seen, known, *self.arguments, self._cursor)
        self._seen = known

    @property
    def arguments(self) -> tuple[Starts, int, int]:
        """What its kernels ask for."""
        return self._starts, self._least, self._shift

    @property
    def even(self) -> bool:
        """Of a whole run: most rows lie in buckets of few. Else fences find a place sooner."""
        return bool(self._cursor[ROWS_CROWDED] <= CROWDED_SHARE_MAX * self._seen)

    @property
    def nbytes(self) -> int:
        return self._starts.nbytes
