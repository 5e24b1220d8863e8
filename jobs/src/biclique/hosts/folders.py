"""The two folders of a run, output and checkpoint: what is in the way there is said before anything is written.

A folder that holds something is ours or stays as it is. A checkpoint has names that a reader of the output must not
take for results, and runs empty its `blobs`: so it is neither the output folder itself nor a visible part of it.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from biclique.ports.run_state import NAME
from biclique.query.errors import QueryError

SPARK_LOG = "spark.log"
OURS = frozenset({NAME, f"{NAME}.new", "lock", "blobs", "manifests", SPARK_LOG})
OUTPUT_REMEDY = "give spec.output.files.path a folder that this user may make and write"
CHECKPOINT_REMEDY = "give --checkpoint a folder that this user may make and write"
# Of a path that was given wrongly; whatever else the system says of one (no room, a broken disk) is not the user's.
_USERS = frozenset(
    {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EEXIST}
    | {errno.ELOOP, errno.ENAMETOOLONG}
)


def refuse_unusable(root: Path, checkpoint: Path, chosen: bool) -> None:
    """`chosen`: the checkpoint's folder was given, and is not the one beneath the output."""
    _refuse_in_the_way(root, OUTPUT_REMEDY)
    if not chosen:
        return
    _refuse_in_the_way(checkpoint, CHECKPOINT_REMEDY)
    inside = _parts_inside(checkpoint, root)
    if inside == ():
        raise QueryError(
            f"--checkpoint {checkpoint}",
            "this is the output folder itself",
            "name another folder, or leave the option out: the checkpoint is then in _checkpoint there",
        )
    if inside and (not inside[0].startswith(("_", ".")) or inside[0] in {"_late", "_dead"}):
        raise QueryError(
            f"--checkpoint {checkpoint}",
            "in the output folder it would be taken for a part of the output",
            "name a folder elsewhere, or leave the option out: the checkpoint is then in _checkpoint there",
        )


def refuse_foreign(root: Path, checkpoint: Path) -> None:
    """Where there is no state of ours: whatever is in either folder is somebody else's."""
    for entry in _entries(checkpoint):
        if entry not in OURS and not entry.startswith(".blocks-"):
            raise QueryError(
                f"--checkpoint {checkpoint}",
                f"it is not empty ({entry}), and is no checkpoint of this query",
                "name an empty folder, or leave the option out",
            )
    for entry in _entries(root):
        if not entry.startswith((".", "_")):
            raise QueryError(
                str(root),
                f"it is not empty ({entry}), and has no checkpoint of this query",
                "name an empty folder for the output",
            )


@contextmanager
def stating_path(path: Path, remedy: str) -> Iterator[None]:
    """What the system has against a path is the user's to mend, where it is about the path."""
    try:
        yield
    except OSError as error:
        if error.errno not in _USERS:
            raise
        raise QueryError(str(error.filename or path), error.strerror or str(error), remedy) from error


def made(root: Path, checkpoint: Path, chosen: bool) -> None:
    """Both folders are there and may be written."""
    for path, remedy in ((root, OUTPUT_REMEDY), (checkpoint, CHECKPOINT_REMEDY if chosen else OUTPUT_REMEDY)):
        with stating_path(path, remedy):
            path.mkdir(parents=True, exist_ok=True)


def _refuse_in_the_way(path: Path, remedy: str) -> None:
    """Up to the nearest thing that exists: it must be a folder, and one to write into."""
    nearest = path
    while not os.path.lexists(nearest) and nearest != nearest.parent:
        nearest = nearest.parent
    if nearest.is_symlink() and not nearest.exists():
        raise QueryError(str(nearest), "this is a link to nothing", remedy)
    if not nearest.is_dir():
        raise QueryError(str(nearest), "a folder is needed here, and this is a file", remedy)
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise QueryError(str(nearest), "nothing may be written there", remedy)


def _parts_inside(path: Path, folder: Path) -> tuple[str, ...] | None:
    """The names that lead from the folder to the path; None: it is elsewhere."""
    path, folder = path.resolve(), folder.resolve()
    return path.relative_to(folder).parts if path.is_relative_to(folder) else None


def _entries(folder: Path) -> list[str]:
    return sorted(os.listdir(folder)) if folder.is_dir() else []
