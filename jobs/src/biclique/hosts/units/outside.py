"""What a unit's host knows and its loop does not: it is told with the orders of each turn.

How long transactions take, by a clock that only measures; how far those have come who read what the unit sends; the
process's memory; whether a checkpoint is due, and whether to stop.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from biclique.hosts.units.checkpoints import Checkpoints
from biclique.hosts.units.condition import Conditions
from biclique.hosts.units.memory import ProcessMemory
from biclique.plan.model import Plan
from biclique.ports.control import Control
from biclique.ports.kafka_receivers import Receivers
from biclique.tiers.effects import Commit, Effect, Orders
from biclique.tiers.loops import Watch
from biclique.tiers.messages import Producer
from biclique.tiers.receivers import reached, receivers


@dataclass
class Outside:
    """Of one unit. `clock`: seconds, never back."""

    plan: Plan
    owner: Producer
    control: Control
    checkpoints: Checkpoints
    conditions: Conditions
    memory: ProcessMemory
    receivers: Receivers
    watch: Watch
    clock: Callable[[], float]
    _commit_ms: int = field(default=0, init=False)

    def orders(self) -> Orders:
        self.conditions.look(self.watch)
        return Orders(
            seal=self.checkpoints.due(),
            stop=self.control.stopping(),
            pressure=self.memory.pressure(),
            commit_ms=self._commit_ms,
            reached=self._reached(),
        )

    def timed(self, perform: Callable[[Effect], Any]) -> Callable[[Effect], Any]:
        """`perform`, with an eye on how long transactions take."""

        def performed(effect: Effect) -> Any:
            if not isinstance(effect, Commit):
                return perform(effect)
            began = self.clock()
            answer = perform(effect)
            self._commit_ms = round((self.clock() - began) * 1000)
            return answer

        return performed

    def _reached(self) -> int | None:
        table = self.control.table(None)
        if table is None:
            return None
        return reached(self.receivers.progress(receivers(self.plan, table, self.owner)))
