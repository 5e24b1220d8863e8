"""Whether watches still tell what happens. A watch that has gone deaf looks like one of a quiet cluster, but for this:
a list finds what it did not tell."""

from __future__ import annotations

import threading
from collections.abc import Callable

LISTS = 2  # in a row, since one may come just before the watch does


class Deafness:
    """Safe to use from several threads. `clock`: seconds that only grow."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._heard: dict[str, float] = {}
        self._listed: dict[str, float] = {}
        self._missed: dict[str, int] = {}

    def heard(self, kind: str) -> None:
        with self._lock:
            self._heard[kind] = self._clock()

    def listed(self, kind: str, found_news: bool) -> None:
        """`found_news`: something that was not known. The first list finds nothing else."""
        with self._lock:
            before = self._listed.get(kind)
            self._listed[kind] = self._clock()
            silent = before is not None and self._heard.get(kind, before) <= before
            self._missed[kind] = self._missed.get(kind, 0) + 1 if silent and found_news else 0

    def deaf(self) -> str | None:
        """A kind that has not been heard of while lists found news of it."""
        with self._lock:
            return next((kind for kind, count in self._missed.items() if count >= LISTS), None)
