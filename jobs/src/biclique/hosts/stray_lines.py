"""What is written to stderr past every logger, as an event of the log: a thread's traceback, a warning, and above all
what Spark's own Python says of a worker.

Spark ends with its connections to workers, not after them. Whether a worker then complains of a broken pipe or is
ended before it can is a race, and the complaint tells nobody anything.
"""

from __future__ import annotations

import io
import logging
import re
import threading
from typing import TextIO

LOG = logging.getLogger("biclique.stray")
LINES_MAX = 200  # of one event
GOES_ON = re.compile(r"\s|$|.*:$")  # a traceback's lines but its last, and what announces one
BEGINS = re.compile(r"Traceback \(|Exception (in|ignored)\b")
CONNECTION_ENDED = re.compile(r"(BrokenPipeError|ConnectionResetError|EOFError)\b")
OF_A_WORKER = re.compile(r"pyspark/(daemon|worker)\.py")


class StrayLines(io.TextIOBase):
    """In place of `below`. The lines of a traceback are one event; what a message has behind its first line is another,
    told when somebody flushes, as whoever writes a traceback for Python does."""

    def __init__(self, below: TextIO) -> None:
        self.below = below
        self._begun, self._held = "", list[str]()
        self._lock, self._telling = threading.RLock(), threading.local()

    def isatty(self) -> bool:
        return self.below.isatty()

    def fileno(self) -> int:
        return self.below.fileno()

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        if getattr(self._telling, "now", False):  # the log itself complains
            return self.below.write(text)
        events: list[list[str]] = []
        with self._lock:
            *lines, self._begun = (self._begun + text).split("\n")
            for line in lines:
                if self._held and BEGINS.match(line) and not self._held[-1].endswith(":"):
                    events.append(self._taken())
                self._held.append(line)
                if len(self._held) == LINES_MAX or not GOES_ON.match(line):
                    events.append(self._taken())
        self._tell(events)
        return len(text)

    def flush(self) -> None:
        if getattr(self._telling, "now", False):
            return
        with self._lock:
            if self._begun:
                self._held.append(self._begun)
                self._begun = ""
            events = [self._taken()]
        self._tell(events)

    def _taken(self) -> list[str]:
        taken, self._held = self._held, []
        return taken

    def _tell(self, events: list[list[str]]) -> None:
        """Without the lock: whoever logs may hold one that this needs, and write here."""
        for lines in events:
            last, whole = next((line.strip() for line in reversed(lines) if line.strip()), ""), "\n".join(lines).strip()
            if not last:
                continue
            ended = CONNECTION_ENDED.match(last) and OF_A_WORKER.search(whole)
            self._telling.now = True
            try:
                more = {"error": whole} if whole != last else {}
                LOG.log(logging.DEBUG if ended else logging.WARNING, "%s", last, extra={"event": "stray", **more})
            finally:
                self._telling.now = False
