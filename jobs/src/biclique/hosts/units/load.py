"""How busy a unit is: the share of the last seconds in which it did not rest. The scaler's input."""

from __future__ import annotations

from collections import deque

WINDOW_S = 10
SECOND_NS = 1_000_000_000


class Load:
    """Times are nanoseconds of one clock that does not jump."""

    def __init__(self, now_ns: int) -> None:
        self._began_ns, self._rested_ns = now_ns, 0
        self._samples = deque([(now_ns, 0)], WINDOW_S + 1)

    def rest(self, spent_ns: int) -> None:
        self._rested_ns += spent_ns

    def sample(self, now_ns: int) -> None:
        """Once a second."""
        self._samples.append((now_ns, self._rested_ns))

    def share(self, now_ns: int) -> float:
        then_ns, rested_ns = self._samples[0]
        since_ns = now_ns - then_ns
        return min(1.0, max(0.0, 1 - (self._rested_ns - rested_ns) / since_ns)) if since_ns > 0 else 0.0

    def busy_s(self, now_ns: int) -> float:
        return (now_ns - self._began_ns - self._rested_ns) / SECOND_NS
