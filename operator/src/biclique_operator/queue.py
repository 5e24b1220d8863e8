"""Keys that wait for a look at their query. Each is in it once however often it is added, no two threads ever hold the
same one, and one that failed comes back later and later.

A key that is added while it is held is due again once it is given back: what changed meanwhile may not have been seen.
Safe to use from several threads; time and jitter are arguments.
"""

from __future__ import annotations

import heapq
import threading
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

KeyT = TypeVar("KeyT", bound=Hashable)
FIRST_S, LAST_S = 0.5, 60.0
DOUBLED_MAX = 7  # times; a key may fail for weeks, and a power of that many has no room in a number
assert FIRST_S * 2**DOUBLED_MAX >= LAST_S, "it comes to the last"


class WorkQueue(Generic[KeyT]):
    def __init__(self, clock: Callable[[], float], jitter: Callable[[], float]) -> None:
        """`jitter`: from 0 to 1, another one each time."""
        self._clock, self._jitter = clock, jitter
        self._changed = threading.Condition()
        self._due: dict[KeyT, float] = {}  # of those that nobody holds
        self._heap: list[tuple[float, int, KeyT]] = []  # of `_due`, with entries that it has overtaken
        self._added = 0
        self._held: dict[KeyT, float | None] = {}  # and when it is due again
        self._failures: dict[KeyT, int] = {}
        self._taken_at = clock()
        self._closed = False

    def add(self, key: KeyT, after_s: float = 0.0) -> None:
        """Sooner than it was due, if it was."""
        with self._changed:
            self._add(key, self._clock() + after_s)

    def _add(self, key: KeyT, at: float) -> None:
        if key in self._held:
            again = self._held[key]
            self._held[key] = at if again is None else min(again, at)
        elif key not in self._due or at < self._due[key]:
            self._due[key] = at
            self._added += 1
            heapq.heappush(self._heap, (at, self._added, key))
            self._changed.notify()

    def take(self, patience_s: float | None = None) -> tuple[KeyT, float] | None:
        """The next that is due, and how long it has been; held until it is given back. None: closed, or none came."""
        deadline = None if patience_s is None else self._clock() + patience_s
        with self._changed:
            while not self._closed:
                now = self._clock()
                while self._heap and self._due.get(self._heap[0][2]) != self._heap[0][0]:
                    heapq.heappop(self._heap)
                if self._heap and self._heap[0][0] <= now:
                    at, _, key = heapq.heappop(self._heap)
                    del self._due[key]
                    self._held[key] = None
                    self._taken_at = now
                    return key, now - at
                if deadline is not None and now >= deadline:
                    return None
                waits = [self._heap[0][0] - now] if self._heap else []
                if deadline is not None:
                    waits.append(deadline - now)
                self._changed.wait(min(waits) if waits else None)
            return None

    def done(self, key: KeyT, again_s: float | None = None) -> None:
        """It went well: its failures are forgotten. `again_s`: when it is due by itself."""
        with self._changed:
            self._failures.pop(key, None)
            self._give_back(key, None if again_s is None else self._clock() + again_s)

    def failed(self, key: KeyT) -> float:
        """It comes back by itself, in so many seconds, or sooner if it is added."""
        with self._changed:
            count = self._failures.get(key, 0) + 1
            self._failures[key] = count
            wait_s: float = min(FIRST_S * 2.0 ** min(count - 1, DOUBLED_MAX), LAST_S) * (0.5 + self._jitter())
            self._give_back(key, self._clock() + wait_s)
            return wait_s

    def _give_back(self, key: KeyT, at: float | None) -> None:
        again = self._held.pop(key)
        times = [one for one in (again, at) if one is not None]
        if times:
            self._add(key, min(times))

    def close(self) -> None:
        """Whoever waits goes away; what is held is still given back."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def stands_s(self) -> float:
        """How long a key has been due while none was taken: of a queue that is only long it is next to nothing."""
        with self._changed:
            first = min(self._due.values(), default=self._clock())
            return max(0.0, self._clock() - max(first, self._taken_at))

    def __len__(self) -> int:
        """Those that are due by now."""
        with self._changed:
            now = self._clock()
            return sum(at <= now for at in self._due.values())
