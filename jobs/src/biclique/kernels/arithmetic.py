"""+, -, *, /, % and negation of integers and doubles: exact or failed, never wrapped around, never silently infinite.

Integers (also times and intervals, which are int64): a result outside 64 bits fails; `/` drops the fraction, `%` has
the sign of the dividend, and a zero divisor fails. The interval of an operation's operands decides whether rows are
checked: where no value between the bounds can overflow, plain numpy does the work; else a kernel looks at each row.

Doubles are IEEE, as written, but for two things that SQL calls errors: a zero divisor fails, whatever the dividend,
and so does an infinite result of finite operands. `%` is the exact remainder with the sign of the dividend.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numba import njit
from numpy.typing import NDArray

from biclique.core.rows import Mask
from biclique.kernels.lanes import INT64_MAX, INT64_MIN, Bounds, Lane, Numbers, rows_of, spread, strict, with_failures
from biclique.query.expression import Op

Int64s = NDArray[np.int64]


def fits(bounds: Bounds) -> bool:
    return bounds[0] >= INT64_MIN and bounds[1] <= INT64_MAX


def clamp(bounds: Bounds) -> Bounds:
    """What is left of an interval once failures are put to 0."""
    return min(0, max(bounds[0], INT64_MIN)), max(0, min(bounds[1], INT64_MAX))


def interval(op: Op, left: Bounds, right: Bounds) -> Bounds:
    if op is Op.ADD:
        return left[0] + right[0], left[1] + right[1]
    if op is Op.SUB:
        return left[0] - right[1], left[1] - right[0]
    corners = [a * b for a in left for b in right]
    return min(corners), max(corners)


# The compiler behind numba takes it that signed numbers never overflow, and drops tests that look for it afterwards:
# all arithmetic that may wrap around is done in unsigned numbers.


@njit(cache=True, nogil=True)
def _add(left: Int64s, right: Int64s, out: Int64s, bad: Mask) -> None:
    for i in range(len(out)):
        result = np.int64(np.uint64(left[i]) + np.uint64(right[i]))
        overflow = ((left[i] ^ result) & (right[i] ^ result)) < 0
        bad[i] = overflow
        out[i] = 0 if overflow else result


@njit(cache=True, nogil=True)
def _sub(left: Int64s, right: Int64s, out: Int64s, bad: Mask) -> None:
    for i in range(len(out)):
        result = np.int64(np.uint64(left[i]) - np.uint64(right[i]))
        overflow = ((left[i] ^ right[i]) & (left[i] ^ result)) < 0
        bad[i] = overflow
        out[i] = 0 if overflow else result


@njit(cache=True, nogil=True)
def _mul(left: Int64s, right: Int64s, out: Int64s, bad: Mask) -> None:
    """The product in doubles is off by less than one part in 2**51: only near the border must a division decide."""
    border = np.uint64(1) << np.uint64(63)
    for i in range(len(out)):
        a, b = left[i], right[i]
        estimate = abs(float(a) * float(b))
        if estimate < 9.2e18:
            overflow = False
        elif estimate > 9.3e18:
            overflow = True
        else:  # neither is zero here
            size_a = np.uint64(0) - np.uint64(a) if a < 0 else np.uint64(a)
            size_b = np.uint64(0) - np.uint64(b) if b < 0 else np.uint64(b)
            most = border if (a < 0) != (b < 0) else border - np.uint64(1)
            overflow = bool(size_a > most // size_b)
        bad[i] = overflow
        out[i] = 0 if overflow else np.int64(np.uint64(a) * np.uint64(b))


@njit(cache=True, nogil=True)
def _div(left: Int64s, right: Int64s, out: Int64s, bad: Mask) -> None:
    for i in range(len(out)):
        a, b = left[i], right[i]
        if b == 0 or (b == -1 and a == np.int64(INT64_MIN)):
            bad[i], out[i] = True, 0
        else:
            quotient = a // b  # floors
            if quotient * b != a and (a < 0) != (b < 0):
                quotient += 1
            bad[i], out[i] = False, quotient


@njit(cache=True, nogil=True)
def _mod(left: Int64s, right: Int64s, out: Int64s, bad: Mask) -> None:
    for i in range(len(out)):
        a, b = left[i], right[i]
        if b == 0:
            bad[i], out[i] = True, 0
        elif b == -1:  # the processor traps on the least integer
            bad[i], out[i] = False, 0
        else:
            remainder = a - (a // b) * b  # has the sign of b
            if remainder != 0 and (a < 0) != (b < 0):
                remainder -= b
            bad[i], out[i] = False, remainder


CHECKED: dict[Op, Callable[[Int64s, Int64s, Int64s, Mask], None]] = {
    Op.ADD: _add,
    Op.SUB: _sub,
    Op.MUL: _mul,
    Op.DIV: _div,
    Op.MOD: _mod,
}
PLAIN: dict[Op, Callable[[Numbers, Numbers], Numbers]] = {
    Op.ADD: np.add,
    Op.SUB: np.subtract,
    Op.MUL: np.multiply,
    Op.DIV: np.true_divide,
    Op.MOD: np.fmod,
}


def as_int64(lane: Lane) -> Lane:
    if lane.values.dtype == np.int64:
        return lane
    return Lane(lane.values.astype(np.int64), lane.valid, lane.failed, lane.known)


def integers(op: Op, left: Lane, right: Lane) -> Lane:
    """Both lanes int64."""
    valid, failed = strict((left, right))
    if op in (Op.ADD, Op.SUB, Op.MUL):
        derived = interval(op, left.bounds(), right.bounds())
        if fits(derived):
            return Lane(PLAIN[op](left.values, right.values), valid, failed, derived)
        derived = clamp(derived)
    else:
        widest = max(abs(bound) for bound in left.bounds())
        derived = (max(-widest, INT64_MIN), min(widest, INT64_MAX))
    count = rows_of(left, right)
    out, bad = np.empty(count, np.int64), np.empty(count, np.bool_)
    CHECKED[op](spread(left.values, count), spread(right.values, count), out, bad)
    return with_failures(Lane(out, valid, failed, derived), bad)


def negated_integers(lane: Lane) -> Lane:
    return integers(Op.SUB, Lane(np.zeros(1, np.int64), known=(0, 0)), lane)


def doubles(op: Op, left: Lane, right: Lane) -> Lane:
    valid, failed = strict((left, right))
    values = PLAIN[op](left.values, right.values)
    bad = None
    if op is not Op.MOD and not np.isfinite(values).all():
        bad = np.isinf(values) & np.isfinite(left.values) & np.isfinite(right.values)
    if op in (Op.DIV, Op.MOD):
        zero = right.values == 0
        bad = zero if bad is None else bad | zero
    lane = Lane(values, valid, failed)
    if bad is not None and bad.any():
        bad = spread(bad, len(values))
        values[bad] = 0.0
        return with_failures(lane, bad)
    return lane


def narrowed(lane: Lane, dtype: np.dtype[np.signedinteger]) -> Lane:
    """An int64 lane in a narrower type: values outside it fail."""
    if lane.values.dtype == dtype:
        return lane
    info = np.iinfo(dtype)
    low, high = lane.bounds()
    if low >= info.min and high <= info.max:
        return Lane(lane.values.astype(dtype), lane.valid, lane.failed, lane.known)
    bad = (lane.values < info.min) | (lane.values > info.max)
    values = np.where(bad, 0, lane.values).astype(dtype)
    return with_failures(Lane(values, lane.valid, lane.failed), bad)
