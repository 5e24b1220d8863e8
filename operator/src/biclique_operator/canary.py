"""A sign of life that the operator gives itself: it writes a small ConfigMap now and then, which must come back through
a watch and, where it leads, through the work queue. Without it an operator that nobody tells anything any more is like
one of a quiet cluster, and one whose queue stands like one that has nothing to do.

All operators of an installation write the same object. A watch tells its versions in their order, so whoever is told of
one that is no older than his own writing is told of what he wrote. What deafness.py finds is of each kind, and later;
this is of one kind, and soon.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from biclique_operator.desired.names import FIELD_MANAGER, MANAGED_BY

NAME = "biclique-canary"
EVERY_S = 20.0
# kopf begins a watch anew that told nothing for 70 s; this is for what that does not mend.
HEARD_S = 100.0


def as_object(namespace: str, written_by: str, number: int) -> dict[str, Any]:
    """Labelled as what is watched is, and of no query. `number`: another one each time, since what is written as it
    stands is no news."""
    about = {"name": NAME, "namespace": namespace, "labels": {MANAGED_BY: FIELD_MANAGER}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": about, "data": {"written": f"{written_by} {number}"}}


class Canary:
    """Safe to use from several threads. `clock`: seconds that only grow. Versions are those of the API."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._awaited: tuple[int, float] | None = None  # the first version that did not come back, and since when
        self._newest = 0  # that was heard of
        self._came_at = self._turned_at = clock()

    def sent(self, version: int) -> None:
        with self._lock:
            if self._awaited is None and version > self._newest:  # else the watch was quicker than the answer
                self._awaited = version, self._clock()

    def unsent(self) -> None:
        """The API did not take it, or did not answer: what a watch cannot tell now is its own affair."""
        with self._lock:
            self._awaited = None

    def heard(self, version: int) -> None:
        """By a watch, whoever wrote it."""
        with self._lock:
            self._newest = max(self._newest, version)
            self._came_at = self._clock()
            if self._awaited is not None and version >= self._awaited[0]:
                self._awaited = None

    def turned(self) -> None:
        """It came to its turn in the queue."""
        with self._lock:
            self._turned_at = self._clock()

    def is_missing(self) -> bool:
        """It was written, and nobody was told."""
        with self._lock:
            return self._awaited is not None and self._clock() - self._awaited[1] > HEARD_S

    def ages_s(self) -> tuple[float, float]:
        """Since it came last by a watch, and through the queue."""
        with self._lock:
            now = self._clock()
            return now - self._came_at, now - self._turned_at
