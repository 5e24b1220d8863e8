"""Somebody who looks at a place elsewhere, again and again, in a thread of his own, so that whoever works with what he
saw last never waits for it.

A place that does not answer is looked at again; how long it has been away is nobody's business here, since what is
known goes on to hold.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from biclique.ports.refusals import Refused, Unreachable

LOG = logging.getLogger(__name__)
AWAY_S = 1.0  # from a look that came to nothing to the next


class Looking:
    """`look` returns when it has looked, or after a while of watching; `every_s`: from its return to the next."""

    def __init__(self, name: str, look: Callable[[], None], every_s: float) -> None:
        self._name, self._look, self._every_s = name, look, every_s
        self._ended, self._lock = threading.Event(), threading.Lock()
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        """The first time; later it changes nothing. In the process that needs it: a thread does not survive a fork."""
        with self._lock:
            if self._thread is None and not self._ended.is_set():
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()

    @property
    def ended(self) -> bool:
        return self._ended.is_set()

    def end(self) -> None:
        self._ended.set()

    def _run(self) -> None:
        wait_s, said = 0.0, ""
        while not self._ended.wait(wait_s):
            wait_s = self._every_s
            try:
                self._look()
            except (Unreachable, Refused):
                wait_s = max(wait_s, AWAY_S)  # whoever needs an answer of its own asks, and is told
            except Exception as bug:  # a thread that ended would leave everybody with what he saw last, for ever
                wait_s = max(wait_s, AWAY_S)
                if (why := f"{type(bug).__name__}: {bug}") != said:
                    LOG.exception("unforeseen, in %s: %s", self._name, why, extra={"event": "bug"})
                    said = why
