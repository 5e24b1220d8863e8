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
from numpy import uint64 as place
from numpy.typing import NDArray

Keys = NDArray[np.int64]
Positions = NDArray[np.int64]

GROUP = 32  # probes searched in lockstep: enough loads in flight, few enough to stay in registers and first-level cache
STRIDE_FIRST = 16  # first step of a gallop for a group
FENCE_ROWS = 32


@njit(cache=True, nogil=True)
def lower_bounds(keys: Keys, values: Keys, positions: Positions) -> int:
    """positions[i] = how many keys are < values[i]; values ascending."""
    count, rows, start, touched = len(values), len(keys), 0, 0
    for group in range(0, count, GROUP):
        stop = min(group + GROUP, count)
        last = values[stop - 1]
        end, stride = start, STRIDE_FIRST
        while end < rows and keys[place(end)] < last:
            end += stride
            stride *= 2
            touched += 1
        length = min(end, rows) - start
        size = stop - group
        here, asked = positions[group:stop], values[group:stop]
        for i in range(size):
            here[i] = start
        # The answer of each member lies in [its position, its position + length].
        while length > 0:
            half = (length + 1) >> 1
            for i in range(size):
                at = here[i]
                here[i] = at + (half if keys[place(at + half - 1)] < asked[i] else 0)
            length -= half
            touched += size
        start = positions[stop - 1]
    return touched


@njit(cache=True, nogil=True)
def lower_bounds_fenced(keys: Keys, fences: Keys, values: Keys, positions: Positions) -> int:
    """The same on a big run. `fences`: every FENCE_ROWS-th key, few enough to stay in cache; they say in which
    stretch of FENCE_ROWS keys each answer lies, and only there is memory waited for, for a group at a time."""
    touched: int = lower_bounds(fences, values, positions)
    for group in range(0, len(values), GROUP):
        stop = min(group + GROUP, len(values))
        touched += _within_fences(keys, values[group:stop], positions[group:stop])
    return touched


@njit(cache=True, nogil=True)
def key_ranges(keys: Keys, lows: Keys, highs: Keys, starts: Positions, ends: Positions) -> int:
    """Both ends of lows[i] <= key <= highs[i], where ranges are short; lows ascending, highs not below their lows."""
    touched: int = lower_bounds(keys, lows, starts)
    return touched + range_ends(keys, highs, starts, ends)


@njit(cache=True, nogil=True)
def key_ranges_fenced(keys: Keys, fences: Keys, lows: Keys, highs: Keys, starts: Positions, ends: Positions) -> int:
    """The same on a big run: a group's ends are searched while the keys at its starts are still at hand."""
    touched: int = lower_bounds(fences, lows, starts)
    for group in range(0, len(lows), GROUP):
        stop = min(group + GROUP, len(lows))
        touched += _within_fences(keys, lows[group:stop], starts[group:stop])
        touched += range_ends(keys, highs[group:stop], starts[group:stop], ends[group:stop])
    return touched


@njit(cache=True, nogil=True)
def _within_fences(keys: Keys, values: Keys, positions: Positions) -> int:
    """positions[i]: from how many fences are below values[i] to how many keys are."""
    size, rows, touched = len(values), len(keys), 0
    # fences[f - 1] < value <= fences[f]: the answer lies in (f - 1) * FENCE_ROWS + 1 and the FENCE_ROWS - 1 after it.
    for i in range(size):
        positions[i] = max(0, (positions[i] - 1) * FENCE_ROWS + 1)
    if positions[size - 1] + FENCE_ROWS <= rows:
        length = FENCE_ROWS - 1
        while length > 0:
            half = (length + 1) >> 1
            for i in range(size):
                at = positions[i]
                positions[i] = at + (half if keys[place(at + half - 1)] < values[i] else 0)
            length -= half
            touched += size
        return touched
    for i in range(size):
        low, high = positions[i], min(positions[i] + FENCE_ROWS - 1, rows)
        while low < high:
            middle = (low + high) >> 1
            touched += 1
            if keys[place(middle)] < values[i]:
                low = middle + 1
            else:
                high = middle
        positions[i] = low
    return touched


@njit(cache=True, nogil=True)
def range_ends(keys: Keys, highs: Keys, starts: Positions, ends: Positions) -> int:
    """ends[i] = how many keys are <= highs[i], by galloping on from starts[i]: cheap where ranges are short."""
    rows, touched = len(keys), 0
    for i in range(len(starts)):
        high = highs[i]
        low_end, stride = starts[i], 1
        probe = low_end
        while probe < rows and keys[place(probe)] <= high:
            low_end = probe + 1
            probe += stride
            stride *= 2
            touched += 1
        high_end = min(probe, rows)
        while low_end < high_end:
            middle = (low_end + high_end) >> 1
            touched += 1
            if keys[place(middle)] <= high:
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
        while end < rows and major[place(end)] <= last:
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
                at = place(starts[i] + half - 1)
                less = (major[at] < equals[i]) | ((major[at] == equals[i]) & (minor[at] < lows[i]))
                starts[i] += half if less else 0
            length -= half
            touched += stop - group
        for i in range(group, stop):
            equal, high = equals[i], highs[i]
            low_end, stride = starts[i], 1
            probe = low_end
            while probe < end and major[place(probe)] == equal and minor[place(probe)] <= high:
                low_end = probe + 1
                probe += stride
                stride *= 2
                touched += 1
            high_end = min(probe, end)
            while low_end < high_end:
                middle = (low_end + high_end) >> 1
                touched += 1
                if major[place(middle)] == equal and minor[place(middle)] <= high:
                    low_end = middle + 1
                else:
                    high_end = middle
            ends[i] = low_end
            touched += 1
        # The next group's keys are at or above `last`: everything below it is behind us.
        low_end, high_end = start, end
        while low_end < high_end:
            middle = (low_end + high_end) >> 1
            if major[place(middle)] < last:
                low_end = middle + 1
            else:
                high_end = middle
        start = low_end
    return touched
