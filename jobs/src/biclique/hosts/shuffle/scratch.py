"""A folder for what Spark's query writes down and nobody reads, in memory where there is some.

A process that is killed leaves its folder behind, and whoever comes next removes it. That somebody still uses one is
told by a lock on it, which the system takes back with the process, whatever ended that. Its number would not tell: it
may be another's by now, and containers that share this memory count for themselves.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SHARED_MEMORY = Path("/dev/shm")
NAMED = "biclique-shuffler-"


@contextmanager
def scratch_folder(parent: Path | None = None) -> Iterator[str]:
    """`parent`: None: in memory, or where the system has temporary files."""
    within = parent or (SHARED_MEMORY if os.access(SHARED_MEMORY, os.W_OK) else Path(tempfile.gettempdir()))
    remove_left_behind(within)
    folder, lock = _made(within)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def remove_left_behind(parent: Path) -> None:
    """What cannot be removed is another user's, or gone meanwhile."""
    for folder in parent.glob(f"{NAMED}*"):
        lock = _locked(folder)
        if lock is not None:
            shutil.rmtree(folder, ignore_errors=True)
            os.close(lock)


def _made(parent: Path) -> tuple[str, int]:
    while True:
        folder = tempfile.mkdtemp(prefix=NAMED, dir=parent)
        lock = _locked(Path(folder))
        if lock is not None and os.path.isdir(folder):
            return folder, lock
        if lock is not None:
            os.close(lock)  # somebody was quicker, and took it for one that was left behind


def _locked(folder: Path) -> int | None:
    """None: somebody has it."""
    try:
        held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(held)
        return None
    return held
