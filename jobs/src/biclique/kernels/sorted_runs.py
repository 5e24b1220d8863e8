"""Sorted probes against a sorted run: the contiguous range of positions that each probe matches.

A run is ascending by one key (`keys`), or by two, lexicographically (`major`, `minor`). Probes come ascending by
their own key, so that neighbours in the probes look at neighbours in the run. They are searched a group at a time:
one gallop finds the stretch of the run in which the whole group lies, then all members halve that stretch in
lockstep. The halving has no branch that depends on data, and the loads of a group are independent of each other: the
processor waits for a group's cache misses together and not for one after the other, which is what makes a run of 10M
keys little dearer than one of 100k.

Every kernel returns how many keys it touched.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

Keys = NDArray[np.int64]
Positions = NDArray[np.int64]

GROUP = 32  # probes searched in lockstep: enough loads in flight, few enough to stay in registers and first-level cache
STRIDE_FIRST = 16  # first step of a gallop for a group


def sort_order(major: Keys, minor: Keys | None = None) -> NDArray[np.int64]:
    """The order that sorts by major, then minor. Of two argsorts by an unstable but fast sort, the second is made
    stable by sorting (dense rank, place after the first) as one number."""
    if minor is None:
        return np.argsort(major)
    by_minor = np.argsort(minor)
    values = major[by_minor]
    by_major = np.argsort(values)
    values = values[by_major]
    rank = np.zeros(len(values), np.int64)
    np.cumsum(values[1:] != values[:-1], out=rank[1:])
    packed = (rank << 32) | by_major
    packed.sort()
    order: NDArray[np.int64] = by_minor[packed & 0xFFFFFFFF]
    return order


@njit(cache=True, nogil=True)
def lower_bounds(keys: Keys, values: Keys, positions: Positions) -> int:
    """positions[i] = how many keys are < values[i]; values ascending."""
    count, rows, start, touched = len(values), len(keys), 0, 0
    for group in range(0, count, GROUP):
        stop = min(group + GROUP, count)
        last = values[stop - 1]
        end, stride = start, STRIDE_FIRST
        while end < rows and keys[end] < last:
            end += stride
            stride *= 2
            touched += 1
        length = min(end, rows) - start
        for i in range(group, stop):
            positions[i] = start
        # The answer of each member lies in [its position, its position + length].
        while length > 0:
            half = (length + 1) >> 1
            for i in range(group, stop):
                here = positions[i]
                positions[i] = here + half if keys[here + half - 1] < values[i] else here
            length -= half
            touched += stop - group
        start = positions[stop - 1]
    return touched


@njit(cache=True, nogil=True)
def range_ends(keys: Keys, highs: Keys, starts: Positions, ends: Positions) -> int:
    """ends[i] = how many keys are <= highs[i], searched by galloping on from starts[i]: cheap where ranges are short.

    An empty or crossed range ends where it starts.
    """
    rows, touched = len(keys), 0
    for i in range(len(starts)):
        high = highs[i]
        low_end, stride = starts[i], 1
        probe = low_end
        while probe < rows and keys[probe] <= high:
            low_end = probe + 1
            probe += stride
            stride *= 2
            touched += 1
        high_end = min(probe, rows)
        while low_end < high_end:
            middle = (low_end + high_end) >> 1
            touched += 1
            if keys[middle] <= high:
                low_end = middle + 1
            else:
                high_end = middle
        ends[i] = low_end
        touched += 1
    return touched


@njit(cache=True, nogil=True)
def composite_ranges(
    major: Keys, minor: Keys, equals: Keys, lows: Keys, highs: Keys, starts: Positions, ends: Positions
) -> int:
    """The range of (equals[i], lows[i]) to (equals[i], highs[i]); probes ascending by `equals` alone."""
    count, rows, start, touched = len(equals), len(major), 0, 0
    for group in range(0, count, GROUP):
        stop = min(group + GROUP, count)
        last = equals[stop - 1]
        end, stride = start, STRIDE_FIRST
        while end < rows and major[end] <= last:
            end += stride
            stride *= 2
            touched += 1
        end = min(end, rows)
        for i in range(group, stop):
            starts[i] = start
        length = end - start
        while length > 0:
            half = (length + 1) >> 1
            for i in range(group, stop):
                here = starts[i]
                at = here + half - 1
                less = (major[at] < equals[i]) | ((major[at] == equals[i]) & (minor[at] < lows[i]))
                starts[i] = here + half if less else here
            length -= half
            touched += stop - group
        for i in range(group, stop):
            equal, high = equals[i], highs[i]
            low_end, stride = starts[i], 1
            probe = low_end
            while probe < end and major[probe] == equal and minor[probe] <= high:
                low_end = probe + 1
                probe += stride
                stride *= 2
                touched += 1
            high_end = min(probe, end)
            while low_end < high_end:
                middle = (low_end + high_end) >> 1
                touched += 1
                if major[middle] == equal and minor[middle] <= high:
                    low_end = middle + 1
                else:
                    high_end = middle
            ends[i] = low_end
            touched += 1
        # The next group's keys are at or above `last`: everything below it is behind us.
        low_end, high_end = start, end
        while low_end < high_end:
            middle = (low_end + high_end) >> 1
            if major[middle] < last:
                low_end = middle + 1
            else:
                high_end = middle
        start = low_end
    return touched
