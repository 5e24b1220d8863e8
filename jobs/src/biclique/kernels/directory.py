"""A directory of a sorted run: where in it the keys of each bucket begin.

A bucket is a stretch of 2**shift key values, the first beginning at the run's least key. starts[b] is how many keys
lie in buckets below b; the last entry is how many keys there are. A value's place is then a look-up and a search among
the few keys of its bucket: where a binary search of a run beyond the caches waits for memory level after level, this
waits once for the directory (small, and read in ascending order) and once for the keys, a group of probes at a time
(kernels/prefetch.py).

Nothing is asked of the keys but order: an uneven spread makes crowded buckets, and those dear, never a wrong answer.
Distances of keys are taken in unsigned numbers, which hold that of any two.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy import uint64 as place
from numpy.typing import NDArray

from biclique.kernels.prefetch import prefetch
from biclique.kernels.sorted_runs import range_ends

Keys = NDArray[np.int64]
Positions = NDArray[np.int64]
Starts = NDArray[np.int32]

GROUP = 64  # probes: as many misses as can be waited for together, few enough for the first-level cache
CROWDED_ROWS = 64
BUCKETS_STANDING, ROWS_CROWDED = 0, 1  # the cells of a cursor


@njit(cache=True, nogil=True)
def begin_buckets(
    keys: Keys, first: int, last: int, starts: Starts, least: int, shift: int, cursor: NDArray[np.int64]
) -> None:
    """Go on with the directory, all zero at first, from keys[first] to keys[last - 1]. An entry stands when keys of a
    later bucket have been seen, or all keys."""
    if first == last:
        return
    bits, zero = np.uint64(shift), np.uint64(least)
    one = np.uint64(1)
    for i in range(first, last):  # the last key of a bucket has the last word, and no branch is guessed
        starts[((np.uint64(keys[place(i)]) - zero) >> bits) + one] = i + 1
    standing, crowded = cursor[0], cursor[1]
    newest = np.int64((np.uint64(keys[place(last - 1)]) - zero) >> bits)
    whole = newest if last < len(keys) else newest + 1
    for bucket in range(standing, whole):
        start = np.int64(starts[place(bucket)])
        end = max(start, np.int64(starts[place(bucket + 1)]))  # an empty bucket has got no entry yet
        starts[place(bucket + 1)] = end
        crowded += end - start if end - start > CROWDED_ROWS else 0
    cursor[0], cursor[1] = whole, crowded


@njit(cache=True, nogil=True)
def directed_bounds(keys: Keys, starts: Starts, least: int, shift: int, values: Keys, positions: Positions) -> int:
    """positions[i] = how many keys are < values[i], in whatever order values come; returns the keys touched."""
    touched = 0
    for group in range(0, len(values), GROUP):
        stop = min(group + GROUP, len(values))
        touched += _within_buckets(keys, starts, least, shift, values[group:stop], positions[group:stop])
    return touched


@njit(cache=True, nogil=True)
def directed_ranges(
    keys: Keys, starts: Starts, least: int, shift: int, lows: Keys, highs: Keys, begins: Positions, ends: Positions
) -> int:
    """Both ends of lows[i] <= key <= highs[i], where ranges are short; highs not below their lows."""
    touched = 0
    for group in range(0, len(lows), GROUP):
        stop = min(group + GROUP, len(lows))
        touched += _within_buckets(keys, starts, least, shift, lows[group:stop], begins[group:stop])
        touched += range_ends(keys, highs[group:stop], begins[group:stop], ends[group:stop])
    return touched


@njit(cache=True, nogil=True)
def _within_buckets(keys: Keys, starts: Starts, least: int, shift: int, values: Keys, positions: Positions) -> int:
    """A group in lockstep (kernels/sorted_runs.py), all over as many keys as the fullest of its buckets holds: what is
    searched beyond a bucket's end is not below the value, and before its start is."""
    size, rows, touched, length = len(values), len(keys), 0, np.int64(0)
    bits, last = np.uint64(shift), np.uint64(len(starts) - 2)
    for i in range(size):
        distance = np.uint64(max(values[i], least)) - np.uint64(least)
        bucket = min(distance >> bits, last)
        start = np.int64(starts[bucket])
        positions[i] = start
        prefetch(keys, place(start))
        length = max(length, np.int64(starts[bucket + np.uint64(1)]) - start)
    for i in range(size):
        positions[i] = min(positions[i], rows - length)
    while length > 0:
        half = (length + 1) >> 1
        for i in range(size):
            at = positions[i]
            positions[i] = at + (half if keys[place(at + half - 1)] < values[i] else 0)
        length -= half
        touched += size
    return touched
