"""Columns as another program's Arrow has them → columns in memory form. The types there must hold what the schema
says; values are then judged one by one.

| schema      | found                                                                                             |
|-------------|---------------------------------------------------------------------------------------------------|
| INTEGER     | any integer; a value beyond the width is at fault                                                 |
| DOUBLE      | float, double, or an integer of at most 32 bits: all of these are exact                           |
| DECIMAL     | decimal; a value that has more digits before or behind the point is at fault                      |
| BOOLEAN     | boolean                                                                                           |
| STRING      | string                                                                                            |
| DATE        | date                                                                                              |
| TIMESTAMP   | timestamp of any unit, of which microseconds are kept; without a zone it is UTC                   |
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from biclique.core.codec import storage_type
from biclique.hosts.parsing.columns import Faults, arrow_type, unscaled
from biclique.hosts.parsing.rows import Wanted
from biclique.hosts.parsing.values import DATE_MAX, DATE_MIN, INSTANT_MAX, INSTANT_MIN
from biclique.query.types import Kind, Type

_MILLIS_PER_DAY = 86_400_000
SCALES = -18, 38  # of decimals: from what is beyond, Arrow scales by powers of ten that it does not have


def holds(found: pa.DataType, kind: Type) -> bool:
    if pa.types.is_dictionary(found):
        found = found.value_type
    match kind.kind:
        case Kind.INTEGER:
            return pa.types.is_integer(found)
        case Kind.DOUBLE:
            return pa.types.is_floating(found) or (pa.types.is_integer(found) and found.bit_width <= 32)
        case Kind.DECIMAL:
            return pa.types.is_decimal(found) and SCALES[0] <= found.scale <= SCALES[1]
        case Kind.BOOLEAN:
            return pa.types.is_boolean(found)
        case Kind.STRING:
            return pa.types.is_string(found) or pa.types.is_large_string(found) or pa.types.is_string_view(found)
        case Kind.DATE:
            return pa.types.is_date(found)
        case Kind.TIMESTAMP:
            return pa.types.is_timestamp(found)
        case Kind.INTERVAL:
            raise AssertionError("no column is an INTERVAL")


def one_array(pieces: list[pa.Array]) -> pa.Array:
    array = pieces[0] if len(pieces) == 1 else pa.concat_arrays(pieces)
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


def row_as_json(wanted: Wanted, native: Sequence[pa.Array], row: int) -> bytes:
    """A row of columnar data has no bytes of its own: the columns read, as JSON, stand for it."""
    values = {f.name: _shown(array.slice(row, 1)) for f, array in zip(wanted.fields, native, strict=True)}
    return json.dumps(values, default=str, ensure_ascii=False).encode()


def _shown(one: pa.Array) -> Any:
    """For a person; dates and times beyond Python's calendar as the numbers that the file holds."""
    if pa.types.is_timestamp(one.type) or pa.types.is_date(one.type):
        try:
            return None if one.null_count else str(one[0])
        except (OverflowError, ValueError):
            return one.view(pa.int32() if pa.types.is_date32(one.type) else pa.int64())[0].as_py()
    return one[0].as_py()


def converted(array: pa.Array, kind: Type) -> tuple[pa.Array, Faults]:
    """In memory form, null where a value is at fault."""
    match kind.kind:
        case Kind.INTEGER:
            return _integers(array, kind)
        case Kind.DECIMAL:
            return _decimals(array, kind)
        case Kind.DATE:
            return _dates(array)
        case Kind.TIMESTAMP:
            return _instants(array)
        case _:
            return array.cast(storage_type(kind)), {}


def _integers(array: pa.Array, kind: Type) -> tuple[pa.Array, Faults]:
    target = storage_type(kind)
    if array.type == target:
        return array, {}
    try:
        return array.cast(target), {}
    except pa.ArrowInvalid:
        least, greatest = -(1 << kind.bits - 1), (1 << kind.bits - 1) - 1
        bounds = [
            pa.scalar(max(least, _least(array.type)), array.type),
            pa.scalar(min(greatest, _greatest(array.type)), array.type),
        ]
        fits = pc.and_(pc.greater_equal(array, bounds[0]), pc.less_equal(array, bounds[1]))
        return _where(array, fits, f"is out of the range of {kind}", target)


def _least(found: pa.DataType) -> int:
    return 0 if pa.types.is_unsigned_integer(found) else -(1 << found.bit_width - 1)


def _greatest(found: pa.DataType) -> int:
    return (1 << found.bit_width - pa.types.is_signed_integer(found)) - 1


def _where(array: pa.Array, fits: pa.BooleanArray, reason: str, target: pa.DataType) -> tuple[pa.Array, Faults]:
    """`fits` is null, or true, where the value is null."""
    odd = np.flatnonzero(pc.invert(pc.fill_null(fits, True)).to_numpy(zero_copy_only=False))
    faults = {int(row): f"{array[int(row)]} {reason}" for row in odd}
    return pc.if_else(fits, array, pa.scalar(None, array.type)).cast(target), faults


def _decimals(array: pa.Array, kind: Type) -> tuple[pa.Array, Faults]:
    target = arrow_type(kind)
    try:
        return unscaled(array.cast(target)), {}
    except pa.ArrowInvalid:
        fits = np.ones(len(array), np.bool_)
        for row in range(len(array)):
            try:
                array.slice(row, 1).cast(target)
            except pa.ArrowInvalid:
                fits[row] = False
        held, faults = _where(array, pa.array(fits), f"does not fit into {kind}", target)
        return unscaled(held), faults


def _dates(array: pa.Array) -> tuple[pa.Array, Faults]:
    if pa.types.is_date64(array.type):
        millis = array.view(pa.int64()).fill_null(0).to_numpy()
        days = pa.array(millis // _MILLIS_PER_DAY, pa.int64(), mask=pc.is_null(array).to_numpy(zero_copy_only=False))
    else:
        days = array.view(pa.int32())
    return _calendar(days, DATE_MIN, DATE_MAX, pa.int32())


def _instants(array: pa.Array) -> tuple[pa.Array, Faults]:
    numbers, unit = array.view(pa.int64()), array.type.unit
    if unit == "ns":
        micros = numbers.fill_null(0).to_numpy() // 1000
        numbers = pa.array(micros, mask=pc.is_null(array).to_numpy(zero_copy_only=False))
    elif unit != "us":
        factor = {"s": 1_000_000, "ms": 1_000}[unit]
        bound = (1 << 63) // factor
        fits = pc.and_(pc.greater(numbers, -bound), pc.less(numbers, bound))
        held = pc.if_else(fits, numbers, pa.scalar(INSTANT_MAX // factor + 1, pa.int64()))
        # null stays null: it neither fits nor does not
        numbers = pc.if_else(pc.is_null(numbers), pa.scalar(None, pa.int64()), pc.multiply(held, factor))
    return _calendar(numbers, INSTANT_MIN, INSTANT_MAX, pa.int64())


def _calendar(numbers: pa.Array, least: int, greatest: int, target: pa.DataType) -> tuple[pa.Array, Faults]:
    bounds = pc.min_max(numbers).as_py()
    if bounds["min"] is None or (least <= bounds["min"] and bounds["max"] <= greatest):
        return numbers.cast(target), {}
    fits = pc.and_(pc.greater_equal(numbers, least), pc.less_equal(numbers, greatest))
    return _where(numbers, fits, "is not in the years 0001 to 9999", target)
