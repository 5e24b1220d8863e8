"""The Spark task that reads files: parses them into blocks and sends these to the engine over its socket.

One task reads the files that a source has ready, one after the other: so a source's rows come in order, and as many
sources are parsed at once as there are processors. The files are parsed here, in the task's Python worker, and not by
Spark's own readers: those are slower by a factor (parquet 2.3 against 8 to 12 million rows a second, two files on two
cores), and the way they split and convert text is not what the design says of CSV and JSON.

The description of a task is JSON: a task's input is plain text, whoever serialises it.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import BinaryIO

import pyarrow as pa

from biclique.hosts.frames import BlockFrame, End, Failure, FileEnd, send_frame
from biclique.hosts.parsing.csv_rows import csv_blocks
from biclique.hosts.parsing.json_rows import json_blocks
from biclique.hosts.parsing.parquet_rows import parquet_blocks
from biclique.hosts.parsing.rows import ParsedBlock, Wanted
from biclique.hosts.parsing.splitting import BLOCK_MAX, UnreadableFile
from biclique.ports.file_source import ROWS_MAX, InputFile
from biclique.query.model import Field, Format
from biclique.query.types import Kind, Type


@dataclass(frozen=True, slots=True)
class Position:
    """How far a file has been taken: rows, and where the next block begins (ParsedBlock.resume)."""

    row: int = 0
    resume: int = 0


@dataclass(frozen=True, slots=True)
class ReadTask:
    """`number`: by which the engine knows the connection. `begin`: where to begin in the first file."""

    number: int
    address: str
    format: Format
    wanted: Wanted
    files: tuple[InputFile, ...]
    begin: Position

    def to_json(self) -> str:
        fields = [
            [f.name, f.type.kind.value, f.type.bits, f.type.precision, f.type.scale, f.nullable]
            for f in self.wanted.fields
        ]
        return json.dumps(
            {
                "number": self.number,
                "address": self.address,
                "format": self.format.value,
                "fields": fields,
                "time": self.wanted.time,
                "files": [[f.ordinal, f.name, f.path, f.size, f.mtime_ns] for f in self.files],
                "begin": [self.begin.row, self.begin.resume],
            }
        )


def task_of(text: str) -> ReadTask:
    values = json.loads(text)
    fields = (
        Field(name, Type(Kind(kind), bits, precision, scale), nullable)
        for name, kind, bits, precision, scale, nullable in values["fields"]
    )
    return ReadTask(
        values["number"],
        values["address"],
        Format(values["format"]),
        Wanted(tuple(fields), values["time"]),
        tuple(InputFile(*file) for file in values["files"]),
        Position(*values["begin"]),
    )


def run_tasks(texts: Iterable[str]) -> None:
    """What Spark calls with a partition: one description."""
    pa.set_cpu_count(1)  # a task is one core's worth of work
    pa.set_io_thread_count(1)
    for text in texts:
        run_task(task_of(text))


def run_task(task: ReadTask) -> None:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(task.address)
        connection.sendall(task.number.to_bytes(4, "big"))
        try:
            for file in task.files:
                if not _send_file(connection, task, file):
                    return
            send_frame(connection, End())
        except (BrokenPipeError, ConnectionResetError):
            return  # the engine wants no more: it stops, or has failed and says so itself


def _send_file(connection: socket.socket, task: ReadTask, file: InputFile) -> bool:
    begin = task.begin if file is task.files[0] else Position()
    row = begin.row
    try:
        with open(file.path, "rb") as stream:
            _refuse_if_changed(stream, file)
            for block in _blocks(stream, task, begin):
                row += block.count
                if row > ROWS_MAX:
                    raise UnreadableFile(f"it has more than {ROWS_MAX} rows")
                send_frame(connection, BlockFrame(file.ordinal, block))
            _refuse_if_changed(stream, file)
    except UnreadableFile as error:
        send_frame(connection, Failure(file.ordinal, str(error)))
        return False
    except (FileNotFoundError, PermissionError, IsADirectoryError) as error:
        send_frame(connection, Failure(file.ordinal, f"cannot be opened: {error.strerror}"))
        return False
    send_frame(connection, FileEnd(file.ordinal, row))
    return True


def _refuse_if_changed(stream: BinaryIO, file: InputFile) -> None:
    found = os.fstat(stream.fileno())
    if (found.st_size, found.st_mtime_ns) != (file.size, file.mtime_ns):
        raise UnreadableFile(
            "the file has changed since the run first saw it; "
            "put new rows into a new file, or begin anew with --restart"
        )


def _blocks(stream: BinaryIO, task: ReadTask, begin: Position) -> Iterator[ParsedBlock]:
    match task.format:
        case Format.PARQUET:
            return parquet_blocks(stream, task.wanted, begin.row, BLOCK_MAX)
        case Format.CSV:
            return csv_blocks(stream, task.wanted, begin.row, begin.resume, BLOCK_MAX)
        case Format.JSON:
            return json_blocks(stream, task.wanted, begin.row, begin.resume, BLOCK_MAX)
        case Format.ARROW:
            raise AssertionError("files are parquet, csv or json")
