"""A joiner unit in a process of its own over a real Kafka, with a budget that is a fraction of what lies before it: its
resident memory stays near the budget, it says when it stands still, and every pair comes out once."""

from __future__ import annotations

import json
import multiprocessing
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from numpy.typing import NDArray

from biclique.core.rows import Rows, Vector
from biclique.core.stamps import stamp_base
from biclique.hosts.units.connections import source_topics
from biclique.hosts.units.founding import found
from biclique.hosts.units.process import run_unit
from biclique.hosts.units.spec import Surroundings, UnitSpec
from biclique.plan.make import make_plan
from biclique.plan.table import first_table
from biclique.ports.control import State
from biclique.ports.control_folder import ControlFolder
from biclique.ports.kafka_log import KafkaLog, KafkaSettings
from biclique.ports.wire import Wire
from biclique.query.compile import compile_manifest
from biclique.routing.protocol import Role
from biclique.tiers.dispatcher import dispatcher_producer
from biclique.tiers.inbox import joiner_producer
from biclique.tiers.messages import Block, Producer, Record, Signal, unit_address
from biclique.tiers.progress import JoinerProgress
from infra.kafka_server import KafkaServer
from infra.redis_server import RedisServer

pytestmark = [pytest.mark.slow, pytest.mark.long]

MB = 1 << 20
MANIFEST = """\
apiVersion: biclique.dev/v1alpha1
kind: JoinQuery
metadata: {{name: {name}}}
spec:
  sources:
    - name: r
      schema: "k INT, v BIGINT, pad STRING, at TIMESTAMP"
      eventTime: {{column: at}}
      kafka: {{bootstrapServers: "{brokers}", topic: {name}-r, format: json}}
    - name: s
      schema: "k INT, v BIGINT, at TIMESTAMP"
      eventTime: {{column: at}}
      kafka: {{bootstrapServers: "{brokers}", topic: {name}-s, format: json}}
  sql: "SELECT r.v AS rv, s.v AS sv, r.pad AS pad FROM r JOIN s ON r.k = s.k WITHIN {window} SECONDS"
  topics: {{partitions: 2}}
  joiners: {{memory: {memory}}}
  plan: {{transport: tuples}}
  output: {{kafka: {{bootstrapServers: "{brokers}", topic: {name}-out, format: json}}}}
"""
EPOCHS, ROWS, PAD, LAG = 120, 3_000, 400, 40  # each epoch, from each of two dispatchers: ROWS of either side
EPOCH_BYTES = 2 * ROWS * (PAD + 60)
WINDOW = 6  # epochs of a second of event time each
SECOND = 1_000_000


