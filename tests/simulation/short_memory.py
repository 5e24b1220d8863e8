"""Memory that is short, in a share of the runs: units with budgets so small that they cross every mark, and hosts that
see pressure from outside, for a while.

In the same runs senders may have little in flight, to the very end, and hosts measure what transactions take.

When the faults stop, a person gives every unit the memory it needs, by a restart: then nothing may be missing, however
long a unit stood still. Which runs, and what in them, is decided by random streams of their own, so no other run moves.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence

from biclique.plan.model import Plan
from biclique.routing.table import RoutingTable
from biclique.tiers.effects import Orders
from biclique.tiers.messages import Producer
from biclique.tiers.pressure import MemoryBudget, Pressed, Pressure
from biclique.tiers.progress import Progress
from biclique.tiers.receivers import reached, receivers
from tests.simulation.marks import (
    BY_ITSELF,
    DISPATCHER_WAITS,
    FROM_OUTSIDE,
    JOINER_WAITS,
    MERGER_STANDS,
    SHEDS,
    SLOWED,
    STANDS,
)
from tests.simulation.process import Process

SHARE = 0.12
BUDGETS = (1_500, 4_000, 8_000, 20_000)  # a column of a segment has 512 bytes, however few its rows are


class ShortMemory:
    """`budget`: of each unit that starts from now on. `budgets`: one of them is wanted; empty: as chance has it."""

    def __init__(self, seed: int, plan: Plan, budgets: Sequence[int] = ()) -> None:
        self._plan = plan
        self._rng = random.Random(f"{seed}/memory")
        self.given = self._rng.random() >= SHARE and not budgets
        self._short = not self.given
        budget = self._rng.choice(budgets or (None, *BUDGETS))
        self.budget = None if self.given or budget is None else MemoryBudget(budget)
        self._episodes = not self.given and (budget is None or self._rng.random() < 0.3)
        self._seen: dict[Producer, tuple[Pressure, int]] = {}  # until when
        self.in_flight_bytes = self._rng.choice((1, 300, 2_000, 1 << 27)) if self._short else 1 << 27
        self.slow_start = self._rng.choice((0, 3, 12)) if self._short else 0
        self._patience = 600 if self._short else 0
        self._waiting: dict[Producer, bool] = {}
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

    def _outside(self, process: Process, now: int) -> Pressure:
        if not self._episodes:
            return Pressure.NONE
        pressure, until = self._seen.get(process.producer, (Pressure.NONE, 0))
        if now >= until:
            often, long = ((0, 3, 3), 400) if process.producer.tier == "merger" else ((0, 0, 0, 1, 2, 3), 60)
            pressure = Pressure(self._rng.choice(often))
            self._seen[process.producer] = pressure, now + self._rng.choice((20, long, 2 * long))
        return pressure

    def orders(self, process: Process, now: int, progress: Mapping[Producer, Progress], table: RoutingTable) -> Orders:
        """What the process's host knows beside what all hosts do."""
        if not self._short:
            return Orders()
        commit_ms = self._rng.choice((0, 100, 600, 3000))
        wanted = receivers(self._plan, table, process.producer)
        return Orders(
            pressure=self._outside(process, now),
            commit_ms=commit_ms,
            reached=reached(progress.get(receiver) for receiver in wanted),
        )

    def under_way(self, running: Iterable[Process]) -> bool:
        """Whether a sender with little in flight has more to send; not for ever."""
        waiting = any(process.watch.pace is not None and process.watch.pace.in_flight for process in running)
        self._patience -= 1
        return waiting and self._patience > 0

    def look(self, process: Process) -> list[str]:
        """What has become of a process since it was looked at last."""
        found = self._waits(process)
        logic = process.watch.joiner or process.watch.merger
        if self.given or logic is None:
            return found
        pressed: Pressed = logic.pressed
        level, stood = self._before.get(process.producer, (Pressure.NONE, False))
        self._before[process.producer] = pressed.level, pressed.standing
        if pressed.level > level:
            marks = (SLOWED, SHEDS)
            found += [mark for n, mark in enumerate(marks, 1) if level < n <= pressed.level]
            found += [FROM_OUTSIDE] * (self._seen.get(process.producer, (Pressure.NONE, 0))[0] > level)
        if pressed.standing and not stood:
            found.append(STANDS if process.watch.joiner else MERGER_STANDS)
        if stood and not pressed.standing and not self._episodes and process.watch.joiner:
            found.append(BY_ITSELF)
        return found

    def _waits(self, process: Process) -> list[str]:
        pace = process.watch.pace
        waits = self._short and pace is not None and pace.waits
        before = self._waiting.get(process.producer, False)
        self._waiting[process.producer] = waits
        if before or not waits:
            return []
        return [DISPATCHER_WAITS if process.producer.tier == "dispatcher" else JOINER_WAITS]
