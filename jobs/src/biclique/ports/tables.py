"""Rows of vectors → tables as people read them, and tables → lines of JSON.

Types in files: DECIMAL, DATE and TIMESTAMP (UTC) are Arrow's own; `_result_id` is 16 bytes in parquet and 32
hexadecimal digits, the high half first, in CSV and JSON. In JSON every line has every column: null is written, times
are ISO 8601 with a Z, NaN and the infinities are strings, DECIMAL is a number with all its decimals.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from biclique.core.rows import Vector
from biclique.query.model import Item
from biclique.query.types import Kind, Type
from biclique.tiers.messages import Results

RESULT_ID = "_result_id"


def file_type(kind: Type) -> pa.DataType:
    match kind.kind:
        case Kind.INTEGER:
            return {8: pa.int8(), 16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[kind.bits]
        case Kind.DOUBLE:
            return pa.float64()
        case Kind.DECIMAL:
            return pa.decimal128(kind.precision, kind.scale)
        case Kind.BOOLEAN:
            return pa.bool_()
        case Kind.STRING:
            return pa.string()
        case Kind.DATE:
            return pa.date32()
        case Kind.TIMESTAMP:
            return pa.timestamp("us", "UTC")
        case Kind.INTERVAL:
            return pa.int64()  # microseconds: no file format of ours has a type for it


def file_column(vector: Vector, kind: Type) -> pa.Array:
    values, target = vector.values, file_type(kind)
    if isinstance(values, pa.Array):
        return values if vector.valid is None else pc.if_else(pa.array(vector.valid), values, pa.scalar(None, target))
    mask = None if vector.valid is None else ~vector.valid
    if kind.kind is Kind.DECIMAL:
        return _decimals(values, vector.valid, target)
    if kind.kind is Kind.DATE:
        return pa.array(values, pa.int32(), mask=mask).view(target)
    if kind.kind is Kind.TIMESTAMP:
        return pa.array(values, pa.int64(), mask=mask).view(target)
    return pa.array(values, target, mask=mask)


def _decimals(unscaled: np.ndarray, valid: np.ndarray | None, target: pa.DataType) -> pa.Array:
    wide = np.empty((len(unscaled), 2), np.int64)
    wide[:, 0] = unscaled
    wide[:, 1] = unscaled >> 63  # the sign
    bitmap = None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.Array.from_buffers(target, len(unscaled), [bitmap, pa.py_buffer(wide)])


def result_table(items: Sequence[Item], results: Results) -> pa.Table:
    """The select list, and last the result's id as 16 bytes."""
    columns = [file_column(vector, item.type) for vector, item in zip(results.columns, items, strict=True)]
    ids = np.empty((len(results.ids_high), 2), ">u8")
    ids[:, 0], ids[:, 1] = results.ids_high, results.ids_low
    columns.append(pa.Array.from_buffers(pa.binary(16), len(ids), [None, pa.py_buffer(ids)]))
    return pa.Table.from_arrays(columns, [*(item.name for item in items), RESULT_ID])


def with_text_ids(table: pa.Table) -> pa.Table:
    position = table.schema.get_field_index(RESULT_ID)
    if position < 0:
        return table
    ids = table.column(position).combine_chunks()
    raw = np.frombuffer(ids.buffers()[1], np.uint8)[16 * ids.offset : 16 * (ids.offset + len(ids))]
    digits = np.frombuffer(b"0123456789abcdef", np.uint8)
    text = np.empty((len(raw), 2), np.uint8)
    text[:, 0], text[:, 1] = digits[raw >> 4], digits[raw & 15]
    offsets = pa.py_buffer(np.arange(0, 32 * len(ids) + 1, 32, dtype=np.int32))
    texts = pa.Array.from_buffers(pa.string(), len(ids), [None, offsets, pa.py_buffer(text)])
    return table.set_column(position, RESULT_ID, texts)


# --- JSON ------------------------------------------------------------------------------------------------------------

_NEEDS_ESCAPE = r'["\\\x00-\x1f]'


def json_lines(table: pa.Table) -> bytes:
    """One object a line. Column by column, and joined at the end: no Python for a single row but for odd strings."""
    if not len(table):
        return b""
    table = with_text_ids(table)
    pieces: list[object] = []
    for position, (name, column) in enumerate(zip(table.column_names, table.columns, strict=True)):
        lead = "{" if position == 0 else ", "
        pieces.append(pa.scalar(f"{lead}{json.dumps(name, ensure_ascii=False)}: "))
        pieces.append(_json_values(column.combine_chunks()))
    pieces.append(pa.scalar("}\n"))
    lines = pc.binary_join_element_wise(*pieces, pa.scalar(""))
    lines = lines.combine_chunks() if isinstance(lines, pa.ChunkedArray) else lines
    ends = np.frombuffer(lines.buffers()[1], np.int32)[lines.offset : lines.offset + len(lines) + 1]
    begin, end = int(ends[0]), int(ends[-1])
    return lines.buffers()[2].slice(begin, end - begin).to_pybytes()


def json_objects(table: pa.Table) -> list[bytes]:
    """As lines, without their ends. No object has one within: those of its texts are escaped."""
    return json_lines(table).split(b"\n")[:-1]


def _json_values(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    column = pa.concat_arrays(column.chunks) if isinstance(column, pa.ChunkedArray) else column
    kind = column.type
    if pa.types.is_string(kind):
        texts = _json_strings(column)
    elif pa.types.is_timestamp(kind):
        texts = _in_quotes(pc.strftime(column, "%Y-%m-%dT%H:%M:%SZ", locale="C"))
    elif pa.types.is_date(kind):
        texts = _in_quotes(column.cast(pa.string()))
    elif pa.types.is_floating(kind):
        texts = _json_doubles(column)
    else:
        texts = column.cast(pa.string())
    return pc.fill_null(texts, "null")


def _in_quotes(texts: pa.Array) -> pa.Array:
    quote = pa.scalar('"')
    return pc.binary_join_element_wise(quote, texts, quote, pa.scalar(""))


def _json_doubles(column: pa.DoubleArray) -> pa.Array:
    finite = pc.is_finite(column)
    texts = column.cast(pa.string())
    if pc.all(finite).as_py() is not False:
        return texts
    names = pc.if_else(pc.is_nan(column), '"NaN"', pc.if_else(pc.greater(column, 0), '"Infinity"', '"-Infinity"'))
    return pc.if_else(finite, texts, names)


def _json_strings(column: pa.StringArray) -> pa.Array:
    quoted = _in_quotes(column)
    odd = pc.fill_null(pc.match_substring_regex(column, _NEEDS_ESCAPE), False)
    if not pc.any(odd).as_py():
        return quoted
    escaped = [json.dumps(text, ensure_ascii=False) for text in column.filter(odd).to_pylist()]
    return pc.replace_with_mask(quoted, odd, pa.array(escaped, pa.string()))
