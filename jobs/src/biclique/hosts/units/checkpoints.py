"""When a unit is asked for a checkpoint: now and then, and more and more rarely while its store takes none.

A store that does not answer costs its time limit with every attempt; the back-off keeps that a small share of a unit's
time, whatever is wrong with the store.
"""

from __future__ import annotations

from collections.abc import Callable

from biclique.tiers.effects import BlobsLost, Publication

BACKOFF_MAX_S = 120.0


class Checkpoints:
    """None is due before the first interval has passed: a restart has just restored."""

    def __init__(self, interval_s: float, clock: Callable[[], float]) -> None:
        self._interval_s, self._clock = interval_s, clock
        self._failures, self._next = 0, clock() + interval_s

    def due(self) -> bool:
        return self._clock() >= self._next

    def answered(self, answer: bool | Publication | BlobsLost) -> None:
        """The store's word on a blob or a manifest. One that has lost blobs is given new ones at once; if it loses
        those, too, that is not its first failure."""
        if answer is Publication.PUBLISHED:
            self._failures, self._next = 0, self._clock() + self._interval_s
        elif answer is False or answer is Publication.UNAVAILABLE or isinstance(answer, BlobsLost):
            self._failures += 1
            if self._failures == 1 and isinstance(answer, BlobsLost):
                return
            doubled = min(self._interval_s * 2.0 ** min(self._failures, 16), max(BACKOFF_MAX_S, self._interval_s))
            self._next = self._clock() + doubled
