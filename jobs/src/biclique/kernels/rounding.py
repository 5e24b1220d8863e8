"""ABS, FLOOR, CEIL, ROUND and SQRT.

ROUND goes half away from zero, to `digits` places (below zero: to tens, hundreds, …). Of a double: x is multiplied by
10**digits in double arithmetic, rounded, and divided again; where the product is too large to have a fraction, x
stays as it is. NaN and the infinities round to themselves. SQRT of a number below zero fails.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from biclique.kernels import arithmetic
from biclique.kernels.decimals import Rounding, limited, rescaled
from biclique.kernels.lanes import INT64_MAX, INT64_MIN, Lane, Numbers, with_failures
from biclique.query.expression import Op
from biclique.query.types import Kind, Type

TEN_POWER_MAX = 308  # 10.0**308 is finite
INTEGER_DIGITS = 19
WHOLE_FROM = 2.0**52  # doubles this large are whole numbers


def half_away(values: Numbers) -> Numbers:
    """Doubles rounded to whole ones; `value - trunc(value)` is exact."""
    whole = np.trunc(values)
    return np.asarray(np.where(np.abs(values - whole) >= 0.5, whole + np.copysign(1.0, values), whole))


def round_doubles(lane: Lane, digits: int) -> Lane:
    values = lane.values
    if digits > TEN_POWER_MAX:
        return lane
    if digits >= 0:
        scaled = values * 10.0**digits
        # An infinite or NaN product compares false: its x stays.
        return Lane(
            np.where(np.abs(scaled) < WHOLE_FROM, half_away(scaled) / 10.0**digits, values), lane.valid, lane.failed
        )
    if digits < -TEN_POWER_MAX:
        return Lane(np.where(np.isfinite(values), values * 0.0, values), lane.valid, lane.failed)
    rounded = half_away(values / 10.0**-digits) * 10.0**-digits
    rounded = np.where(np.isfinite(values), rounded, values)
    bad = np.isinf(rounded) & np.isfinite(values)
    return with_failures(Lane(np.where(bad, 0.0, rounded), lane.valid, lane.failed), bad)


def rounded(lane: Lane, argument: Type, result: Type, digits: int) -> Lane:
    match argument.kind:
        case Kind.DOUBLE:
            return round_doubles(lane, digits)
        case Kind.INTEGER:
            if digits >= 0:
                return lane
            if -digits > INTEGER_DIGITS - 1:
                # Half of 10**19 fits into 64 bits, its double does not: whatever rounds up fails.
                bad = np.abs(lane.values.astype(np.float64)) >= 5e18 if -digits == INTEGER_DIGITS else None
                zeros = Lane(np.zeros_like(lane.values), lane.valid, lane.failed, (0, 0))
                return with_failures(zeros, bad)
            return rescaled(rescaled_down(lane, -digits, Rounding.HALF_AWAY), 0, -digits)
        case Kind.DECIMAL:
            return to_scale(lane, argument, result, min(digits, argument.scale), Rounding.HALF_AWAY)
        case _:
            raise AssertionError(argument)


def rescaled_down(lane: Lane, digits: int, rounding: Rounding) -> Lane:
    return rescaled(lane, digits, 0, rounding)


def to_scale(lane: Lane, argument: Type, result: Type, digits: int, rounding: Rounding) -> Lane:
    """A DECIMAL rounded to `digits` places, as the result's type: a DECIMAL, or an INTEGER where no places are left."""
    if argument.scale - digits > 18:
        # 18 digits never reach half of 10**19
        return Lane(np.zeros_like(lane.values), lane.valid, lane.failed, (0, 0))
    shortened = rescaled(lane, argument.scale, digits, rounding)
    lane = rescaled(shortened, digits, result.scale if result.kind is Kind.DECIMAL else 0)
    return limited(lane, result.precision) if result.kind is Kind.DECIMAL else lane


def whole(op: Op, lane: Lane, argument: Type, result: Type) -> Lane:
    """FLOOR or CEIL; the caller narrows to an integer type where the result is one."""
    match argument.kind:
        case Kind.DOUBLE:
            values: Any = np.floor(lane.values) if op is Op.FLOOR else np.ceil(lane.values)
            return Lane(values, lane.valid, lane.failed)
        case Kind.INTEGER:
            return lane
        case Kind.DECIMAL:
            return to_scale(lane, argument, result, 0, Rounding.FLOOR if op is Op.FLOOR else Rounding.CEIL)
        case _:
            raise AssertionError(argument)


def absolute(lane: Lane) -> Lane:
    if lane.values.dtype == np.float64:
        return Lane(np.abs(lane.values), lane.valid, lane.failed)
    if lane.bounds()[0] >= 0:
        return lane
    negated = arithmetic.negated_integers(lane)
    positive = lane.values >= 0
    values = np.where(positive, lane.values, negated.values)
    low, high = lane.bounds()
    result = Lane(values, lane.valid, lane.failed, (0, min(max(-low, high), INT64_MAX)))
    if negated.failed is None:
        return result
    return with_failures(result, lane.values == INT64_MIN)


def square_root(lane: Lane) -> Lane:
    bad = lane.values < 0
    return with_failures(Lane(np.sqrt(np.where(bad, 0.0, lane.values)), lane.valid, lane.failed), bad)
