"""AND, OR, NOT, IS NULL, CASE, COALESCE, NULLIF, GREATEST and LEAST over values that may be null or failed.

AND is false if any side is false, else failed if any side failed, else null if any is null, else true; OR the same
with true. So both are symmetric and associative, and conjuncts may be tested in any order.

CASE takes the first branch whose condition is true; a condition that is looked at and failed makes the row fail, a
null one passes on to the next; what branches not taken hold does not count. COALESCE(a, b) is CASE WHEN a IS NOT NULL
THEN a ELSE b, NULLIF(a, b) is CASE WHEN a = b THEN NULL ELSE a. GREATEST and LEAST pass over nulls and fail with any
argument. All branches are computed and then chosen from: evaluation never traps, so that costs time and changes
nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from biclique.core.rows import Mask
from biclique.kernels.comparison import compare
from biclique.kernels.lanes import Lane, both, either, rows_of, spread, spread_strings, with_failures
from biclique.query.expression import Op


def _true(lane: Lane) -> Mask:
    mask: Mask = lane.values if lane.valid is None else lane.values & lane.valid
    return mask


def _false(lane: Lane) -> Mask:
    mask: Mask = ~lane.values if lane.valid is None else ~lane.values & lane.valid
    return mask


def conjunction(left: Lane, right: Lane) -> Lane:
    if left.valid is None and right.valid is None:
        return Lane(left.values & right.values)
    known = both(left.valid, right.valid)
    assert known is not None
    decided = _false(left) | _false(right)
    failed = either(left.failed, right.failed)
    return Lane(_true(left) & _true(right), known | decided, None if failed is None else failed & ~decided)


def disjunction(left: Lane, right: Lane) -> Lane:
    if left.valid is None and right.valid is None:
        return Lane(left.values | right.values)
    known = both(left.valid, right.valid)
    assert known is not None
    decided = _true(left) | _true(right)
    failed = either(left.failed, right.failed)
    return Lane(decided, known | decided, None if failed is None else failed & ~decided)


def negation(lane: Lane) -> Lane:
    return Lane(~lane.values, lane.valid, lane.failed)


def is_null(lane: Lane) -> Lane:
    if lane.valid is None:
        return Lane(np.zeros(1, np.bool_))
    if lane.failed is None:
        return Lane(~lane.valid)
    return Lane(~lane.valid, ~lane.failed, lane.failed)


def choose(chosen: Mask, values: Lane, otherwise: Lane) -> Lane:
    """`values` where chosen, else `otherwise`, with the nulls and failures of what was taken."""
    count = rows_of(Lane(chosen), values, otherwise)
    valid, failed = None, None
    if values.valid is not None or otherwise.valid is not None:
        valid = np.where(chosen, _mask(values.valid, True), _mask(otherwise.valid, True))
    if values.failed is not None or otherwise.failed is not None:
        failed = np.where(chosen, _mask(values.failed, False), _mask(otherwise.failed, False))
    taken: Any
    if isinstance(values.values, pa.Array):
        mask = pa.array(spread(chosen, count))
        taken = pc.if_else(mask, spread_strings(values.values, count), spread_strings(otherwise.values, count))
        return Lane(taken, valid, failed)
    taken = np.where(chosen, values.values, otherwise.values)
    if taken.dtype.kind != "i":
        return Lane(taken, valid, failed)
    low, high = values.bounds(), otherwise.bounds()
    return Lane(taken, valid, failed, (min(low[0], high[0]), max(low[1], high[1])))


def _mask(mask: Mask | None, without: bool) -> Mask:
    return np.full(1, without) if mask is None else mask


def case(lanes: tuple[Lane, ...]) -> Lane:
    """Condition, value, condition, value, …, otherwise: folded from the last branch to the first."""
    result = lanes[-1]
    for condition, value in zip(lanes[-3::-2], lanes[-2::-2], strict=True):
        result = choose(_true(condition), value, result)
        if condition.failed is not None:
            # The choice itself is unknown: the row fails even where the other branches would be null.
            bad = condition.failed
            valid = _mask(result.valid, True) & ~bad
            result = Lane(result.values, valid, either(result.failed, bad), result.known)
    return result


def coalesce(lanes: tuple[Lane, ...]) -> Lane:
    result = lanes[-1]
    for lane in lanes[-2::-1]:
        if lane.valid is None:
            result = lane
        else:
            settled = lane.valid if lane.failed is None else lane.valid | lane.failed
            result = choose(settled, lane, result)
    return result


def nullif(left: Lane, right: Lane) -> Lane:
    same = compare(Op.EQ, left, right)
    nothing = _true(same)
    valid = ~nothing if left.valid is None else left.valid & ~nothing
    result = Lane(left.values, valid, left.failed, left.known)
    if same.failed is not None:
        result = Lane(result.values, valid & ~same.failed, either(left.failed, same.failed), left.known)
    return result


def extreme(op: Op, lanes: tuple[Lane, ...]) -> Lane:
    """GREATEST or LEAST: of equal values the first."""
    result, failed = lanes[0], lanes[0].failed
    for lane in lanes[1:]:
        failed = either(failed, lane.failed)
        better = compare(Op.GT if op is Op.GREATEST else Op.LT, lane, result).values
        if result.valid is not None:
            better = better | ~result.valid
        if lane.valid is not None:
            better = better & lane.valid
        result = choose(better, Lane(lane.values, lane.valid, None, lane.known), _forgiven(result))
    result = _forgiven(result)
    if failed is None:
        return result
    forgotten = Lane(result.values, _mask(result.valid, True) | failed, None, result.known)
    return with_failures(forgotten, spread(failed, max(len(failed), rows_of(result))))


def _forgiven(lane: Lane) -> Lane:
    return Lane(lane.values, lane.valid, None, lane.known)
