"""Parquet → blocks of typed rows. The file's own types must hold what the schema says; values are then judged one by
one.

| schema      | file                                                                                              |
|-------------|---------------------------------------------------------------------------------------------------|
| INTEGER     | any integer; a value beyond the width is at fault                                                 |
| DOUBLE      | float, double, or an integer of at most 32 bits: all of these are exact                           |
| DECIMAL     | decimal; a value that has more digits before or behind the point is at fault                      |
| BOOLEAN     | boolean                                                                                           |
| STRING      | string                                                                                            |
| DATE        | date                                                                                              |
| TIMESTAMP   | timestamp of any unit, of which microseconds are kept; without a zone it is UTC                   |

Anything else is refused for the whole file in one sentence.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from biclique.core.codec import storage_type
from biclique.hosts.parsing.columns import Faults, arrow_type, unscaled
from biclique.hosts.parsing.rows import BadRow, ParsedBlock, Verdict, Wanted, absent_values, first_faults, without
from biclique.hosts.parsing.splitting import BLOCK_MAX, BlockMax, UnreadableFile
from biclique.hosts.parsing.values import DATE_MAX, DATE_MIN, INSTANT_MAX, INSTANT_MIN
from biclique.query.model import Field
from biclique.query.types import Kind, Type

_MILLIS_PER_DAY = 86_400_000


def parquet_blocks(
    stream: BinaryIO, wanted: Wanted, first_row: int, most: BlockMax = BLOCK_MAX
) -> Iterator[ParsedBlock]:
    """From a block's begin on: `first_row` is its first row."""
    try:
        file = pq.ParquetFile(stream, pre_buffer=False)
    except pa.ArrowInvalid as error:
        raise UnreadableFile(f"no parquet file: {str(error).splitlines()[0]}") from None
    schema = file.schema_arrow
    for field in wanted.fields:
        _check(field, schema)
    # Row groups begin anywhere, and a batch of Arrow's may end with one: blocks are cut from our own count.
    row, groups = _group_of(file, first_row)
    names = [field.name for field in wanted.fields]
    held: list[pa.RecordBatch] = []
    count = size = 0
    try:
        at_once = _rows_at_once(file, names, groups, most)
        for batch in file.iter_batches(at_once, row_groups=groups, columns=names, use_threads=False):
            if row < first_row:
                skipped = min(first_row - row, len(batch))
                batch, row = batch.slice(skipped), row + skipped
            ends = np.cumsum(_row_bytes(batch))
            start = 0
            while start < len(batch):
                before = int(ends[start - 1]) if start else 0
                fitting = int(ends.searchsorted(most.bytes - size + before, side="right")) - start
                taken = min(most.rows - count, len(batch) - start, max(fitting, 0 if count else 1))
                if taken:
                    held.append(batch.slice(start, taken))
                    start, count, size = start + taken, count + taken, size + int(ends[start + taken - 1]) - before
                if start < len(batch) or count == most.rows:  # the block takes no more
                    yield _block(held, wanted, row, count)
                    held, row, count, size = [], row + count, 0, 0
    except (pa.ArrowInvalid, OSError) as error:
        raise UnreadableFile(f"damaged parquet file: {str(error).splitlines()[0]}") from None
    if count:
        yield _block(held, wanted, row, count)


def _rows_at_once(file: pq.ParquetFile, names: list[str], groups: list[int], most: BlockMax) -> int:
    """What Arrow decodes at a time: about a block, going by the row group with the largest rows."""
    rows = most.rows
    for number in groups:
        group = file.metadata.row_group(number)
        columns = (group.column(position) for position in range(group.num_columns))
        size = sum(column.total_uncompressed_size for column in columns if column.path_in_schema in names)
        rows = min(rows, most.bytes * group.num_rows // max(size, 1))
    return max(rows, 1)


def _row_bytes(batch: pa.RecordBatch) -> NDArray[np.int64]:
    """Of the values of each row, however they are encoded and wherever batches begin: a cut must not depend on that."""
    sizes = np.zeros(len(batch), np.int64)
    for column in batch.columns:
        kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
        if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
            sizes += _text_bytes(column)
        else:
            sizes += (kind.bit_width + 7) // 8
    return sizes


def _text_bytes(column: pa.Array) -> NDArray[np.int64]:
    if pa.types.is_dictionary(column.type):
        lengths = np.append(_text_bytes(column.dictionary), 0)
        found = lengths[column.indices.fill_null(0).to_numpy()]
        return np.where(column.is_valid().to_numpy(zero_copy_only=False), found, 0)
    plain = column.cast(pa.large_string()) if pa.types.is_string_view(column.type) else column
    return pc.fill_null(pc.binary_length(plain), 0).to_numpy().astype(np.int64, copy=False)


def _group_of(file: pq.ParquetFile, first_row: int) -> tuple[int, list[int]]:
    """The row with which the group of `first_row` begins, and that group and all behind it."""
    row = 0
    for group in range(file.num_row_groups):
        rows = file.metadata.row_group(group).num_rows
        if row + rows > first_row:
            return row, list(range(group, file.num_row_groups))
        row += rows
    return row, []


def _check(field: Field, schema: pa.Schema) -> None:
    places = schema.get_all_field_indices(field.name)
    if len(places) != 1:
        shown = ", ".join(schema.names[:20])
        raise UnreadableFile(
            f"it has {'no' if not places else 'more than one'} column {field.name} (it has {shown}); "
            "correct the schema: upper and lower case count"
        )
    found = schema.field(places[0]).type
    if not _holds(found, field.type):
        raise UnreadableFile(f"column {field.name} is {found} in the file and {field.type} in the schema")


def _holds(found: pa.DataType, kind: Type) -> bool:
    if pa.types.is_dictionary(found):
        found = found.value_type
    match kind.kind:
        case Kind.INTEGER:
            return pa.types.is_integer(found)
        case Kind.DOUBLE:
            return pa.types.is_floating(found) or (pa.types.is_integer(found) and found.bit_width <= 32)
        case Kind.DECIMAL:
            return pa.types.is_decimal(found)
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


def _block(batches: list[pa.RecordBatch], wanted: Wanted, first_row: int, count: int) -> ParsedBlock:
    native = [_one_array([batch.column(position) for batch in batches]) for position in range(len(wanted.fields))]
    typed = [_converted(array, field.type) for array, field in zip(native, wanted.fields, strict=True)]
    columns = [array for array, _ in typed]
    verdicts: dict[int, Verdict] = absent_values(wanted, columns) | first_faults(wanted, (f for _, f in typed))
    good, columns_of_good = without(columns, count, verdicts)
    bad = tuple(
        BadRow(first_row + row, verdicts[row].column, verdicts[row].reason, _as_json(wanted, native, row))
        for row in sorted(verdicts)
    )
    return ParsedBlock(first_row, count, good + first_row, columns_of_good, bad, first_row + count)


def _one_array(pieces: list[pa.Array]) -> pa.Array:
    array = pieces[0] if len(pieces) == 1 else pa.concat_arrays(pieces)
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


def _as_json(wanted: Wanted, native: list[pa.Array], row: int) -> bytes:
    """A row of a columnar file has no bytes of its own: the columns read, as JSON, stand for it."""
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


def _converted(array: pa.Array, kind: Type) -> tuple[pa.Array, Faults]:
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
