"""What a reading task sends to the engine over a local socket: frames, one after the other, in the order of the rows.

A frame is its header's length and its body's (4 bytes each, big-endian), the header as JSON, and the body: for a
block the typed columns of its good rows as an Arrow IPC stream. The stream ends with an `end` frame; a socket that
closes without one lost its task. A task sends only as fast as the engine takes: the socket's buffer is all that lies
between.
"""

from __future__ import annotations

import json
import socket
import struct
from base64 import b64decode, b64encode
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from biclique.core.codec import encode_batch
from biclique.hosts.parsing.rows import BadRow, ParsedBlock

_LENGTHS = struct.Struct(">II")
BAD_ROW_BYTES = 200  # of a bad row's objects, without its raw bytes


@dataclass(frozen=True, slots=True, eq=False)
class BlockFrame:
    ordinal: int  # of the file
    block: ParsedBlock

    @property
    def nbytes(self) -> int:
        """In memory, about."""
        block = self.block
        bad = sum(BAD_ROW_BYTES + len(row.raw) for row in block.bad)
        return int(block.rows.nbytes) + sum(column.nbytes for column in block.columns) + bad


@dataclass(frozen=True, slots=True)
class FileEnd:
    """All rows of a file have been sent; `rows`: how many it has."""

    ordinal: int
    rows: int


@dataclass(frozen=True, slots=True)
class Failure:
    """The task cannot go on: a sentence for the user, about the file."""

    ordinal: int
    sentence: str


@dataclass(frozen=True, slots=True)
class End:
    """All files of the task have been sent."""


Frame = BlockFrame | FileEnd | Failure | End


class LostTask(Exception):
    """The connection ended without an end frame."""


def encode_frame(frame: Frame) -> tuple[bytes, bytes]:
    """Header with the lengths before it, and body."""
    body = b""
    match frame:
        case BlockFrame(ordinal, block):
            header: dict[str, Any] = {
                "kind": "block",
                "file": ordinal,
                "first": block.first_row,
                "count": block.count,
                "resume": block.resume,
                "bad": [[bad.row, bad.column, bad.reason, b64encode(bad.raw).decode()] for bad in block.bad],
            }
            arrays = {str(position): column for position, column in enumerate(block.columns)}
            if len(block.rows) != block.count:
                arrays["rows"] = pa.array(block.rows)
            if arrays:
                body = encode_batch(pa.RecordBatch.from_pydict(arrays))
        case FileEnd(ordinal, rows):
            header = {"kind": "file end", "file": ordinal, "rows": rows}
        case Failure(ordinal, sentence):
            header = {"kind": "failure", "file": ordinal, "sentence": sentence}
        case End():
            header = {"kind": "end"}
    text = json.dumps(header).encode()
    return _LENGTHS.pack(len(text), len(body)) + text, body


def send_frame(connection: socket.socket, frame: Frame) -> None:
    header, body = encode_frame(frame)
    connection.sendall(header)
    if body:
        connection.sendall(body)


def receive_frame(connection: socket.socket) -> Frame:
    header_length, body_length = _LENGTHS.unpack(_receive(connection, _LENGTHS.size).tobytes())
    header = json.loads(_receive(connection, header_length).tobytes())
    body = _receive(connection, body_length)
    match header["kind"]:
        case "block":
            return BlockFrame(header["file"], _block(header, body))
        case "file end":
            return FileEnd(header["file"], header["rows"])
        case "failure":
            return Failure(header["file"], header["sentence"])
        case kind:
            assert kind == "end", kind
            return End()


def _block(header: dict[str, Any], body: NDArray[np.uint8]) -> ParsedBlock:
    bad = tuple(BadRow(row, column, reason, b64decode(raw)) for row, column, reason, raw in header["bad"])
    first, count = header["first"], header["count"]
    rows = np.arange(first, first + count)
    columns: dict[str, pa.Array] = {}
    if len(body):
        with pa.ipc.open_stream(pa.py_buffer(body)) as reader:
            batch = reader.read_next_batch()  # also where every record is bad: the columns are then empty
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        if "rows" in columns:
            rows = columns.pop("rows").to_numpy()
    return ParsedBlock(first, count, rows, tuple(columns.values()), bad, header["resume"])


def _receive(connection: socket.socket, length: int) -> NDArray[np.uint8]:
    """numpy memory: aligned, so that columns in it are."""
    data = np.empty(length, np.uint8)
    view, got = data.data, 0
    while got < length:
        count = connection.recv_into(view[got:])
        if not count:
            raise LostTask
        got += count
    return data
