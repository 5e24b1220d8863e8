"""README's Kubernetes quick start as it is written, and a shell that runs it: for the test that holds README to it, and
for the recording that README shows."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HEADING = "## Kubernetes quick start"


@dataclass(frozen=True)
class QuickStart:
    """Its commands, block by block. One that goes on over several lines is one."""

    cluster: tuple[str, ...]
    install: tuple[str, ...]
    look: tuple[str, ...]
    leave: tuple[str, ...]

    @property
    def on_any_cluster(self) -> tuple[str, ...]:
        return self.install + self.look + self.leave


def quick_start() -> QuickStart:
    section = (ROOT / "README.md").read_text(encoding="utf-8").partition(HEADING)[2].partition("\n## ")[0]
    blocks = re.findall(r"^```sh\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
    return QuickStart(*(tuple(re.split(r"(?<!\\)\n", block.strip())) for block in blocks))


class Failed(Exception):
    """What the command said."""


@dataclass
class Shell:
    """One bash from the first command to the last, as a person has it: what one exports the next has. `said`: what was
    typed and what came, each with the seconds since the first command."""

    environment: Mapping[str, str]
    said: list[tuple[float, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._bash = subprocess.Popen(
            ["bash"],
            cwd=ROOT,
            env=dict(self.environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._began_s = time.monotonic()

    def run(self, command: str, limit_s: float) -> str:
        """Its output, without colour, since it comes through a pipe. Raises `Failed` with that."""
        assert self._bash.stdin is not None and self._bash.stdout is not None
        if not self.said:
            self._began_s = time.monotonic()
        mark, lines = f"-- {uuid.uuid4().hex}", []
        self._tell(f"$ {command}\n")
        limit = threading.Timer(limit_s, self._kill)
        limit.start()
        try:
            # A command that reads its input must not eat the next one.
            self._bash.stdin.write(f"{{ {command}\n}} </dev/null\necho '{mark}' $?\n")
            self._bash.stdin.flush()
            for line in self._bash.stdout:
                before, found, code = line.partition(mark)
                if before:
                    lines.append(before)
                    self._tell(before)
                if found:
                    if int(code):
                        raise Failed(f"{command}\n{''.join(lines)}exit code {int(code)}")
                    return "".join(lines)
        finally:
            limit.cancel()
        raise Failed(f"{command}\n{''.join(lines)}did not end within {limit_s:.0f} s")

    def end(self) -> None:
        with self._bash:
            self._kill()

    def _kill(self) -> None:
        """With what it runs, which would hold its output open."""
        os.killpg(self._bash.pid, signal.SIGKILL)

    def _tell(self, text: str) -> None:
        self.said.append((time.monotonic() - self._began_s, text))
