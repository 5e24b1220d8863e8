"""A folder on a volume, as checkpoints use one (object_store.py): each object is a file. Its conditional write is a
hard link, which the file system makes only where nothing has that name, on a network's disk, too.

Unlike the embedded engine's folder (folder.py), which one process owns by a lock, this one is written to by all units
of a query, wherever they run. A file is written under a name that nobody looks at, flushed to disk, and then given its
own; what a crash leaves of those goes a day later, when a tier starts.
"""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from biclique.ports.checkpoints import StoreRefusal, StoreUnavailable
from biclique.ports.file_sink import flush_folder

UNNAMED = ".biclique-"  # what the names of files begin with that are no objects, and nobody else's
LEFT_BEHIND_S = 24 * 3600
REFUSALS = (errno.EACCES, errno.EPERM, errno.EROFS)


class FolderObjects:
    """`root`: of the volume, or a folder in it that is made when it is first written to."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def refuse_unwritable(self) -> None:
        with _unavailable():
            self._root.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=self._root, prefix=UNNAMED) as ours:
                now = os.stat(ours.name).st_mtime  # by the clock of who keeps the volume
                for path in self._root.rglob(f"{UNNAMED}*"):
                    with suppress(FileNotFoundError):
                        if path.stat().st_mtime < now - LEFT_BEHIND_S:
                            path.unlink()

    def names(self, beginning: str) -> list[str]:
        with _unavailable():
            folder = self._file(beginning.rpartition("/")[0])
            return sorted(key for key in self._keys(folder) if key.startswith(beginning))

    def read(self, key: str) -> bytes | None:
        with _unavailable():
            try:
                return self._file(key).read_bytes()
            except FileNotFoundError:
                return None

    def write(self, key: str, data: bytes) -> None:
        with _unavailable(), self._written(key, data) as written:
            written.replace(self._file(key))

    def write_new(self, key: str, data: bytes) -> bool:
        with _unavailable(), self._written(key, data) as written:
            try:
                self._file(key).hardlink_to(written)
            except FileExistsError:
                return False
        return True

    def delete(self, key: str) -> None:
        with _unavailable():
            self._file(key).unlink(missing_ok=True)

    def _file(self, key: str) -> Path:
        """No name begins with a dot: none is special, and none is of a file that is being written."""
        return self._root.joinpath(*(f"%2E{part[1:]}" if part.startswith(".") else part for part in key.split("/")))

    def _keys(self, folder: Path) -> Iterator[str]:
        for found, _, names in os.walk(folder):
            for name in names:
                if not name.startswith(UNNAMED):
                    parts = Path(found, name).relative_to(self._root).parts
                    yield "/".join(f".{part[3:]}" if part.startswith("%2E") else part for part in parts)

    @contextmanager
    def _written(self, key: str, data: bytes) -> Iterator[Path]:
        """On disk, without its name; what has become of it is on disk when this returns."""
        folder = self._file(key).parent
        folder.mkdir(parents=True, exist_ok=True)
        file, name = tempfile.mkstemp(dir=folder, prefix=UNNAMED)
        try:
            with open(file, "wb") as opened:
                opened.write(data)
                opened.flush()
                os.fsync(file)
            yield Path(name)
        finally:
            Path(name).unlink(missing_ok=True)
        flush_folder(folder)


@contextmanager
def _unavailable() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in REFUSALS:
            raise StoreRefusal(f"this process may not write there ({error.strerror})") from None
        raise StoreUnavailable(f"the volume of checkpoints does not work as it should: {error}") from None
