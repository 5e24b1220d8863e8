"""What the machine itself asks for size: a random read from little and from much memory, many of them under way at a
time, as a block of probes has them. No index can grow cheaper than that ratio where it must read what no cache holds.
"""

from __future__ import annotations

import time

import numpy as np
from numba import njit
from numpy.typing import NDArray

READS = 2_000_000
Cells = NDArray[np.int64]


@njit(cache=True, nogil=True)
def _sum_of(cells: Cells, places: NDArray[np.uint64]) -> int:
    total = 0
    for i in range(len(places)):
        total += cells[places[i]]
    return total


def random_read_ns(size_bytes: int) -> float:
    cells = np.arange(size_bytes // 8)
    places = np.random.default_rng(1).integers(0, len(cells), READS).astype(np.uint64)
    best = float("inf")
    for _ in range(4):  # the first one compiles
        start = time.perf_counter()
        _sum_of(cells, places)
        best = min(best, time.perf_counter() - start)
    return 1e9 * best / READS