@dataclass
class Query:
    kafka: KafkaServer
    redis: RedisServer
    folder: Path

    def __post_init__(self) -> None:
        self.name = f"q{uuid.uuid4().hex[:8]}"
        self.client = {"bootstrap.servers": self.kafka.bootstrap}
        self.control = ControlFolder(self.folder / "control")
        admin = AdminClient(self.client)
        for future in admin.create_topics([NewTopic(f"{self.name}-{end}", 1, 1) for end in ("r", "s", "out")]).values():
            future.result(30)
        self.plan = make_plan(compile_manifest(self.manifest("64Mi")))
        self.log = KafkaLog(KafkaSettings(self.client, self.name), Wire(self.plan))
        found(self.plan, self.log, self.control, source_topics(self.around, self.plan.query), 1)
        self.unit = first_table(self.plan).units_of_stage(0)[0]
        self.wanted: Counter[tuple[int, int]] = Counter()

    def manifest(self, memory: str) -> str:
        return MANIFEST.format(name=self.name, brokers=self.kafka.bootstrap, memory=memory, window=WINDOW)

    def fill(self) -> None:
        """What two dispatchers send a unit that stores r. The second's signals come late, so much waits."""
        rng, recent = np.random.default_rng(11), list[tuple[int, dict[int, list[int]]]]()
        one, two = dispatcher_producer(0), dispatcher_producer(1)
        for epoch in range(1, EPOCHS + LAG + 1):
            records: list[Record] = []
            if epoch <= EPOCHS:
                stored: dict[int, list[int]] = {}
                for number, sender in enumerate((one, two)):
                    keys, values = rng.integers(0, 3_000_000, ROWS), np.arange(ROWS) + ROWS * (2 * epoch + number)
                    records.append(self._block(sender, number, epoch, 0, keys, values, rng))
                    for key, value in zip(keys.tolist(), values.tolist(), strict=True):
                        stored.setdefault(key, []).append(value)
                recent = [*recent[-WINDOW:], (epoch, stored)]
                for number, sender in enumerate((one, two)):
                    keys, values = rng.integers(0, 3_000_000, ROWS), np.arange(ROWS) + ROWS * (2 * epoch + number)
                    records.append(self._block(sender, number, epoch, 1, keys, values, rng))
                    for key, value in zip(keys.tolist(), values.tolist(), strict=True):
                        self.wanted.update((old, value) for _, known in recent for old in known.get(key, ()))
            records.append(Signal(one, epoch, epoch * SECOND, False, 0, 0, True))
            if epoch > LAG:
                records.append(Signal(two, epoch - LAG, (epoch - LAG) * SECOND, False, 0, 0, True))
            self.log.append(unit_address(self.unit), records)

    def _block(
        self,
        sender: Producer,
        number: int,
        epoch: int,
        side: int,
        keys: NDArray[np.int64],
        values: NDArray[np.int64],
        rng: np.random.Generator,
    ) -> Block:
        """Rows of r have the smaller stamps of their dispatcher; those of s are stamped one dispatcher on, so that all
        of an epoch come after all of r."""
        base = stamp_base(epoch, number + 2 * side)
        stamps = np.uint64(base) + np.arange(ROWS, dtype=np.uint64)
        ids, times = (stamps >> np.uint64(1)).astype(np.int64) * 4 + side, np.full(ROWS, epoch * SECOND)
        held = {"k": Vector(keys.astype(np.int32)), "v": Vector(values.astype(np.int64))}
        if side == 0:
            texts = rng.integers(97, 123, (ROWS, PAD), np.uint8).tobytes().decode()
            held["pad"] = Vector(pa.array([texts[n * PAD : (n + 1) * PAD] for n in range(ROWS)], pa.string()))
        source = self.plan.query.sources[self.plan.query.relations[side].source]
        columns = tuple(held[source.fields[column.field].name] for column in self.plan.stages[0].sides[side].columns)
        role = Role.STORE if side == self.unit.subgroup.side else Role.PROBE
        return Block(0, side, role, sender, epoch, Rows(stamps, (ids,), times, times, columns))

    @property
    def around(self) -> Surroundings:
        control = str(self.folder / "control")
        return Surroundings(kafka=self.client, redis=self.redis.url, control=control, prefix=self.name)

    def start(self, memory: str) -> multiprocessing.process.BaseProcess:
        spec = UnitSpec(self.manifest(memory), "joiner", str(self.unit), self.around)
        process = multiprocessing.get_context("spawn").Process(target=run_unit, args=(spec,), daemon=True)
        process.start()
        return process

    @property
    def frontier(self) -> int:
        client = self.log.client()
        progress = client.read_progress(joiner_producer(self.unit))
        client.close()
        assert isinstance(progress, JoinerProgress)
        return progress.frontier

    def results(self, wanted: int) -> Counter[tuple[int, int]]:
        """All that there are, once there are so many."""
        deadline = time.monotonic() + 60
        found: Counter[tuple[int, int]] = Counter()
        consumer = Consumer({**self.client, "group.id": "reader", "isolation.level": "read_committed"})
        consumer.assign([TopicPartition(f"{self.name}-out", 0, 0)])
        while (batch := consumer.consume(10_000, 3.0)) or (found.total() < wanted and time.monotonic() < deadline):
            for message in batch:
                row = json.loads(message.value())
                assert len(row["pad"]) == PAD
                found[row["rv"], row["sv"]] += 1
        consumer.close()
        return found


def memory_of(process: multiprocessing.process.BaseProcess, field: str) -> int:
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(field))


@pytest.fixture
def query(kafka_server: KafkaServer, redis_server: RedisServer, tmp_path: Path) -> Iterator[Query]:
    made = Query(kafka_server, redis_server, tmp_path)
    yield made
    made.control.stop()


def until(query: Query, process: multiprocessing.process.BaseProcess, stands: bool) -> int:
    """Until it has handled everything, or says that it stands still. Its greatest resident memory."""
    deadline, most = time.monotonic() + 150, 0
    while not (query.control.conditions() if stands else query.frontier >= EPOCHS):
        assert process.is_alive() and time.monotonic() < deadline, (query.frontier, query.control.conditions())
        most = max(most, memory_of(process, "VmHWM"))
        time.sleep(0.2)
    return max(most, memory_of(process, "VmHWM"))


def test_a_tiny_budget_under_load_keeps_resident_memory_near_it_and_all_pairs_come_out(query: Query) -> None:
    query.fill()
    ahead = LAG * EPOCH_BYTES  # waits above the frontier, were nothing shed
    assert ahead > 100 * MB
    small = query.start("8Mi")  # two epochs of r fit, and a window is six
    stood = until(query, small, stands=True)
    told = query.control.conditions()[f"joiner {query.unit}"]
    assert told.state is State.STANDS and "joiners.memory" in told.why
    assert 0 < query.frontier < 2 * WINDOW
    small.terminate()
    small.join(30)
    enough = query.start("26Mi")
    most = until(query, enough, stands=False)
    query.control.stop()
    enough.join(60)
    assert query.results(query.wanted.total()) == query.wanted
    assert query.wanted.total() > 1_000
    print(f"resident at most {stood / MB:.0f} MiB with 8 MiB, {most / MB:.0f} MiB with 26 MiB, {ahead / MB:.0f} ahead")
    assert most - stood < ahead / 2, "what waits is not held"
