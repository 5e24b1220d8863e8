"""Loops side by side in one thread: each runs until it rests or has committed, then the next one's turn comes.

Nothing here decides anything about results: whatever the turns' order, the log orders the tuples.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from biclique.tiers.effects import Commit, Effect, Loop, Rest


class LoopEnded(Exception):
    """A loop returned though nobody asked it to: in one process there is no successor that could have fenced it."""


@dataclass(slots=True)
class Running:
    """`perform` answers effects; what it answers to Rest does not matter."""

    name: str
    loop: Loop
    perform: Callable[[Effect], Any]
    _effect: Effect | None = field(default=None, init=False)

    def turn(self) -> bool:
        """Until the loop rests (False: it found nothing more to do) or commits (True)."""
        while True:
            effect = self._effect or next(self.loop)
            answer = self.perform(effect)
            try:
                self._effect = self.loop.send(answer)
            except StopIteration as stop:
                raise LoopEnded(f"{self.name}: {stop.value}") from None
            if isinstance(effect, Commit):
                return True
            if isinstance(effect, Rest):
                return False


def run_round(loops: list[Running]) -> bool:
    """One turn for everybody, in dataflow order; False when all of them rest."""
    busy = [running.turn() for running in loops]
    return any(busy)
