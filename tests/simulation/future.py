"""Records whose time is ahead of their arrival, drawn apart from all else: a world without them is what it would be.

Some are at the very bound, which is allowed, and moves the watermark; some are beyond it, a little or by years.
"""

from __future__ import annotations

import random
from dataclasses import replace

from tests.simulation.scenario import TICK_US, Scenario

SKEW_MAX_US = 2 * TICK_US
AHEAD_US = (SKEW_MAX_US, SKEW_MAX_US + 1, SKEW_MAX_US + TICK_US, 10**15)


class Future:
    def __init__(self, seed: int) -> None:
        self._rng = random.Random(f"ahead of its time in {seed}")
        self._rate = self._rng.choice((0, 0, 0.08))

    def bounded(self, scenario: Scenario) -> Scenario:
        """With a bound so small that records at it do not make all others late."""
        if not self._rate:
            return scenario
        query = scenario.plan.query
        sources = tuple(
            replace(source, event_time=replace(source.event_time, future_skew_max_us=SKEW_MAX_US))
            for source in query.sources
        )
        return replace(scenario, plan=replace(scenario.plan, query=replace(query, sources=sources)))

    def time(self, time: int, arrived_us: int, tick: bool) -> int:
        if tick or self._rng.random() >= self._rate:
            return time
        return arrived_us + self._rng.choice(AHEAD_US)
