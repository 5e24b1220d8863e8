"""When a unit that ended is started again, and when it is not.

A unit goes on from its progress, so a restart costs time and never a result. Too many failures in a row are a crash
loop, which a person must look at; a healthy run earns the whole budget back. What is merely away does not count: it is
asked for again as long as it takes, and that is said once, and then at growing intervals.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Budget:
    """`restarts` in a row, each later than the one before by `backoff_s`, doubled each time, at most `backoff_max_s`;
    after `healthy_s` of running none counts any more: whoever fails on what it reads first does not come so far, or
    comes to nothing in it (driver.py)."""

    restarts: int = 8
    healthy_s: float = 30.0
    backoff_s: float = 0.5
    backoff_max_s: float = 30.0


@dataclass
class Restarts:
    """Of one unit. Times come in as arguments. `halvings`: unknown outcomes in a row (limits.py)."""

    budget: Budget = field(default_factory=Budget)
    used: int = 0
    halvings: int = 0
    waits: int = 0

    def after_failure(self, ran_s: float) -> float | None:
        """How long to wait before the next start; None: no more."""
        self._look(ran_s)
        if self.used == self.budget.restarts:
            return None
        self.used += 1
        return self._pause(self.used)

    def after_unknown(self, ran_s: float) -> float | None:
        """As a failure, and the next transactions are smaller."""
        self._look(ran_s)
        self.halvings += 1
        return self.after_failure(0.0)

    def after_late(self, ran_s: float) -> float:
        """Both: what is away explains it, and so may be how much a transaction held."""
        wait_s = self.after_wait(ran_s)
        self.halvings += 1
        return wait_s

    def after_wait(self, ran_s: float) -> float:
        """What was away explains the failures before."""
        self._look(ran_s)
        self.used = 0
        self.waits += 1
        return self._pause(self.waits)

    def _look(self, ran_s: float) -> None:
        if ran_s >= self.budget.healthy_s:
            self.used = self.halvings = self.waits = 0

    def _pause(self, number: int) -> float:
        return float(min(self.budget.backoff_s * 2.0 ** min(number - 1, 32), self.budget.backoff_max_s))


SAY_AGAIN_S, SAY_AGAIN_MAX_S = 60.0, 3600.0


@dataclass
class Saying:
    """Whether a sentence is to be said now: at once when it is new, then after a minute, two, four, at most an hour."""

    _last: str = ""
    _next: float = 0.0
    _interval_s: float = SAY_AGAIN_S

    def is_due(self, sentence: str, now_s: float) -> bool:
        if sentence != self._last:
            self._last, self._interval_s = sentence, SAY_AGAIN_S
        elif now_s < self._next:
            return False
        else:
            self._interval_s = min(2 * self._interval_s, SAY_AGAIN_MAX_S)
        self._next = now_s + self._interval_s
        return True
