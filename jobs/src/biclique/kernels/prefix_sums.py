"""Sums over ranges of a run without touching their rows.

Integers: prefix sums, two look-ups a range. A value v is kept as v >> 32 and v & (2**32 - 1), each summed by itself, so
that a sum over 2**31 rows of any int64 is exact: sum = high * 2**32 + low.

DOUBLE: a difference of two prefix sums is worthless once a value far greater than the range's lies before it, and an
infinity there would spoil every later range. So sums are kept per node of a hierarchy of eight children, as a double
and its error (double-double), and a range adds up the O(log n) nodes that it is made of: only values inside it take
part.
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


@njit(cache=True, nogil=True)
def prefix_integers(
    values: NDArray[np.integer], valid: NDArray[np.bool_], rows: RowNumbers, high: Integers, low: Integers
) -> None:
    """high and low have one entry more than there are rows; `valid` empty: every value is there."""
    high[0], low[0] = 0, 0
    sum_high, sum_low = np.int64(0), np.int64(0)
    masked = len(valid) > 0
    for k in range(len(rows)):
        row = rows[k]
        if not masked or valid[place(row)]:
            value = np.int64(values[place(row)])
            sum_high += value >> LOW_BITS
            sum_low += value & LOW_MASK
        high[k + 1], low[k + 1] = sum_high, sum_low


@njit(cache=True, nogil=True)
def prefix_valid(valid: NDArray[np.bool_], rows: RowNumbers, count: Integers) -> None:
    count[0] = 0
    total = np.int64(0)
    for k in range(len(rows)):
        total += np.int64(valid[place(rows[k])])
        count[k + 1] = total


@njit(cache=True, nogil=True)
def add_ranges(starts: Positions, ends: Positions, probes: RowNumbers, prefix: Integers, totals: Integers) -> None:
    """`prefix` empty: each row counts one."""
    if len(prefix) == 0:
        for i in range(len(starts)):
            totals[place(probes[i])] += ends[i] - starts[i]
    else:
        for i in range(len(starts)):
            totals[place(probes[i])] += prefix[place(ends[i])] - prefix[place(starts[i])]


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


@njit(cache=True, nogil=True)
def sum_nodes(
    values: Doubles,
    valid: NDArray[np.bool_],
    rows: RowNumbers,
    levels: Positions,
    ordered: Doubles,
    sums: Doubles,
    errors: Doubles,
) -> None:
    """`ordered`: the values in the run's order (a null is 0); `levels` as kernels.dominance.level_starts gives them."""
    masked = len(valid) > 0
    count = len(rows)
    for k in range(count):
        row = rows[k]
        ordered[k] = values[place(row)] if not masked or valid[place(row)] else 0.0
    for level in range(len(levels) - 1):
        offset = levels[level]
        below = count if level == 0 else levels[level] - levels[level - 1]
        inner = 0 if level == 0 else levels[level - 1]
        for node in range(levels[level + 1] - offset):
            start = node << FANOUT_BITS
            total, error = 0.0, 0.0
            for child in range(start, min(start + FANOUT, below)):
                if level == 0:
                    total, error = add_double(total, error, ordered[child], 0.0)
                else:
                    total, error = add_double(total, error, sums[inner + child], errors[inner + child])
            sums[offset + node], errors[offset + node] = total, error


@njit(cache=True, nogil=True)
def add_double_ranges(
    starts: Positions,
    ends: Positions,
    probes: RowNumbers,
    ordered: Doubles,
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
                    total, error = add_double(total, error, ordered[first], 0.0)
                else:
                    total, error = add_double(total, error, sums[inner + first], errors[inner + first])
                first += 1
                touched += 1
            while first < last and last & (FANOUT - 1) != 0:
                last -= 1
                touched += 1
                if level == 0:
                    total, error = add_double(total, error, ordered[last], 0.0)
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
