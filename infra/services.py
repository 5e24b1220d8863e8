"""Servers that run on until somebody says `down`: for a person at a terminal, from one command to another.

Each has a folder with its data, its `log` and, while it runs, its `pid`. A process is taken for ours only where it
works in that folder: the number may be another program's meanwhile.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from infra import processes


@dataclass(frozen=True)
class Service:
    name: str
    folder: Path
    address: str
    start: Callable[[], subprocess.Popen[bytes]]
    answers: Callable[[], bool]

    @property
    def process(self) -> psutil.Process | None:
        """None where it does not run."""
        try:
            process = psutil.Process(int((self.folder / "pid").read_text()))
            return process if Path(process.cwd()) == self.folder.resolve() else None
        except (FileNotFoundError, psutil.Error):
            return None


def up(services: Sequence[Service]) -> None:
    """One after the other, each once the one before answers; those that run already are left alone."""
    for service in services:
        if service.process is None:
            if service.answers():
                sys.exit(f"{service.name}: something else answers at {service.address}; choose another port")
            service.folder.mkdir(parents=True, exist_ok=True)
            (service.folder / "pid").write_text(f"{service.start().pid}\n")


def status(services: Sequence[Service]) -> None:
    width = max(len(service.name) for service in services)
    for service in services:
        state = "down" if service.process is None else "up" if service.answers() else "does not answer"
        print(f"{service.name:<{width}} {state:<16} {service.address:<28} log: {service.folder / 'log'}")


def down(services: Sequence[Service], limit_s: float = processes.STOP_LIMIT_S) -> None:
    """In the order given, each asked first and then made to."""
    for service in services:
        process = service.process
        if process is not None:
            process.terminate()
            _, left = psutil.wait_procs([process], limit_s)
            for process in left:
                process.kill()
        (service.folder / "pid").unlink(missing_ok=True)
