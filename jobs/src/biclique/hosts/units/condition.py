"""Says when a unit has no room for a step and stands still, and when it goes on: in the log and through the control
port, once each time it is so for longer than a moment."""

from __future__ import annotations

import logging
from collections.abc import Callable

from biclique.hosts.units.memory import ProcessMemory
from biclique.plan.amounts import size
from biclique.ports.control import Condition, Control, State
from biclique.tiers.loops import Watch
from biclique.tiers.pressure import MemoryBudget, Pressure

LOG = logging.getLogger(__name__)
MOMENT_S = 2.0
REMEDIES = {
    "joiner": ("joiners.memory", "a shorter window needs less, and more replicas keep it from coming back"),
    "merger": ("tiers.merger.memory", "fewer groups need less"),
}


class Conditions:
    """Of one unit. `budget`: None where its memory is not counted."""

    def __init__(
        self,
        control: Control,
        tier: str,
        name: str,
        budget: MemoryBudget | None,
        memory: ProcessMemory,
        clock: Callable[[], float],
    ) -> None:
        self._control, self._tier, self._name = control, tier, f"{tier} {name}"
        self._budget, self._memory, self._clock = budget, memory, clock
        self._since: float | None = None  # it stands
        self._told = False
        control.tell(self._name, None)

    def look(self, watch: Watch) -> None:
        logic = watch.joiner or watch.merger
        if logic is None:
            return
        if not logic.pressed.standing:
            if self._told:
                LOG.info("%s has room again and goes on", self._name, extra={"event": "unit.moves"})
                self._control.tell(self._name, None)
            self._since, self._told = None, False
            return
        now = self._clock()
        if self._since is None:
            self._since = now
        if not self._told and now >= self._since + MOMENT_S:
            self._told = True
            why = self._sentence(logic.held_bytes)
            LOG.warning("%s stands still: %s", self._name, why, extra={"event": "unit.stands", "why": why})
            self._control.tell(self._name, Condition(State.STANDS, why))

    def _sentence(self, held: int) -> str:
        setting, otherwise = REMEDIES[self._tier]
        group = self._memory.group
        by_itself = self._budget is not None and self._budget.pressure(held) is Pressure.STAND
        if group is not None and not by_itself:
            what = f"its processes use {size(group.used)} of the {size(group.limit)} that their pod may have"
        else:
            budget = "" if self._budget is None else f" of {size(self._budget.bytes)} ({setting})"
            what = f"what it holds takes {size(held)}{budget}"
        return (
            f"{what}, and there is no room for a step; nothing is lost, and its input waits in the log; "
            f"give it more memory ({setting}), {otherwise}"
        )
