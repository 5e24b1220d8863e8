"""What the API did not take of what a query needs, when it was asked last. What it takes one day, nobody tells:
so it is asked again, at once where somebody has changed the query, and else the more rarely the longer it has stood."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Refusals:
    """`of`: as (code, message), by name (lacking.py). `since`: when each was refused first, of this generation
    of the query."""

    of: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    since: Mapping[str, float] = field(default_factory=dict)
    generation: int = 0

    def followed_by(self, refused: Mapping[str, tuple[int, str]], generation: int, now: float) -> Refusals:
        if not refused:
            return Refusals()
        stood = self.since if generation == self.generation else {}
        return Refusals(refused, {name: stood.get(name, now) for name in refused}, generation)
