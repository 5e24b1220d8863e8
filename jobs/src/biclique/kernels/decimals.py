"""DECIMAL arithmetic on unscaled int64: exact, then rounded half away from zero to the scale of the result.

The types in the checked tree say every scale; a result with more digits than its type's precision fails, as does a
zero divisor. Products and dividends that leave 64 bits on the way are computed with unbounded integers, row by row:
rare, and therefore allowed to be slow.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

import numpy as np
from numba import njit
from numpy.typing import NDArray

from biclique.core.rows import Mask
from biclique.kernels import arithmetic
from biclique.kernels.lanes import Lane, rows_of, spread, strict, with_failures
from biclique.query.expression import Op
from biclique.query.types import DECIMAL_DIGITS_MAX, Type

Int64s = NDArray[np.int64]


class Rounding(Enum):
    HALF_AWAY = 0
    TRUNCATE = 1
    FLOOR = 2
    CEIL = 3


def rounded_quotient(dividend: int, divisor: int, rounding: Rounding) -> int:
    """The exact quotient of two integers (divisor not 0), rounded; unbounded."""
    quotient, remainder = divmod(abs(dividend), abs(divisor))
    negative = (dividend < 0) != (divisor < 0)
    match rounding:
        case Rounding.HALF_AWAY:
            up = 2 * remainder >= abs(divisor)
        case Rounding.TRUNCATE:
            up = False
        case Rounding.FLOOR:
            up = negative and remainder != 0
        case Rounding.CEIL:
            up = not negative and remainder != 0
    magnitude = quotient + up
    return -magnitude if negative else magnitude


@njit(cache=True, nogil=True)
def _size(value: np.int64) -> np.uint64:
    return np.uint64(0) - np.uint64(value) if value < 0 else np.uint64(value)


@njit(cache=True, nogil=True)
def _divide(dividend: Int64s, divisor: Int64s, rounding: int, out: Int64s, bad: Mask) -> None:
    """`rounded_quotient` within 64 bits, by sizes: -2**63 has one. `divisor`: one entry for all or one for each row."""
    step = 0 if len(divisor) == 1 else 1
    for i in range(len(dividend)):
        d, n = divisor[i * step], dividend[i]
        if d == 0:
            bad[i], out[i] = True, 0
            continue
        size, negative = _size(d), (n < 0) != (d < 0)
        magnitude = _size(n) // size
        remainder = _size(n) - magnitude * size
        half = rounding == 0 and remainder >= size - remainder
        down = rounding == 2 and negative and remainder != 0
        if half or down or (rounding == 3 and not negative and remainder != 0):
            magnitude += np.uint64(1)
        if negative:
            bad[i], out[i] = False, np.int64(np.uint64(0) - magnitude)
        else:
            overflow = magnitude >= np.uint64(1) << np.uint64(63)  # only of -2**63 / -1
            bad[i], out[i] = overflow, 0 if overflow else np.int64(magnitude)


def limited(lane: Lane, precision: int) -> Lane:
    """Failures where the unscaled number has more than `precision` digits."""
    limit = 10**precision
    low, high = lane.bounds()
    if -limit < low and high < limit:
        return lane
    bad = (lane.values <= -limit) | (lane.values >= limit)
    if bad.any():
        lane = Lane(np.where(bad, 0, lane.values), lane.valid, lane.failed)
    return with_failures(Lane(lane.values, lane.valid, lane.failed, (1 - limit, limit - 1)), bad)


def rescaled(lane: Lane, scale: int, target: int, rounding: Rounding = Rounding.HALF_AWAY) -> Lane:
    """The same numbers at another scale; rounded where digits go, failed where 64 bits do not suffice."""
    if target >= scale:
        factor = 10 ** (target - scale)
        return lane if factor == 1 else arithmetic.integers(Op.MUL, lane, _constant(factor))
    return _quotient(lane, _constant(10 ** (scale - target)), rounding)


def decimals(op: Op, left: Lane, right: Lane, types: tuple[Type, Type], result: Type) -> Lane:
    """+, - and % have operands and result of one scale; * and / round to the result's."""
    scales = types[0].scale, types[1].scale
    match op:
        case Op.ADD | Op.SUB | Op.MOD:
            lane = arithmetic.integers(op, left, right)
            assert scales[0] == scales[1] == result.scale
        case Op.MUL:
            lane = _product(left, right, sum(scales) - result.scale, result.precision)
        case Op.DIV:
            lane = _ratio(left, right, result.scale - scales[0] + scales[1], result.precision)
        case _:
            raise AssertionError(op)
    return limited(lane, result.precision)


def _constant(value: int) -> Lane:
    return Lane(np.array([value], np.int64), known=(value, value))


def _quotient(left: Lane, right: Lane, rounding: Rounding) -> Lane:
    valid, failed = strict((left, right))
    count = rows_of(left, right)
    out, bad = np.empty(count, np.int64), np.empty(count, np.bool_)
    divisor = right.values if len(right.values) == 1 else spread(right.values, count)
    _divide(spread(left.values, count), divisor, rounding.value, out, bad)
    return with_failures(Lane(out, valid, failed), bad)


def _product(left: Lane, right: Lane, digits_dropped: int, precision: int) -> Lane:
    """`digits_dropped` below zero: digits are added instead."""
    shift = 10 ** abs(digits_dropped)

    def exact(a: int, b: int) -> int | None:
        return rounded_quotient(a * b, shift, Rounding.HALF_AWAY) if digits_dropped >= 0 else a * b * shift

    derived = arithmetic.interval(Op.MUL, left.bounds(), right.bounds())
    if not arithmetic.fits(derived) or abs(digits_dropped) > DECIMAL_DIGITS_MAX:
        return _row_by_row(left, right, exact, precision)
    product = arithmetic.integers(Op.MUL, left, right)
    return rescaled(product, max(digits_dropped, 0), max(-digits_dropped, 0))


def _ratio(left: Lane, right: Lane, digits_added: int, precision: int) -> Lane:
    """left / right with `digits_added` more digits before the division (below zero: fewer)."""
    up, down = 10 ** max(digits_added, 0), 10 ** max(-digits_added, 0)

    def exact(a: int, b: int) -> int | None:
        return None if b == 0 else rounded_quotient(a * up, b * down, Rounding.HALF_AWAY)

    scaled = left if up > 1 else right
    derived = arithmetic.interval(Op.MUL, scaled.bounds(), (max(up, down),) * 2)
    if not arithmetic.fits(derived) or abs(digits_added) > DECIMAL_DIGITS_MAX:
        return _row_by_row(left, right, exact, precision)
    return _quotient(
        rescaled(left, 0, max(digits_added, 0)), rescaled(right, 0, max(-digits_added, 0)), Rounding.HALF_AWAY
    )


def _row_by_row(left: Lane, right: Lane, exact: Callable[[int, int], int | None], precision: int) -> Lane:
    valid, failed = strict((left, right))
    count, limit = rows_of(left, right), 10**precision
    out, bad = np.zeros(count, np.int64), np.zeros(count, np.bool_)
    pairs = zip(spread(left.values, count).tolist(), spread(right.values, count).tolist(), strict=True)
    for i, (a, b) in enumerate(pairs):
        value = exact(a, b)
        if value is None or abs(value) >= limit:
            bad[i] = True
        else:
            out[i] = value
    return with_failures(Lane(out, valid, failed), bad)
