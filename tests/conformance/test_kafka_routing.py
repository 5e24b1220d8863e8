"""Units join and leave over Kafka while rows flow: versions of the routing table come from the control port,
dispatchers announce them in their signals, generations are born behind what their partitions hold. Beside it units and
dispatchers are replaced, their predecessors go on as zombies, and logs are trimmed: every pair comes out once."""

from __future__ import annotations

import random
import time
from collections import Counter
from pathlib import Path

import pytest

from biclique.hosts.perform import Performer, try_start_unit
from biclique.hosts.scheduler import LoopEnded, Running
from biclique.hosts.units.trimming import Trimming, tables_of
from biclique.ports.control_folder import ControlFolder
from biclique.ports.kafka_log import KafkaClient
from biclique.ports.kafka_receivers import Receivers
from biclique.ports.memory import MemoryStore
from biclique.routing.table import UnitId
from biclique.tiers.dispatcher import HEARTBEAT_MS
from biclique.tiers.effects import End, Loop, Orders
from biclique.tiers.inbox import joiner_producer
from biclique.tiers.loops import dispatcher_loop, joiner_loop
from biclique.tiers.messages import Address, Signal, Topic, unit_address
from biclique.tiers.progress import JoinerProgress, SourcePartition
from infra.kafka_server import KafkaServer
from tests.conformance.test_kafka_log import Kafka
from tests.conformance.test_kafka_trimming import PAIRS, SECOND, Query
from tests.simulation.operator import Habits, Kind, Operator

REPLACED = 0.02  # of the loops, in a round
BACK, ZOMBIE = "a unit comes back", "a zombie is fenced"


