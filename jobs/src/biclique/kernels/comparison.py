"""=, <>, <, <=, >, >= of two lanes of one type, as SQL orders values.

Integers, times and DECIMALs of one scale by number; false before true; strings by code point, which is the order of
their UTF-8 bytes; doubles with one NaN that equals itself and is greater than every number, and with -0.0 equal to
0.0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from biclique.core.rows import Mask
from biclique.kernels.lanes import Lane, Numbers, strict
from biclique.query.expression import Op

ORDER: dict[Op, Callable[[Numbers, Numbers], Mask]] = {
    Op.EQ: np.equal,
    Op.NE: np.not_equal,
    Op.LT: np.less,
    Op.LE: np.less_equal,
    Op.GT: np.greater,
    Op.GE: np.greater_equal,
}
TEXT: dict[Op, Callable[[Any, Any], Any]] = {
    Op.EQ: pc.equal,
    Op.NE: pc.not_equal,
    Op.LT: pc.less,
    Op.LE: pc.less_equal,
    Op.GT: pc.greater,
    Op.GE: pc.greater_equal,
}


def doubles(op: Op, left: Numbers, right: Numbers) -> Mask:
    """IEEE comparisons are false wherever a NaN stands; `x != x` tells NaN."""
    if op is Op.EQ:
        same: Mask = (left == right) | ((left != left) & (right != right))
        return same
    if op is Op.NE:
        return ~doubles(Op.EQ, left, right)
    if op in (Op.LT, Op.GT):
        return ~doubles(Op.GE if op is Op.LT else Op.LE, left, right)
    wide: Mask = (left >= right) | (left != left) if op is Op.GE else (left <= right) | (right != right)
    return wide


def strings(op: Op, left: pa.StringArray, right: pa.StringArray) -> Mask:
    if len(left) != len(right):
        if len(left) == 1:
            left = left[0]
        else:
            right = right[0]
    return np.asarray(TEXT[op](left, right).to_numpy(zero_copy_only=False))


def compare(op: Op, left: Lane, right: Lane) -> Lane:
    valid, failed = strict((left, right))
    if isinstance(left.values, pa.Array):
        return Lane(strings(op, left.values, right.values), valid, failed)
    if left.values.dtype == np.float64:
        return Lane(doubles(op, left.values, right.values), valid, failed)
    return Lane(ORDER[op](left.values, right.values), valid, failed)
