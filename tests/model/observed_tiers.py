"""Dispatchers, joiners and mergers of a query in this process, over any log, each observed by telemetry of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from biclique.hosts.local_tiers import EngineClock
from biclique.hosts.perform import Performer, start_unit
from biclique.hosts.scheduler import Running, run_round
from biclique.hosts.units.observed import MACHINE, Clocks, Observed
from biclique.plan.model import Plan
from biclique.plan.table import first_table
from biclique.ports.checkpoints import CheckpointStore
from biclique.ports.log import Log
from biclique.ports.telemetry import Telemetry
from biclique.tiers.dispatcher import HEARTBEAT_MS, dispatcher_producer
from biclique.tiers.effects import Effect, Loop, Orders, PublishManifest
from biclique.tiers.inbox import joiner_producer
from biclique.tiers.loops import Watch, dispatcher_loop, joiner_loop, merger_loop
from biclique.tiers.merger import merger_producer
from biclique.tiers.messages import Producer, unit_address
from biclique.tiers.progress import SourcePartition


class ObservedTiers:
    """`telemetry`: of each owner, made once. `attempt`: which start of each this is. `partitions`: of each source."""

    def __init__(
        self,
        plan: Plan,
        log: Log,
        store: CheckpointStore,
        telemetry: Callable[[Producer], Telemetry],
        attempt: int = 1,
        partitions: int = 1,
        clocks: Clocks = MACHINE,
    ) -> None:
        self.plan, self.log, self.table = plan, log, first_table(plan)
        self.clock = EngineClock()
        self._store, self._telemetry, self._attempt, self._clocks = store, telemetry, attempt, clocks
        self._sealing: set[Producer] = set()
        self.telemetry: dict[Producer, Telemetry] = {}
        starter: Any = log.client()
        for unit in self.table.units():
            start_unit(starter, unit, self.table, log.written_to(unit_address(unit)))
        sources = range(len(plan.query.sources))
        self._loops: list[Running] = []
        self.observed: list[Observed] = []
        for number in range(plan.dispatchers):
            mine = [
                SourcePartition(source, partition)
                for source in sources
                for partition in range(partitions)
                if (source + partition) % plan.dispatchers == number
            ]
            watch = Watch()
            self._add(dispatcher_producer(number), watch, dispatcher_loop(plan, number, mine, watch=watch))
        for unit in self.table.units():
            watch = Watch()
            self._add(joiner_producer(unit), watch, joiner_loop(plan, unit, watch=watch))
        for number in range(plan.mergers):
            watch = Watch()
            self._add(merger_producer(number), watch, merger_loop(plan, number, watch=watch))

    def _add(self, owner: Producer, watch: Watch, loop: Loop) -> None:
        performer = Performer(
            self.log.client(),
            self._store,
            table=lambda version: self.table if version in (None, self.table.version) else None,
            orders=lambda: Orders(seal=owner in self._sealing),
            clock_ms=self.clock,
            rest=lambda milliseconds: None,
        )
        self.telemetry[owner] = self._telemetry(owner)
        observed = Observed(performer, self.telemetry[owner], self.plan, owner.tier, watch, self._attempt, self._clocks)
        self.observed.append(observed)

        def perform(effect: Effect) -> Any:
            answer = observed(effect)
            if isinstance(effect, PublishManifest):
                self._sealing.discard(owner)
            return answer

        self._loops.append(Running(str(owner), loop, perform))

    def settle(self, beats: int = 3) -> None:
        """Everything that is there is handled: all dispatchers speak so often, and everybody follows."""
        for _ in range(beats):
            while run_round(self._loops):
                pass
            self.clock.advance(HEARTBEAT_MS)

    def ask_to_seal(self) -> None:
        self._sealing = {owner for owner in self.telemetry if owner.tier != "dispatcher"}

    def seal(self) -> None:
        self.ask_to_seal()
        while self._sealing:
            self.settle(1)
