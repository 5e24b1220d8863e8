"""How many bytes an Arrow IPC stream takes in memory, told before anything in it is unpacked or copied.

A small message may be a large one: its buffers compressed, or one long text that every row refers to (a dictionary's
value, a string view). Who makes columns of it finds out with the memory gone. So what compressed buffers say of
themselves is added up first, from the metadata alone; reading allocates exactly so much, and refuses a buffer that then
unpacks to anything else. Texts that are referred to are measured once the rows are there, before they are copied.

The metadata are flatbuffers (Arrow's Message.fbs), which pyarrow verifies when it reads a message and shows to nobody.
Of them, only the places of the buffers are looked up here.
"""

from __future__ import annotations

import struct

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

HEADER_TYPE, HEADER = 1, 2  # fields of Message
DICTIONARY_BATCH, RECORD_BATCH = 2, 3  # values of MessageHeader
DICTIONARY_DATA = 1  # field of DictionaryBatch: a RecordBatch
BUFFERS, COMPRESSION = 2, 3  # fields of RecordBatch
BUFFER_BYTES = 16  # of the struct Buffer: where it begins, how long it is
AS_IT_IS = -1  # in place of a length: this buffer is not compressed


def unpacked_bytes(stream: pa.Buffer) -> int:
    """Of all its batches. Raises ArrowException where it is no such stream."""
    total, reader = 0, pa.ipc.MessageReader.open_stream(stream)
    while True:
        try:
            message = reader.read_next_message()
        except StopIteration:
            return total
        total += _body_bytes(message.metadata, message.body)


def refers(stream: pa.Buffer) -> bool:
    """Whether rows may refer to texts that they share, so that `unpacked_bytes` is not all."""
    with pa.ipc.open_stream(stream) as reader:
        return any(pa.types.is_dictionary(found) or pa.types.is_string_view(found) for found in reader.schema.types)


def text_bytes(column: pa.Array) -> int:
    """Of its texts as rows of their own; of other columns 0: those are as large as they were read."""
    if not pa.types.is_dictionary(column.type):
        return int(_lengths(column).sum())
    return int(_lengths(column.dictionary)[column.indices.drop_null().to_numpy()].sum())


def _lengths(column: pa.Array) -> NDArray[np.int64]:
    """Of texts; 0 where there is none."""
    found = np.zeros(len(column), np.int64)
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        found += pc.fill_null(pc.binary_length(column), 0).to_numpy()
    elif pa.types.is_string_view(column.type) and len(column):  # which no function of Arrow measures
        views = np.frombuffer(column.buffers()[1], np.int32)[4 * column.offset :]
        found += views[: 4 * len(column) : 4]
        found[pc.is_null(column).to_numpy(zero_copy_only=False)] = 0
    return found


def _body_bytes(metadata: pa.Buffer, body: pa.Buffer | None) -> int:
    size = 0 if body is None else body.size
    tables = _Tables(metadata)
    batch = tables.batch()
    if batch is None or tables.field(batch, COMPRESSION) is None:
        return size
    return sum(_length(body, begin, length) for begin, length in tables.buffers(batch))


def _length(body: pa.Buffer | None, begin: int, length: int) -> int:
    """A compressed buffer begins with what it unpacks to."""
    if body is None or length < 8 or begin < 0 or begin + length > body.size:
        return 0  # an empty one, or one that is refused when it is read
    (unpacked,) = struct.unpack_from("<q", body, begin)
    return length if unpacked == AS_IT_IS else max(0, int(unpacked))


class _Tables:
    """Of one message's flatbuffer: a table begins with how far behind it its list of fields begins."""

    def __init__(self, metadata: pa.Buffer) -> None:
        self._data = memoryview(metadata)

    def batch(self) -> int | None:
        """Where the table of the RecordBatch is; None: this message has none."""
        message = self._number("<I", 0)
        kind, header = self.field(message, HEADER_TYPE), self.field(message, HEADER)
        if kind is None or header is None:
            return None
        found = header + self._number("<I", header)
        which = self._number("<B", kind)
        if which == DICTIONARY_BATCH:
            data = self.field(found, DICTIONARY_DATA)
            return None if data is None else data + self._number("<I", data)
        return found if which == RECORD_BATCH else None

    def buffers(self, batch: int) -> list[tuple[int, int]]:
        """Of the body: where each begins, and how long it is."""
        field = self.field(batch, BUFFERS)
        if field is None:
            return []
        vector = field + self._number("<I", field)
        first, count = vector + 4, self._number("<I", vector)
        return [struct.unpack_from("<qq", self._data, first + BUFFER_BYTES * number) for number in range(count)]

    def field(self, table: int, number: int) -> int | None:
        """Where it stands; None: it is not there."""
        fields = table - self._number("<i", table)
        place = 4 + 2 * number
        if place >= self._number("<H", fields):
            return None
        offset = self._number("<H", fields + place)
        return table + offset if offset else None

    def _number(self, form: str, at: int) -> int:
        (found,) = struct.unpack_from(form, self._data, at)
        return int(found)
