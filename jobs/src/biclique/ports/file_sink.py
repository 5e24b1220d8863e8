"""Output files that appear exactly once, whenever the process is killed.

Rows go into hidden temporary files of the current *barrier*. `seal` closes them, flushes them to disk and names them;
the engine then makes the barrier true with one atomic rename of its state, which holds these names; only after that
does `publish` give the files their visible names. So after a crash:

* a temporary file that the state names has been made true, and `recover` publishes it;
* any other temporary file belongs to a barrier that never was, and `recover` removes it; its rows will come again.

A reader sees complete files of true barriers and nothing else. Names: `part-<barrier>-<number>.<format>`, hidden
behind a dot until they are published.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Protocol

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from biclique.ports.tables import json_lines, with_text_ids
from biclique.query.errors import QueryError
from biclique.query.model import Format

PART = re.compile(r"part-[0-9]{6,}-[0-9]{4,}\.(parquet|csv|json)")
PART_ROWS_MAX = 1 << 24  # a barrier's rows beyond this go into another file


class PartMissing(QueryError):
    """A file that a committed barrier names is gone: somebody has removed it."""


class _Writer(Protocol):
    def write(self, table: pa.Table) -> None: ...

    def close(self) -> None: ...


class _Parquet:
    def __init__(self, file: BinaryIO, schema: pa.Schema) -> None:
        # Ids do not repeat; dictionaries would be built to be thrown away. A string column may.
        texts = [field.name for field in schema if pa.types.is_string(field.type)]
        self._writer = pq.ParquetWriter(file, schema, compression="snappy", use_dictionary=texts)

    def write(self, table: pa.Table) -> None:
        self._writer.write_table(table, row_group_size=1 << 20)

    def close(self) -> None:
        self._writer.close()


class _Csv:
    def __init__(self, file: BinaryIO, schema: pa.Schema) -> None:
        self._writer = pa_csv.CSVWriter(file, with_text_ids(schema.empty_table()).schema)

    def write(self, table: pa.Table) -> None:
        self._writer.write_table(with_text_ids(table))

    def close(self) -> None:
        self._writer.close()


class _Json:
    def __init__(self, file: BinaryIO, schema: pa.Schema) -> None:
        self._file = file

    def write(self, table: pa.Table) -> None:
        self._file.write(json_lines(table))

    def close(self) -> None:
        pass


_WRITERS: dict[Format, Callable[[BinaryIO, pa.Schema], _Writer]] = {
    Format.PARQUET: _Parquet,
    Format.CSV: _Csv,
    Format.JSON: _Json,
}


class FileSink:
    """One folder of part files. `root`: the output folder, which names in the state are relative to."""

    def __init__(self, root: Path, folder: str, format_: Format) -> None:
        self._root, self._folder, self._format = root, folder, format_
        self._path = root / folder
        self._open: tuple[Path, BinaryIO, _Writer] | None = None
        self._rows = 0
        self._sealed: list[str] = []
        self._number = 0
        self.barrier = 0

    def write(self, table: pa.Table) -> None:
        if not len(table):
            return
        if self._open is None:
            self._begin(table.schema)
        assert self._open is not None
        path, _, writer = self._open
        with naming(path):
            writer.write(table)
        self._rows += len(table)
        if self._rows >= PART_ROWS_MAX:
            self._finish()

    def seal(self) -> tuple[str, ...]:
        """Everything written since the last barrier is on disk; the names to put into the state."""
        self._finish()
        names = tuple(self._sealed)
        self._sealed, self._number = [], 0
        if names:
            flush_folder(self._path)
        return names

    def _begin(self, schema: pa.Schema) -> None:
        self._path.mkdir(parents=True, exist_ok=True)
        name = f"part-{self.barrier:06d}-{self._number:04d}.{self._format.value}"
        self._number += 1
        path = self._path / f".{name}"
        file = path.open("wb")
        self._open, self._rows = (path, file, _WRITERS[self._format](file, schema)), 0
        self._sealed.append(f"{self._folder}/{name}" if self._folder else name)

    def _finish(self) -> None:
        if self._open is None:
            return
        path, file, writer = self._open
        with naming(path):
            writer.close()
            file.flush()
            os.fsync(file.fileno())
            file.close()
        self._open = None

    def discard(self) -> None:
        """What the current barrier has written will never be true."""
        if self._open is not None:
            _, file, writer = self._open
            with suppress(OSError, ValueError, pa.ArrowException):
                writer.close()  # before its file: a writer that finds it closed complains on stderr
            with suppress(OSError):
                file.close()  # what a full disk did not take is still to be written
            self._open = None
        for name in self._sealed:
            hidden(self._root / name).unlink(missing_ok=True)
        self._sealed = []


def hidden(path: Path) -> Path:
    return path.with_name(f".{path.name}")


def publish(root: Path, names: Iterable[str]) -> None:
    """Visible names for sealed files. May be repeated: what is visible already stays."""
    folders: set[Path] = set()
    for name in names:
        path = root / name
        try:
            hidden(path).rename(path)
        except FileNotFoundError:
            if not path.exists():
                raise PartMissing(
                    str(path),
                    "it is gone, though the checkpoint says that it was written",
                    "put it back, or begin anew with --restart",
                ) from None
        folders.add(path.parent)
    for folder in folders:
        flush_folder(folder)


def recover(root: Path, folders: Iterable[str], named: Iterable[str]) -> None:
    """After a restart: finish what was made true, remove what was not."""
    names = tuple(named)
    publish(root, names)
    for folder in folders:
        path = root / folder
        if not path.is_dir():
            continue
        for entry in path.iterdir():
            if entry.name.startswith(".") and PART.fullmatch(entry.name[1:]):
                entry.unlink()


def written_parts(root: Path, folders: Iterable[str]) -> list[Path]:
    """Every part file beneath an output folder, hidden ones too."""
    found: list[Path] = []
    for folder in folders:
        path = root / folder
        if path.is_dir():
            found += [entry for entry in path.iterdir() if PART.fullmatch(entry.name.removeprefix("."))]
    return sorted(found)


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """An error of writing says of which file: the system leaves that out where a file is open already."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(path)
        raise


def flush_folder(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def replace_file(path: Path, data: bytes) -> None:
    """All of the new content or all of the old, whatever happens, and on disk when this returns."""
    temporary = path.with_name(path.name + ".new")
    with naming(path), temporary.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    flush_folder(path.parent)
