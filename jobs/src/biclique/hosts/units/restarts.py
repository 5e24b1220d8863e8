"""When a unit that ended is started again, and when it is not.

A unit goes on from its progress, so a restart costs time and never a result. Too many in a row are a crash loop, which
a person must look at; a long healthy run earns the whole budget back.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Budget:
    """`restarts` in a row, each later than the one before by `backoff_s`, doubled each time, at most `backoff_max_s`;
    after `healthy_s` of running none counts any more."""

    restarts: int = 8
    healthy_s: float = 600.0
    backoff_s: float = 0.5
    backoff_max_s: float = 30.0


@dataclass
class Restarts:
    """Of one unit. Times come in as arguments."""

    budget: Budget = field(default_factory=Budget)
    used: int = 0

    def after(self, ran_s: float) -> float | None:
        """How long to wait before the next start; None: no more."""
        if ran_s >= self.budget.healthy_s:
            self.used = 0
        if self.used == self.budget.restarts:
            return None
        self.used += 1
        return min(self.budget.backoff_s * 2.0 ** (self.used - 1), self.budget.backoff_max_s)
