"""The shipped loops, as the simulator starts them: with bounds so tiny that cursors, shed blocks and re-reads are
common."""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import replace

import numpy as np

from biclique.plan.table import first_table
from biclique.ports.checkpoints import KEPT
from biclique.query.used import used_fields
from biclique.routing.table import RoutingTable, UnitId
from biclique.tiers.birth import birth
from biclique.tiers.dispatcher import dispatcher_producer
from biclique.tiers.effects import Loop
from biclique.tiers.inbox import HeldMax, joiner_producer
from biclique.tiers.joiner_limits import JoinerLimits
from biclique.tiers.loops import ReadLimits, Watch, dispatcher_loop, joiner_loop, merger_loop
from biclique.tiers.matching import BatchMax
from biclique.tiers.merger import merger_producer
from biclique.tiers.messages import DeadRecord, Producer, SourceBlock
from biclique.tiers.progress import SourcePartition
from biclique.tiers.shuffler import Arrivals, Shuffler
from tests.model.bounds import Limits
from tests.model.domains import vector
from tests.model.evidence import SourceRecord
from tests.simulation.byte_bounds import byte_bounds_of
from tests.simulation.focus import Focus
from tests.simulation.scenario import Scenario
from tests.simulation.short_memory import ShortMemory
from tests.simulation.shuffler_tasks import BLOCK_RECORDS_MAX

Tier = tuple[Producer, Callable[[Watch], Loop]]


class Hosting:
    """`to_come`: partitions of sources that are not there yet, as long as they are in it."""

    def __init__(
        self, seed: int, scenario: Scenario, focus: Focus, to_come: Set[SourcePartition] = frozenset()
    ) -> None:
        self.scenario, self.plan, self._to_come = scenario, scenario.plan, to_come
        self.memory = memory = ShortMemory(seed, self.plan, focus.budgets)
        bounds = byte_bounds_of(seed).writing(focus.written_groups)
        self._written_max, self._shares_max = bounds.written, bounds.held
        self.first_table: RoutingTable = first_table(self.plan)
        self._shufflers = [Shuffler(self.plan.query, n) for n in range(len(self.plan.query.sources))]
        self._reads = ReadLimits(
            scenario.turn_records,
            scenario.unit_records,
            4096,
            bounds.turn,
            bounds.record,
            small_blocks=1,
            slow_start=memory.slow_start,
            in_flight_bytes=memory.in_flight_bytes,
        )
        self._limits = JoinerLimits(
            BatchMax(scenario.matches_max, bounds.batch),
            HeldMax(scenario.pending_rows_max, bounds.held),
            scenario.blob_rows._replace(bytes_most=bounds.blob),
            segment_rows_min=scenario.blob_rows.least,
            record_bytes=bounds.record,
            payload_bytes_max=scenario.payload_bytes_max,
            slow_start=memory.slow_start,
            in_flight_bytes=memory.in_flight_bytes,
            seal_blobs=bounds.seal_blobs,
            demand_rows=4,
        )

    @property
    def limits(self) -> Limits:
        scenario = self.scenario
        return Limits(
            scenario.turn_records * BLOCK_RECORDS_MAX,
            scenario.matches_max,
            scenario.pending_rows_max,
            self._written_max.groups,
            scenario.blob_rows.most,
            KEPT,
        )

    def dispatcher(self, number: int) -> Tier:
        mine = [key for key in self.scenario.partitions if self.scenario.dispatcher_of(key) == number]

        def start(watch: Watch) -> Loop:
            there = [key for key in mine if key not in self._to_come]
            return dispatcher_loop(self.plan, number, there, self._reads, watch)

        return dispatcher_producer(number), start

    def unit(self, unit: UnitId) -> Tier:
        return joiner_producer(unit), lambda watch: joiner_loop(
            self.plan, unit, replace(self._limits, memory=self.memory.budget), self._reads, watch
        )

    def birth(self, unit: UnitId, table: RoutingTable, lower: int) -> Tier:
        return joiner_producer(unit), lambda watch: birth(unit, table, lower)

    def merger(self, number: int) -> Tier:
        return merger_producer(number), lambda watch: merger_loop(
            self.plan,
            number,
            self.scenario.hold,
            self._reads,
            watch,
            self._written_max,
            self._shares_max,
            self.memory.of_a_merger,
        )

    def pack(self, key: SourcePartition, predecessor: int, records: list[SourceRecord]) -> SourceBlock:
        """What a shuffler task makes of some records: the readable ones parsed, the others with their bytes and why."""
        source = self.plan.query.sources[key.source]
        readable = [r for r in records if r.values is not None]
        dead = [
            DeadRecord(r.offset, r.raw, f"{source.name}, partition {key.partition}, offset {r.offset}", "unreadable")
            for r in records
            if r.values is None
        ]
        columns = [
            vector(source.fields[field].type, [r.values[field] for r in readable if r.values is not None])
            for field in used_fields(self.plan.query, key.source)
        ]
        offsets = np.array([r.offset for r in readable], np.int64)
        times = np.array([r.time for r in readable], np.int64)
        arrived = np.array([r.arrived_us for r in readable], np.int64)
        arrivals = Arrivals(arrived, [r.raw for r in readable])
        return self._shufflers[key.source].pack(key.partition, predecessor, offsets, times, columns, dead, arrivals)
