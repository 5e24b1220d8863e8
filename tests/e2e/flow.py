"""Rows that flow into a query while something is done to it, in small steps: what is waited for is waited for by
producing."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable

from tests.dataplane.query import KafkaQuery
from tests.dataplane.test_tiers import matches

STEP_S = 0.5
ROWS_A_STEP = 50


class Flow:
    def __init__(self, query: KafkaQuery, seed: int, keys_max: int = 5_000) -> None:
        self._query, self._random, self._keys_max = query, random.Random(seed), keys_max
        self._keys: dict[str, list[int]] = {"r": [], "s": []}

    def rows(self, count: int = ROWS_A_STEP) -> None:
        """Of each side."""
        for side, known in self._keys.items():
            fresh = [self._random.randrange(self._keys_max) for _ in range(count)]
            self._query.produce_rows(side, fresh, len(known))
            known.extend(fresh)

    def row(self, side: str, key: int, headers: dict[str, str | bytes | None] | None = None) -> None:
        """One with headers of its own."""
        known = self._keys[side]
        self._query.produce(side, b'{"k": %d, "v": %d}' % (key, len(known)), headers)
        assert self._query.producer.flush(30) == 0
        known.append(key)

    def until(self, holds: Callable[[], bool], within_s: float, what: Callable[[], str]) -> float:
        """How long it took. `what`: said where it does not come to hold."""
        began = time.monotonic()
        while not holds():
            assert time.monotonic() - began < within_s, f"not within {within_s:.0f} s: {what()}"
            self.rows()
            time.sleep(STEP_S)
        return time.monotonic() - began

    def over(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self.rows()
            time.sleep(STEP_S)

    @property
    def wanted(self) -> Counter[tuple[int, int]]:
        """What the oracle says of all that has flowed."""
        return matches(self._keys["r"], self._keys["s"])
