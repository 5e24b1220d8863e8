"""Switch-over points as whoever writes routing tables learns them: from what the senders announce in the signals
topic."""

from __future__ import annotations

from biclique.plan.model import Plan
from biclique.routing.table import RoutingTable
from biclique.tiers.dispatcher import dispatcher_producer
from biclique.tiers.inbox import joiner_producer
from biclique.tiers.messages import Producer, Signal


class Announcements:
    """Version and first epoch last announced by each sender."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._said: dict[Producer, tuple[int, int]] = {}

    def hear(self, signal: Signal) -> None:
        said = (signal.version, signal.first_epoch)
        self._said[signal.sender] = max(self._said.get(signal.sender, said), said)

    def switch_over(self, table: RoutingTable) -> tuple[int, dict[int, int]] | None:
        """S of the table's version over all senders, and for each stage over its own; None while somebody has not
        announced it. Only then may the next version be written."""
        dispatchers = [dispatcher_producer(n) for n in range(self._plan.dispatchers)]
        by_stage: dict[int, int] = {}
        # What mergers are told by the units of the last stage is one stage more.
        for stage in range(len(self._plan.stages) + (self._plan.mergers > 0)):
            senders = [*dispatchers, *(joiner_producer(u) for u in table.senders_to(stage, table.version))]
            said = [self._said.get(sender) for sender in senders]
            firsts = [first for version, first in (s for s in said if s is not None) if version == table.version]
            if len(firsts) < len(senders):
                return None
            by_stage[stage] = max(firsts)
        return max(by_stage.values()), by_stage
