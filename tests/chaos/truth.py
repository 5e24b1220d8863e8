"""What went in, and what must therefore come out: the slow, obviously right twin of a whole query over Kafka.

Two relations, `k = k` within a window of event time. Times are wall-clock ones, so a watermark moves while the query
runs, state expires, and the log behind it is trimmed. A row is late only where it was made so on purpose, a day behind;
everything else is within the lateness that the manifest allows, whatever faults did to its way.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import NamedTuple

WINDOW_S, LATENESS_S = 300, 30
DAY_US = 86_400_000_000
SIDES = ("r", "s")
GROUPS = 50


class Row(NamedTuple):
    key: int
    time_us: int
    number: int


@dataclass
class Given:
    """All that was sent. `rows`: those that take part; `late` and `dead`: by number, and as they were."""

    rows: dict[str, list[Row]] = field(default_factory=lambda: {side: [] for side in SIDES})
    late: dict[str, set[int]] = field(default_factory=lambda: {side: set() for side in SIDES})
    dead: list[bytes] = field(default_factory=list)

    def pairs(self) -> Counter[tuple[int, int]]:
        partners: dict[int, list[Row]] = defaultdict(list)
        for row in self.rows["s"]:
            partners[row.key].append(row)
        window_us = WINDOW_S * 1_000_000
        return Counter(
            (left.number, right.number)
            for left in self.rows["r"]
            for right in partners[left.key]
            if abs(left.time_us - right.time_us) <= window_us
        )

    def groups(self) -> dict[int, tuple[int, int]]:
        """By group of the right row: how many pairs, and the sum of the left rows' numbers."""
        found: dict[int, tuple[int, int]] = {}
        for left, right in self.pairs():
            pairs, total = found.get(right % GROUPS, (0, 0))
            found[right % GROUPS] = pairs + 1, total + left
        return found
