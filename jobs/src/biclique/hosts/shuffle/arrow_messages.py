"""Messages that hold many rows each, as an Arrow IPC stream (schema, batches), as pyarrow, polars and others write it.

Columns are found by their names; their types must hold what the schema says, as in a Parquet file (native_columns.py).
A message that does not, that is no such stream, or that has more rows than have places, is bad as a whole; a row with
a value that does not fit is bad alone. What a broker hands out is not trusted: a batch is checked in full before
anything looks at its values, and what a message takes in memory is known before it takes it (arrow_sizes.py).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from biclique.core.codec import storage_type
from biclique.core.places import ROWS_PER_MESSAGE
from biclique.hosts.parsing.native_columns import converted, holds, one_array, row_as_json
from biclique.hosts.parsing.rows import Wanted, absent_values, first_faults, without
from biclique.hosts.shuffle.arrow_sizes import refers, text_bytes, unpacked_bytes
from biclique.hosts.shuffle.parsed import WHOLE, BadRecord, ParsedMessages

UNPACKED_MAX = 64 << 20  # bytes of a message in memory, where it has not as many as it comes: 1 kB for each row
NO_STREAM = (pa.ArrowException, OSError, UnicodeDecodeError, struct.error)


class _Unfit(Exception):
    """The message as a whole: the sentence says why."""


@dataclass(frozen=True, slots=True, eq=False)
class _Rows:
    """Of one message."""

    count: int
    good: np.ndarray
    columns: Sequence[pa.Array]
    bad: list[BadRecord]


def parse_arrow_messages(values: pa.BinaryArray, wanted: Wanted) -> ParsedMessages:
    bad: list[BadRecord] = []
    counts = np.zeros(len(values), np.int64)
    found: list[tuple[int, _Rows]] = []
    for message, value in enumerate(values):
        try:
            rows = _rows_of(message, value.as_buffer(), wanted)
        except _Unfit as reason:
            bad.append(BadRecord(message, WHOLE, "", str(reason)))
            counts[message] = 1
            continue
        counts[message] = rows.count
        bad += rows.bad
        found.append((message, rows))
    messages = [np.full(len(rows.good), message, np.int64) for message, rows in found]
    return ParsedMessages(
        np.concatenate([np.zeros(0, np.int64), *messages]),
        np.concatenate([np.zeros(0, np.int64), *(rows.good for _, rows in found)]),
        tuple(
            pa.concat_arrays([pa.array([], storage_type(field.type)), *(rows.columns[at] for _, rows in found)])
            for at, field in enumerate(wanted.fields)
        ),
        tuple(bad),
        counts,
    )


def arrow_sizes(values: pa.BinaryArray, wanted: Wanted) -> NDArray[np.int64]:
    """Of messages, in memory: how many are parsed at once goes by it. What will be refused is as large as it came."""
    return np.array([_size(value.as_buffer(), wanted) if value.is_valid else 0 for value in values], np.int64)


def _size(data: pa.Buffer, wanted: Wanted) -> int:
    try:
        size = _within(data, unpacked_bytes(data))
        if not refers(data):
            return size
        return size + _within(data, _texts_of(_batches(data, wanted)))
    except (*NO_STREAM, _Unfit):
        return int(data.size)


def _within(data: pa.Buffer, size: int) -> int:
    most = max(UNPACKED_MAX, data.size)
    if size > most:
        raise _Unfit(f"{size:,} bytes once it is unpacked, and a message has at most {most:,}: send smaller ones")
    return size


def _texts_of(batches: Sequence[pa.RecordBatch]) -> int:
    return sum(text_bytes(column) for batch in batches for column in batch.columns)


def _rows_of(message: int, data: pa.Buffer, wanted: Wanted) -> _Rows:
    try:
        _within(data, unpacked_bytes(data))
        batches = _batches(data, wanted)
        count = sum(len(batch) for batch in batches)
        if count > ROWS_PER_MESSAGE:
            raise _Unfit(f"{count:,} rows, and a message has at most {ROWS_PER_MESSAGE:,}: send smaller ones")
        _within(data, _texts_of(batches))
        if not count:
            return _Rows(0, np.zeros(0, np.int64), [pa.array([], storage_type(f.type)) for f in wanted.fields], [])
        native = [one_array([batch.column(at) for batch in batches]) for at in range(len(wanted.fields))]
        typed = [converted(array, field.type) for array, field in zip(native, wanted.fields, strict=True)]
    except NO_STREAM as error:
        raise _Unfit(f"no Arrow IPC stream: {str(error).splitlines()[0][:200]}") from None
    columns = [array for array, _ in typed]
    verdicts = absent_values(wanted, columns) | first_faults(wanted, (faults for _, faults in typed))
    good, kept = without(columns, count, verdicts)
    bad = [
        BadRecord(message, row, verdicts[row].column, verdicts[row].reason, row_as_json(wanted, native, row))
        for row in sorted(verdicts)
    ]
    return _Rows(count, good, kept, bad)


def _batches(data: pa.Buffer, wanted: Wanted) -> list[pa.RecordBatch]:
    """With the wanted columns alone, in their order."""
    with pa.ipc.open_stream(data) as reader:
        schema: pa.Schema = reader.schema
        for field in wanted.fields:
            places = schema.get_all_field_indices(field.name)
            if len(places) != 1:
                shown = ", ".join(schema.names[:20])
                raise _Unfit(f"{'no' if not places else 'more than one'} column {field.name} (it has {shown})")
            found = schema.field(places[0]).type
            if not holds(found, field.type):
                raise _Unfit(f"column {field.name} is {found} in the message and {field.type} in the schema")
        names = [field.name for field in wanted.fields]
        batches = [batch.select(names) for batch in reader]
    for batch in batches:
        batch.validate(full=True)
    return batches
