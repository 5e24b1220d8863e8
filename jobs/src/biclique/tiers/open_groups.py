"""Groups by the time at which they are due: what is due is found without a look at those that are not."""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from biclique.kernels.grouping import Key

TIME_BYTES = 300  # its places in the dictionary and in the heap, and its list
PLACE_BYTES = 16  # of a key in a list that may grow


class OpenGroups:
    """Keys whose last part is their time: a tumbling window's start, or the time of a DISTINCT row."""

    def __init__(self) -> None:
        self._keys: dict[int, list[Key]] = {}
        self._times: list[int] = []  # a heap of the keys of `_keys`
        self._count = 0

    @property
    def bytes(self) -> int:
        """An estimate from above; the keys themselves are the groups' own."""
        return len(self._times) * TIME_BYTES + self._count * PLACE_BYTES

    def add(self, keys: Iterable[Key]) -> None:
        """Each once, while it is here."""
        for key in keys:
            time = int(key[-1])
            if time not in self._keys:
                self._keys[time] = []
                heapq.heappush(self._times, time)
            self._keys[time].append(key)
            self._count += 1

    def any_below(self, bound: int) -> bool:
        return bool(self._times) and self._times[0] < bound

    def take_below(self, bound: int | None) -> list[Key]:
        """Those with times below the bound (None: all), in the order of their times. They are gone then."""
        taken: list[Key] = []
        while self._times and (bound is None or self._times[0] < bound):
            taken += self._keys.pop(heapq.heappop(self._times))
        self._count -= len(taken)
        return taken
