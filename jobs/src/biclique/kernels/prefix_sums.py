"""Sums over ranges of a run without touching more than a few of their rows.

Integers: prefix sums at the ends of blocks of eight rows; what lies between an end of the range and the nearest end of
a block, at most four rows, is added or taken away. So sums weigh two bytes a row, not 16. A value v is kept as v >> 32
and v & (2**32 - 1), each summed by itself, so that a sum over 2**31 rows of any int64 is exact: high * 2**32 + low.

DOUBLE: a difference of two prefix sums is worthless once a value far greater than the range's lies before it, and an
infinity there would spoil every later range. So sums are kept per node of a hierarchy of eight children, as a double
and its error (double-double), and a range adds up the O(log n) nodes and the few rows that it is made of: only values
inside it take part.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy import uint64 as place
from numpy.typing import NDArray

Positions = NDArray[np.int64]
RowNumbers = NDArray[np.int32]
Integers = NDArray[np.int64]
Doubles = NDArray[np.float64]

LOW_BITS = 32
LOW_MASK = (1 << LOW_BITS) - 1
FANOUT_BITS = 3
FANOUT = 1 << FANOUT_BITS
BLOCK_BITS = 3
BLOCK = 1 << BLOCK_BITS


@njit(cache=True, nogil=True)
def sum_blocks(
    values: NDArray[np.integer], valid: NDArray[np.bool_], rows: RowNumbers, high: Integers, low: Integers
) -> None:
    """The sums before each end of a block; `block_ends` entries. `valid` empty: every value is there."""
    sum_high, sum_low = np.int64(0), np.int64(0)
    masked = len(valid) > 0
    for k in range(len(rows)):
        if k & (BLOCK - 1) == 0:
            high[place(k >> BLOCK_BITS)], low[place(k >> BLOCK_BITS)] = sum_high, sum_low
        row = rows[k]
        if not masked or valid[place(row)]:
            value = np.int64(values[place(row)])
            sum_high += value >> LOW_BITS
            sum_low += value & LOW_MASK
    last = len(high) - 1
    if last << BLOCK_BITS >= len(rows):
        high[last], low[last] = sum_high, sum_low


@njit(cache=True, nogil=True)
def count_blocks(valid: NDArray[np.bool_], rows: RowNumbers, counts: Integers) -> None:
    total = np.int64(0)
    for k in range(len(rows)):
        if k & (BLOCK - 1) == 0:
            counts[place(k >> BLOCK_BITS)] = total
        total += np.int64(valid[place(rows[k])])
    last = len(counts) - 1
    if last << BLOCK_BITS >= len(rows):
        counts[last] = total


def block_ends(rows: int) -> int:
    """How many ends of blocks a run has: end k is at min(k * BLOCK, rows), and each row is within four of one."""
    return ((rows + BLOCK // 2) >> BLOCK_BITS) + 1


@njit(cache=True, nogil=True)
def add_counts(starts: Positions, ends: Positions, probes: RowNumbers, totals: Integers) -> None:
    for i in range(len(starts)):
        totals[place(probes[i])] += ends[i] - starts[i]


@njit(cache=True, nogil=True)
def add_valid_ranges(
    starts: Positions,
    ends: Positions,
    probes: RowNumbers,
    rows: RowNumbers,
    valid: NDArray[np.bool_],
    counts: Integers,
    totals: Integers,
) -> int:
    """Counts of values that are there. Returns the rows and ends of blocks touched."""
    touched = 0
    for i in range(len(starts)):
        first, last = starts[i], ends[i]
        if first >= last:
            continue
        count = np.int64(0)
        lower, upper = (first + BLOCK // 2) >> BLOCK_BITS, (last + BLOCK // 2) >> BLOCK_BITS
        if lower < upper:
            count += counts[place(upper)] - counts[place(lower)]
            start, stop = min(lower << BLOCK_BITS, len(rows)), min(upper << BLOCK_BITS, len(rows))
            touched += 2
        else:
            start = stop = first
        for k in range(first, start):
            count += np.int64(valid[place(rows[place(k)])])
        for k in range(start, first):
            count -= np.int64(valid[place(rows[place(k)])])
        for k in range(stop, last):
            count += np.int64(valid[place(rows[place(k)])])
        for k in range(last, stop):
            count -= np.int64(valid[place(rows[place(k)])])
        touched += abs(start - first) + abs(last - stop)
        totals[place(probes[i])] += count
    return touched


@njit(cache=True, nogil=True, inline="always")
def words(
    rows: RowNumbers, values: NDArray[np.integer], valid: NDArray[np.bool_], first: int, last: int
) -> tuple[np.int64, np.int64]:
    """The high and the low sum of a few rows."""
    high, low = np.int64(0), np.int64(0)
    masked = len(valid) > 0
    for k in range(first, last):
        row = rows[place(k)]
        if not masked or valid[place(row)]:
            value = np.int64(values[place(row)])
            high += value >> LOW_BITS
            low += value & LOW_MASK
    return high, low


@njit(cache=True, nogil=True)
def add_integer_ranges(
    starts: Positions,
    ends: Positions,
    probes: RowNumbers,
    rows: RowNumbers,
    values: NDArray[np.integer],
    valid: NDArray[np.bool_],
    high: Integers,
    low: Integers,
    total_high: Integers,
    total_low: Integers,
) -> int:
    """From the ends of blocks next to the range's, and the rows between. Returns how many of both were touched."""
    touched = 0
    for i in range(len(starts)):
        first, last = starts[i], ends[i]
        if first >= last:
            continue
        sum_high, sum_low = np.int64(0), np.int64(0)
        lower, upper = (first + BLOCK // 2) >> BLOCK_BITS, (last + BLOCK // 2) >> BLOCK_BITS
        if lower < upper:
            sum_high += high[place(upper)] - high[place(lower)]
            sum_low += low[place(upper)] - low[place(lower)]
            start, stop = min(lower << BLOCK_BITS, len(rows)), min(upper << BLOCK_BITS, len(rows))
            touched += 4
        else:
            start = stop = first
        for at, to in ((first, start), (stop, last)):
            if at < to:
                more_high, more_low = words(rows, values, valid, at, to)
                sum_high, sum_low = sum_high + more_high, sum_low + more_low
            elif to < at:
                less_high, less_low = words(rows, values, valid, to, at)
                sum_high, sum_low = sum_high - less_high, sum_low - less_low
            touched += abs(to - at)
        probe = place(probes[i])
        total_high[probe] += sum_high
        total_low[probe] += sum_low
    return touched


@njit(cache=True, nogil=True, inline="always")
def add_double(total: float, error: float, value: float, value_error: float) -> tuple[float, float]:
    """(total + error) + (value + value_error) as a double and its error; an infinity or NaN has no error."""
    result = total + value
    part = result - total
    lost = (total - (result - part)) + (value - part) + (error + value_error)
    rounded = result + lost
    if not np.isfinite(rounded):
        return (rounded if np.isfinite(result) else result), 0.0
    return rounded, lost - (rounded - result)


@njit(cache=True, nogil=True, inline="always")
def double_at(rows: RowNumbers, values: Doubles, valid: NDArray[np.bool_], k: int) -> float:
    """The value at a position of the run; a null is 0."""
    row = rows[place(k)]
    return values[place(row)] if len(valid) == 0 or valid[place(row)] else 0.0


@njit(cache=True, nogil=True)
def sum_nodes(
    values: Doubles, valid: NDArray[np.bool_], rows: RowNumbers, levels: Positions, sums: Doubles, errors: Doubles
) -> None:
    """`levels` as kernels.dominance.level_starts gives them."""
    for level in range(len(levels) - 1):
        offset = levels[level]
        below = len(rows) if level == 0 else levels[level] - levels[level - 1]
        inner = 0 if level == 0 else levels[level - 1]
        for node in range(levels[level + 1] - offset):
            start = node << FANOUT_BITS
            total, error = 0.0, 0.0
            for child in range(start, min(start + FANOUT, below)):
                if level == 0:
                    total, error = add_double(total, error, double_at(rows, values, valid, child), 0.0)
                else:
                    total, error = add_double(total, error, sums[inner + child], errors[inner + child])
            sums[offset + node], errors[offset + node] = total, error


@njit(cache=True, nogil=True)
def add_double_ranges(
    starts: Positions,
    ends: Positions,
    probes: RowNumbers,
    rows: RowNumbers,
    values: Doubles,
    valid: NDArray[np.bool_],
    levels: Positions,
    sums: Doubles,
    errors: Doubles,
    totals: Doubles,
    total_errors: Doubles,
) -> int:
    """Returns the values and nodes added up: O(log n) a range, however many rows it has."""
    top, touched = len(levels) - 1, 0
    for i in range(len(starts)):
        first, last = starts[i], ends[i]
        probe = probes[i]
        total, error = totals[probe], total_errors[probe]
        level = 0
        while first < last:
            inner = levels[level - 1] if level > 0 else 0
            while first < last and (first & (FANOUT - 1) != 0 or level == top):
                if level == 0:
                    total, error = add_double(total, error, double_at(rows, values, valid, first), 0.0)
                else:
                    total, error = add_double(total, error, sums[inner + first], errors[inner + first])
                first += 1
                touched += 1
            while first < last and last & (FANOUT - 1) != 0:
                last -= 1
                touched += 1
                if level == 0:
                    total, error = add_double(total, error, double_at(rows, values, valid, last), 0.0)
                else:
                    total, error = add_double(total, error, sums[inner + last], errors[inner + last])
            first >>= FANOUT_BITS
            last >>= FANOUT_BITS
            level += 1
        totals[probe], total_errors[probe] = total, error
    return touched


@njit(cache=True, nogil=True)
def add_rows(
    probes: RowNumbers,
    rows: Positions,
    base: int,
    values: NDArray[np.integer],
    valid: NDArray[np.bool_],
    count: Integers,
    high: Integers,
    low: Integers,
) -> None:
    """The same sums, row by row: pairs (probe, base + row) that had to be tested one by one."""
    masked = len(valid) > 0
    for k in range(len(probes)):
        probe, row = probes[k], rows[k] - base
        if not masked or valid[place(row)]:
            value = np.int64(values[place(row)])
            count[probe] += 1
            high[probe] += value >> LOW_BITS
            low[probe] += value & LOW_MASK


@njit(cache=True, nogil=True)
def add_double_rows(
    probes: RowNumbers,
    rows: Positions,
    base: int,
    values: Doubles,
    valid: NDArray[np.bool_],
    count: Integers,
    totals: Doubles,
    errors: Doubles,
) -> None:
    masked = len(valid) > 0
    for k in range(len(probes)):
        probe, row = probes[k], rows[k] - base
        if not masked or valid[place(row)]:
            count[probe] += 1
            totals[probe], errors[probe] = add_double(totals[probe], errors[probe], values[place(row)], 0.0)