class Scaled(Query):
    """Its operator is the simulator's; its routing tables are in a folder, its checkpoints in memory."""

    def __init__(self, kafka: Kafka, sql: str, folder: Path, seed: int) -> None:
        self.control, self.store = ControlFolder(folder), MemoryStore()
        self.rng, self.happened = random.Random(seed), Counter[str]()
        self.current: dict[str, tuple[Running, KafkaClient]] = {}
        self.zombies: list[tuple[Running, KafkaClient]] = []
        self.units: dict[str, UnitId] = {}
        self.left: set[UnitId] = set()
        self.heard_to, self.scaling = 0, True
        super().__init__(kafka, sql, units_max=8)

    def start(self) -> None:
        self.control.publish(self.table)
        subgroups = frozenset(self.table.probes)
        self.operator = Operator(self.plan, self.table, subgroups, subgroups, Habits(comebacks=1.0))
        self.watching, self.receivers = self.log.client(), Receivers(self.log.settings, time.monotonic)
        for number in range(self.plan.dispatchers):
            self._begin(f"dispatcher {number}")
        for unit in self.table.units():
            self._begin_unit(unit)
        self.trimmings = [
            Trimming(self.plan, tier, f"driver {tier}", self.log, lambda: tables_of(self.control), self._running)
            for tier in ("dispatcher", "joiner")
        ]

    def close(self) -> None:
        for _, client in (*self.current.values(), *self.zombies):
            client.close()
        for trimming in self.trimmings:
            trimming.close()
        self.watching.close()
        self.receivers.close()

    def _running(self) -> frozenset[UnitId]:
        return frozenset(self.units[name] for name in self.current if name in self.units)

    def _begin_unit(self, unit: UnitId) -> None:
        self.units[str(joiner_producer(unit))] = unit
        self._begin(str(joiner_producer(unit)))

    def _begin(self, name: str) -> None:
        client = self.log.client()
        orders = lambda: Orders(seal=self.rng.random() < 0.1)  # noqa: E731
        performer = Performer(
            client, self.store, self.control.table, orders, lambda: self.now, lambda milliseconds: None
        )
        self.current[name] = Running(name, self._loop(name), performer), client

    def _loop(self, name: str) -> Loop:
        if name in self.units:
            return joiner_loop(self.plan, self.units[name])
        number = int(name.removeprefix("dispatcher "))
        return dispatcher_loop(self.plan, number, [SourcePartition(number, 0)])

    # --- a round -----------------------------------------------------------------------------------------------------

    def run(self, rounds: int = 30) -> None:
        for _ in range(rounds):
            self.now += HEARTBEAT_MS
            for name in list(self.current):
                self._turn(name)
            for zombie in list(self.zombies):
                self._turn_of_zombie(*zombie)
            self._operate()

    def _turn(self, name: str) -> None:
        running, client = self.current[name]
        if self.rng.random() < REPLACED:
            self.zombies.append(self.current[name])
            self._begin(name)
            return
        try:
            running.turn()
        except LoopEnded as ended:
            client.close()
            if str(ended).endswith(str(End.FENCED)):
                self._begin(name)  # by one that was replaced before it had taken its fence: its driver starts it again
                return
            if not str(ended).endswith(str(End.LEFT)):
                raise
            self.left.add(self.units[name])
            del self.current[name]

    def _turn_of_zombie(self, running: Running, client: KafkaClient) -> None:
        if self.rng.random() < 0.7:
            return  # it stands still
        try:
            running.turn()
        except LoopEnded as ended:
            self.happened[ZOMBIE] += str(ended).endswith(str(End.FENCED))
            self.zombies.remove((running, client))
            client.close()

    def _operate(self) -> None:
        fetched = self.watching.read(Address(Topic.SIGNALS, 0), self.heard_to, 1000)
        self.heard_to = fetched.next_offset
        for _, record in fetched.records:
            if isinstance(record, Signal):
                self.operator.hear(record)
        units = list(self.units.values())
        found = self.receivers.progress([joiner_producer(unit) for unit in units])
        progress = {u: known for u, known in zip(units, found, strict=True) if isinstance(known, JoinerProgress)}
        known = len(self.operator.operations)
        decision = self.operator.act(progress, self.left, self.rng, self.scaling and self.rng.random() < 0.3)
        if len(self.operator.operations) > known:
            begun = self.operator.operations[-1]
            self.happened[begun.kind.value] += 1
            self.happened[BACK] += begun.kind is Kind.JOIN and begun.unit.generation > 0
        if decision.table is not None:
            if (unit := decision.starts) is not None:
                born = try_start_unit(self.watching, unit, decision.table, self.log.written_to(unit_address(unit)))
                assert born is End.STOPPED
            self.control.publish(decision.table)
            if decision.starts is not None:
                self._begin_unit(decision.starts)
        if decision.ends is not None and (name := str(joiner_producer(decision.ends))) in self.current:
            self.zombies.append(self.current.pop(name))

    def flow(self, batch: int) -> None:
        for source in (0, 1):
            times = sorted((batch * 2 + self.rng.randrange(2)) * SECOND for _ in range(8))
            self.feed(source, [self.rng.randrange(6) for _ in times], times)
        self.run(4)
        if batch % 15 == 14:
            for trimming in self.trimmings:
                trimming.look()


@pytest.mark.slow
@pytest.mark.long
def test_units_join_and_leave_while_rows_flow_and_every_pair_comes_out_once(
    kafka_server: KafkaServer, tmp_path: Path
) -> None:
    kafka = Kafka(kafka_server)
    query = Scaled(kafka, PAIRS.format(window=" WITHIN 10 SECONDS"), tmp_path, seed=5)
    wanted = {Kind.JOIN.value, Kind.LEAVE_BY_WINDOW.value, Kind.LEAVE_BY_MOVE.value, BACK, ZOMBIE}
    try:
        batch = 0
        while batch < 20 or not all(query.happened[what] for what in wanted):
            query.flow(batch)
            batch += 1
            assert batch < 200, query.happened
        query.scaling = False
        while query.operator.operations:  # who leaves by window needs time to pass
            query.flow(batch)
            batch += 1
            assert batch < 300, query.operator.operations
        query.run(60)
        assert query.found() == query.pairs(10)
        newest = query.control.table(None)
        assert newest is not None and newest.version > 8
        assert any(unit.generation for unit in query.units.values())
    finally:
        query.close()
        kafka.remove()
