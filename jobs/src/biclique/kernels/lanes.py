"""A column while an expression is evaluated: values, which of them are there, which failed, and how large they can be.

Arrays of a lane have one entry for each row, or a single one that stands for every row (a constant, or a mask that a
constant brought along); numpy broadcasts the two alike. `failed` marks rows that are also not `valid`. The values of
rows that are not valid are arbitrary but harmless: within `bounds`, and finite code never traps on them; `to_vector`
zeroes them.

`bounds` of an integer lane is an interval that holds all of its values: exact for constants, by type for narrow
columns, measured for wide ones when first asked for, and derived for results. Arithmetic that provably stays inside
64 bits is not checked row by row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from biclique.core.rows import Mask, Vector
from biclique.query.types import Kind, Type

INT64_MIN, INT64_MAX = -(1 << 63), (1 << 63) - 1
Bounds = tuple[int, int]
Numbers = NDArray[Any]


@dataclass(slots=True)
class Lane:
    values: Any  # a numpy array, or a pyarrow StringArray without nulls
    valid: Mask | None = None
    failed: Mask | None = None
    known: Bounds | None = None

    def bounds(self) -> Bounds:
        if self.known is None:
            if len(self.values) == 0:
                self.known = (0, 0)
            elif self.values.dtype.itemsize < 4:
                info = np.iinfo(self.values.dtype)
                self.known = (int(info.min), int(info.max))
            else:
                self.known = (int(self.values.min()), int(self.values.max()))
        return self.known


def dtype_of(type_: Type) -> np.dtype[Any]:
    """The numpy type of a column; STRING has none."""
    match type_.kind:
        case Kind.INTEGER:
            return np.dtype(f"int{type_.bits}")
        case Kind.DOUBLE:
            return np.dtype(np.float64)
        case Kind.BOOLEAN:
            return np.dtype(np.bool_)
        case Kind.DATE:
            return np.dtype(np.int32)
        case Kind.DECIMAL | Kind.TIMESTAMP | Kind.INTERVAL:
            return np.dtype(np.int64)
        case Kind.STRING:
            raise AssertionError("STRING is a pyarrow array")


def spread(array: Numbers, count: int) -> Numbers:
    """`count` contiguous entries, whether the array holds one for each row or one for all."""
    if len(array) == count:
        return np.ascontiguousarray(array)
    return np.repeat(array, count)


def spread_strings(values: pa.StringArray, count: int) -> pa.StringArray:
    if len(values) == count:
        return values
    return values.take(pa.array(np.zeros(count, np.int64)))


def rows_of(*lanes: Lane) -> int:
    """How many entries a result of these lanes has: the constants among them do not count."""
    longest = 1
    for lane in lanes:
        length = len(lane.values)
        if length == 0:
            return 0
        longest = max(longest, length)
    return longest


def both(first: Mask | None, second: Mask | None) -> Mask | None:
    """Conjunction of two masks of validity."""
    if first is None:
        return second
    return first if second is None else first & second


def either(first: Mask | None, second: Mask | None) -> Mask | None:
    """Union of two masks of failure."""
    if first is None:
        return second
    return first if second is None else first | second


def strict(lanes: tuple[Lane, ...]) -> tuple[Mask | None, Mask | None]:
    """Validity and failure of an operator that gives null for any null."""
    valid, failed = None, None
    for lane in lanes:
        valid, failed = both(valid, lane.valid), either(failed, lane.failed)
    return valid, failed


def with_failures(lane: Lane, bad: Mask | None) -> Lane:
    """The lane with failures at `bad`, as far as its rows are valid: a null operand does not fail."""
    if bad is None or not bad.any():
        return lane
    if lane.valid is None:
        return Lane(lane.values, ~bad, either(lane.failed, bad), lane.known)
    bad = bad & lane.valid
    return Lane(lane.values, lane.valid & ~bad, either(lane.failed, bad), lane.known)


def to_vector(lane: Lane, count: int) -> Vector:
    """The lane as a column of `count` rows with nothing under its nulls."""
    valid = None if lane.valid is None else spread(lane.valid, count)
    failed = None if lane.failed is None else spread(lane.failed, count)
    if failed is not None and not failed.any():
        failed = None
    if valid is not None and valid.all():
        valid = None
    if isinstance(lane.values, pa.Array):
        values = spread_strings(lane.values, count)
        return Vector(values if valid is None else without_nulls(values, valid), valid, failed)
    numbers = spread(lane.values, count)
    if valid is not None and numbers[~valid].any():
        numbers = np.where(valid, numbers, np.zeros(1, numbers.dtype))
    return Vector(numbers, valid, failed)


def without_nulls(values: pa.StringArray, valid: Mask) -> pa.StringArray:
    """The strings, empty where they are not valid."""
    choice = pa.array(valid)
    chosen = pa.compute.if_else(choice, values, pa.scalar("", values.type))
    return chosen.combine_chunks() if isinstance(chosen, pa.ChunkedArray) else chosen
