"""Rows as bytes: one Arrow IPC stream with a format version. What a checkpoint blob holds, and what a block in Kafka
will.

Columns: stamp uint64, one int64 per id part, newest and oldest int64 (oldest left out where it is the same), one int64
for each of the ordinals (where a window counts tuples), then the columns by position. A column's Arrow type follows
from its SQL type, so a reader needs nothing but the types it expects. A column that is blank in all rows may be left
out (payload that did not travel, core/payload_places.py): its reader makes it anew.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import pyarrow as pa
import xxhash

from biclique.core.rows import Rows, Vector
from biclique.query.types import Kind, Type

FORMAT = b"1"


class DamagedBlob(Exception):
    """The bytes are not what was written: truncated, corrupted, or of a format that this version does not know."""


def checksum(data: bytes) -> int:
    return xxhash.xxh64_intdigest(data)


def storage_type(kind: Type) -> pa.DataType:
    """The Arrow type that holds a column's memory form, losslessly and without conversion."""
    match kind.kind:
        case Kind.INTEGER:
            return {8: pa.int8(), 16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[kind.bits]
        case Kind.DOUBLE:
            return pa.float64()
        case Kind.BOOLEAN:
            return pa.bool_()
        case Kind.STRING:
            return pa.string()
        case Kind.DATE:
            return pa.int32()
        case Kind.DECIMAL | Kind.TIMESTAMP | Kind.INTERVAL:
            return pa.int64()


def to_arrow(vector: Vector, kind: Type) -> pa.Array:
    mask = None if vector.valid is None else ~vector.valid
    if isinstance(vector.values, pa.Array):
        if mask is None:
            return vector.values
        return pa.compute.if_else(pa.array(vector.valid), vector.values, pa.scalar(None, pa.string()))
    return pa.array(vector.values, storage_type(kind), mask=mask)


def from_arrow(array: pa.Array, kind: Type) -> Vector:
    valid = None
    if array.null_count:
        valid = np.asarray(array.is_valid().to_numpy(zero_copy_only=False), np.bool_)
        array = array.fill_null("" if kind.kind is Kind.STRING else False if kind.kind is Kind.BOOLEAN else 0)
    if kind.kind is Kind.STRING:
        return Vector(array, valid)
    return Vector(array.to_numpy(zero_copy_only=kind.kind is not Kind.BOOLEAN), valid)


def blank(kind: Type, count: int) -> Vector:
    """What stands in place of values that are somewhere else: as a null has it below its mask, without the mask."""
    if kind.kind is Kind.STRING:
        offsets = pa.py_buffer(np.zeros(count + 1, np.int32))
        return Vector(pa.StringArray.from_buffers(count, offsets, pa.py_buffer(b"")))
    return Vector(np.zeros(count, storage_type(kind).to_pandas_dtype()))


def encode_rows(rows: Rows, types: Sequence[Type], left_out: Collection[int] = ()) -> bytes:
    """`left_out`: positions of columns that are blank."""
    arrays = [pa.array(rows.stamps), *map(pa.array, rows.ids), pa.array(rows.newest)]
    names = ["stamp", *(f"id{i}" for i in range(len(rows.ids))), "newest"]
    if rows.oldest is not rows.newest:
        arrays.append(pa.array(rows.oldest))
        names.append("oldest")
    for i, ordinals in enumerate(rows.ordinals):
        arrays.append(pa.array(ordinals))
        names.append(f"ordinal{i}")
    for i, (column, kind) in enumerate(zip(rows.columns, types, strict=True)):
        if i in left_out:
            continue
        arrays.append(to_arrow(column, kind))
        names.append(f"column{i}")
    schema = pa.schema([(name, a.type) for name, a in zip(names, arrays, strict=True)], metadata={b"format": FORMAT})
    return encode_batch(pa.RecordBatch.from_arrays(arrays, schema=schema))


def encode_batch(batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def decode_batch(data: bytes | pa.NativeFile) -> pa.RecordBatch:
    try:
        with pa.ipc.open_stream(data) as reader:
            table = reader.read_all().combine_chunks()
    except (pa.ArrowException, OSError) as error:
        raise DamagedBlob(str(error)) from error
    batches = table.to_batches()
    if not batches:
        return pa.RecordBatch.from_pylist([], schema=table.schema)
    return batches[0]


def decode_rows(data: bytes, types: Sequence[Type], id_parts: int) -> Rows:
    batch = decode_batch(data)
    if (batch.schema.metadata or {}).get(b"format") != FORMAT:
        raise DamagedBlob("unknown format")
    named = dict(zip(batch.schema.names, batch.columns, strict=True))
    newest = named["newest"].to_numpy()
    return Rows(
        named["stamp"].to_numpy(),
        tuple(named[f"id{i}"].to_numpy() for i in range(id_parts)),
        newest,
        named["oldest"].to_numpy() if "oldest" in named else newest,
        tuple(
            from_arrow(named[f"column{i}"], kind) if f"column{i}" in named else blank(kind, len(newest))
            for i, kind in enumerate(types)
        ),
        tuple(named[name].to_numpy() for name in batch.schema.names if name.startswith("ordinal")),
    )
