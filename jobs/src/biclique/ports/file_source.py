"""The input files of a source: which there are, in which order, and that they stay what they were.

A path is a file or a folder. A folder's files are read in the order of their names; names that begin with `_` or `.`
are not data. A file gets its ordinal when it is first seen, and a tuple's id is made of ordinal and row: so ordinals
are kept in the checkpoint, a file that appears later gets a later one, and a file that is not what it was when it was
first seen stops the run, since ids and results of it may be out already.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from biclique.core.stamps import OFFSET_BITS, ROW_BITS
from biclique.query.errors import QueryError

FILES_MAX = 1 << (OFFSET_BITS - ROW_BITS)
ROWS_MAX = 1 << ROW_BITS


@dataclass(frozen=True, slots=True)
class InputFile:
    """`name`: as shown to people and kept in the checkpoint; `path`: where it is now."""

    ordinal: int
    name: str
    path: str
    size: int
    mtime_ns: int


class FileChanged(QueryError):
    """A file that has been read, or is being read, is not what it was."""


def refuse_if_changed(file: InputFile) -> None:
    """A file that is gone has been read to its end, or its reader says so: only another content is refused here."""
    try:
        found = os.stat(file.path)
    except FileNotFoundError:
        return
    if (found.st_size, found.st_mtime_ns) != (file.size, file.mtime_ns):
        raise FileChanged(
            file.name,
            "the file has changed since the run first saw it",
            "put new rows into a new file, or begin anew with --restart",
        )


class FileSource:
    """`path` as the query has it; it must exist when this is made."""

    def __init__(self, place: str, path: str) -> None:
        self._place, self._path = place, Path(path)
        self._waiting: dict[str, tuple[int, int]] = {}  # seen once: name → (size, mtime)
        self._found()

    def discover(self, known: Sequence[InputFile], settled: bool = True) -> tuple[InputFile, ...]:
        """The files that are not known yet, in the order of their names. Not `settled`: a file counts from the second
        time that it is seen unchanged, as somebody may still be writing it."""
        names = {file.name for file in known}
        fresh: list[InputFile] = []
        for name, path in self._found():
            if name in names:
                continue
            try:
                found = path.stat()
            except FileNotFoundError:
                continue  # renamed or removed in between
            state = (found.st_size, found.st_mtime_ns)
            if not settled and self._waiting.get(name) != state:
                self._waiting[name] = state
                continue
            self._waiting.pop(name, None)
            ordinal = len(known) + len(fresh)
            if ordinal >= FILES_MAX:
                raise QueryError(self._place, f"more than {FILES_MAX} files", "join them into fewer, larger ones")
            fresh.append(InputFile(ordinal, name, str(path), *state))
        return tuple(fresh)

    def located(self, file: InputFile) -> InputFile:
        """A file of an earlier run, where it is now: the folder may have been moved as a whole."""
        path = self._path if self._path.is_file() else self._path / Path(file.name).name
        return replace(file, path=str(path))

    def _found(self) -> list[tuple[str, Path]]:
        if self._path.is_file():
            return [(self._path.name, self._path)]
        try:
            entries = sorted(os.scandir(self._path), key=lambda entry: entry.name)
        except (FileNotFoundError, NotADirectoryError):
            raise QueryError(self._place, f"there is no file or folder {self._path}", "correct the path") from None
        except PermissionError:
            raise QueryError(self._place, f"{self._path} may not be read", "give this user the right to") from None
        data = [entry for entry in entries if not entry.name.startswith(("_", "."))]
        for entry in data:
            if not entry.is_file():
                raise QueryError(
                    self._place, f"{entry.path} is no file, and folders within a folder are not read", "move it away"
                )
        return [(f"{self._path.name}/{entry.name}", Path(entry.path)) for entry in data]
