"""A tier's processes on this machine, found by the session that its command leads: the driver, its Java, and the Python
daemon and workers, which have a process group of their own."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path
from typing import NamedTuple


class Found(NamedTuple):
    pid: int
    parent: int
    session: int
    command: str


def of_session(session: int) -> list[Found]:
    return [found for found in _all() if found.session == session]


def java_of(session: int) -> int | None:
    return next((found.pid for found in of_session(session) if "java" in found.command.split("\0")[0]), None)


def workers_of(session: int) -> list[int]:
    """The Python workers: what the daemon has forked. Newest last."""
    daemons = {found.pid for found in of_session(session) if "pyspark.worker" in found.command}
    return sorted(found.pid for found in of_session(session) if found.parent in daemons)


def resident_of(session: int) -> int:
    """Bytes of memory that they hold together, as a pod would: what several of them share counts once. Anonymous pages
    are shared by forks of each other alone; of a file that several have mapped, the most that one of them has
    touched."""
    anonymous, files = 0, dict[str, int]()
    for found in of_session(session):
        mapped, name = dict[str, int](), ""
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{found.pid}/smaps").read_text().splitlines():
                key, _, rest = line.partition(":")
                if key == "Rss":
                    mapped[name] = mapped.get(name, 0) + _bytes(rest)
                elif key == "Anonymous":
                    mapped[name] -= _bytes(rest)
                elif " " in key:  # where it lies, and of which file it is
                    name = line[73:]
            rollup = Path(f"/proc/{found.pid}/smaps_rollup").read_text().splitlines()
            anonymous += sum(_bytes(line.partition(":")[2]) for line in rollup if line.startswith("Pss_Anon:"))
        for name, size in mapped.items():
            files[name] = max(files.get(name, 0), size)
    return anonymous + sum(files.values())


def _bytes(text: str) -> int:
    return int(text.split()[0]) << 10


def signal_session(session: int, number: signal.Signals) -> None:
    """All of them, as a node that goes dark or stands still."""
    for found in of_session(session):
        with contextlib.suppress(ProcessLookupError):
            os.kill(found.pid, number)


def _all() -> list[Found]:
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):
                # The command's name is in brackets and may hold anything, also blanks.
                state, parent, _, session = (folder / "stat").read_text().rpartition(")")[2].split()[:4]
                if state != "Z":
                    command = (folder / "cmdline").read_text(errors="replace")
                    found.append(Found(int(folder.name), int(parent), int(session), command))
    return found
