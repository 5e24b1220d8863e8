"""Memory that is short, in a share of the runs: units with budgets so small that they cross every mark, and hosts that
see pressure from outside, for a while.

When the faults stop, a person gives every unit the memory it needs, by a restart: then nothing may be missing, however
long a unit stood still. Which runs, and what in them, is decided by random streams of their own, so no other run moves.
"""

from __future__ import annotations

import random
from collections.abc import Iterable

from biclique.tiers.messages import Producer
from biclique.tiers.pressure import MemoryBudget, Pressed, Pressure
from tests.simulation.marks import BY_ITSELF, FROM_OUTSIDE, MERGER_STANDS, SHEDS, SLOWED, STANDS
from tests.simulation.process import Process

SHARE = 0.12
BUDGETS = (1_500, 4_000, 8_000, 20_000)  # a column of a segment has 512 bytes, however few its rows are


class ShortMemory:
    """`budget`: of each unit that starts from now on."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(f"{seed}/memory")
        self.given = self._rng.random() >= SHARE
        budget = self._rng.choice((None, *BUDGETS))
        self.budget = None if self.given or budget is None else MemoryBudget(budget)
        self._episodes = not self.given and (budget is None or self._rng.random() < 0.3)
        self._outside: dict[Producer, tuple[Pressure, int]] = {}  # until when
        self._before: dict[Producer, tuple[Pressure, bool]] = {}

    @property
    def of_a_merger(self) -> MemoryBudget | None:
        """Groups are smaller than segments."""
        return None if self.budget is None else MemoryBudget(self.budget.bytes // 4)

    def give(self, running: Iterable[Process]) -> list[Process]:
        """All that is needed, to whoever starts from now on. Returns who has to be started again for it."""
        short = [] if self.given else [process for process in running if process.producer.tier != "dispatcher"]
        self.given, self._episodes, self.budget = True, False, None
        return short

    def outside(self, process: Process, now: int) -> Pressure:
        """What the process's host sees."""
        if not self._episodes:
            return Pressure.NONE
        pressure, until = self._outside.get(process.producer, (Pressure.NONE, 0))
        if now >= until:
            often, long = ((0, 3), 400) if process.producer.tier == "merger" else ((0, 0, 0, 1, 2, 3), 60)
            pressure = Pressure(self._rng.choice(often))
            self._outside[process.producer] = pressure, now + self._rng.choice((20, long, 2 * long))
        return pressure

    def look(self, process: Process) -> list[str]:
        """What has become of a process since it was looked at last."""
        logic = process.watch.joiner or process.watch.merger
        if self.given or logic is None:
            return []
        pressed: Pressed = logic.pressed
        level, stood = self._before.get(process.producer, (Pressure.NONE, False))
        self._before[process.producer] = pressed.level, pressed.standing
        found: list[str] = []
        if pressed.level > level:
            marks = (SLOWED, SHEDS)
            found += [mark for n, mark in enumerate(marks, 1) if level < n <= pressed.level]
            found += [FROM_OUTSIDE] * (self._outside.get(process.producer, (Pressure.NONE, 0))[0] > level)
        if pressed.standing and not stood:
            found.append(STANDS if process.watch.joiner else MERGER_STANDS)
        if stood and not pressed.standing and not self._episodes and process.watch.joiner:
            found.append(BY_ITSELF)
        return found
