"""The logs over Kafka are trimmed by what is committed while the query runs, and no result depends on it: units begin
anew without any checkpoint, from what is left. What somebody else deletes is a loud stop."""

from __future__ import annotations

import json
import random
import threading
from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest
from confluent_kafka import Producer as TransactionalProducer
from confluent_kafka import TopicPartition

from biclique.core.rows import Vector
from biclique.hosts.perform import Performer
from biclique.hosts.scheduler import Running, run_round
from biclique.hosts.units.founding import begin_owners
from biclique.hosts.units.trimming import Keep, Trimming
from biclique.plan.make import make_plan
from biclique.plan.table import first_table
from biclique.ports.kafka_log import PROGRESS, KafkaLog, KafkaSettings, topic_of
from biclique.ports.kafka_topics import ensure_topics, topics_of
from biclique.ports.memory import MemoryStore
from biclique.ports.outlets import Outlets
from biclique.ports.wire import Wire
from biclique.query.compile import compile_manifest
from biclique.query.used import used_fields
from biclique.routing.table import RoutingTable
from biclique.tiers.dispatcher import HEARTBEAT_MS
from biclique.tiers.effects import Orders
from biclique.tiers.loops import dispatcher_loop, joiner_loop, merger_loop
from biclique.tiers.messages import Address, Mark, Record, SourceBlock, Topic, unit_address
from biclique.tiers.progress import SourcePartition
from biclique.tiers.reading_on import TrimmedTooFar
from biclique.tiers.trimming import first_needed
from infra.kafka_server import KafkaServer
from tests.conformance.test_kafka_log import Kafka

SECOND = 1_000_000
MANIFEST = """
apiVersion: biclique.dev/v1alpha1
kind: JoinQuery
metadata: {{name: trimmed}}
spec:
  sources:
    - name: r
      schema: "k INT, at TIMESTAMP"
      eventTime: {{column: at, lateness: 0s}}
      kafka: {{bootstrapServers: "b:1", topic: r, format: json}}
    - name: s
      schema: "k INT, at TIMESTAMP"
      eventTime: {{column: at, lateness: 0s}}
      kafka: {{bootstrapServers: "b:1", topic: s, format: json}}
  sql: "{sql}"
  topics: {{partitions: 2}}
  output: {{kafka: {{bootstrapServers: "b:1", topic: {topic}, format: json}}}}
"""
PAIRS = "SELECT r.k AS k, r.at AS rt, s.at AS st FROM r JOIN s ON r.k = s.k{window}"


class Query:
    """Its loops in this thread, over Kafka; its checkpoints are lost whenever they start anew."""

    def __init__(self, kafka: Kafka, sql: str, units_max: int = 2) -> None:
        self.kafka, self.output = kafka, kafka.topic("out")
        self.plan = make_plan(compile_manifest(MANIFEST.format(sql=sql, topic=self.output)))
        self.table = first_table(self.plan)
        ensure_topics(dict(kafka.client), topics_of(self.plan, kafka.prefix, units_max), 1)
        self.log = KafkaLog(KafkaSettings(kafka.client, kafka.prefix), Wire(self.plan), Outlets(self.plan.query))
        client = self.log.client()
        begin_owners(self.plan, client, self.table, lambda unit: self.log.written_to(unit_address(unit)), {})
        client.close()
        self.now, self.offsets, self.rows = 1_000_000, [0, 0], ([], [])
        self.start()

    def start(self) -> None:
        loops = {
            f"dispatcher {n}": dispatcher_loop(self.plan, n, [SourcePartition(n, 0)])
            for n in range(self.plan.dispatchers)
        }
        loops |= {f"joiner {unit}": joiner_loop(self.plan, unit) for unit in self.table.units()}
        loops |= {f"merger {n}": merger_loop(self.plan, n) for n in range(self.plan.mergers)}
        # A client is one process's, and follows a partition for one reader.
        self.clients = {name: self.log.client() for name in loops}
        self.running = [Running(name, loop, self._performer(name)) for name, loop in loops.items()]

    def _performer(self, name: str) -> Performer:
        def table(version: int | None) -> RoutingTable | None:
            return self.table if version in (None, 0) else None

        return Performer(self.clients[name], MemoryStore(), table, Orders, lambda: self.now, lambda milliseconds: None)

    def close(self) -> None:
        for client in self.clients.values():
            client.close()

    def all_of(self, address: Address) -> list[tuple[int, Record]]:
        """That the log holds."""
        client, found = self.log.client(), []
        at, end = self.log.bounds(address)
        while at < end:
            fetched = client.read(address, at, 64)
            found += fetched.records
            at = fetched.next_offset
        client.close()
        return found

    def restart(self) -> None:
        self.close()
        self.start()

    def feed(self, source: int, keys: list[int], times: list[int]) -> None:
        offsets = np.arange(self.offsets[source], self.offsets[source] + len(keys))
        self.offsets[source] += len(keys)
        self.rows[source].extend(zip(keys, times, strict=True))
        good, at = np.full(len(keys), Mark.GOOD.value, np.int8), np.array(times, np.int64)
        given = (Vector(np.array(keys, np.int32)), Vector(at))
        columns = tuple(given[field] for field in used_fields(self.plan.query, source))
        block = SourceBlock(source, 0, int(offsets[0]) - 1, offsets, good, at, columns)
        self.log.append(Address(Topic.SHUFFLED, source), [block])

    def run(self, rounds: int = 30) -> None:
        for _ in range(rounds):
            self.now += HEARTBEAT_MS
            run_round(self.running)

    def pairs(self, window_s: int | None) -> Counter[tuple[int, int, int]]:
        return Counter(
            (k, at, other)
            for k, at in self.rows[0]
            for same, other in self.rows[1]
            if same == k and (window_s is None or abs(at - other) <= window_s * SECOND)
        )

    def found(self) -> Counter[tuple[int, int, int]]:
        read = [json.loads(value) for _, value in self.kafka.read(self.output)]
        return Counter((row["k"], _micros(row["rt"]), _micros(row["st"])) for row in read)

    def trimming(self, tier: str) -> Trimming:
        units = frozenset(self.table.units()) if tier == "joiner" else frozenset()
        return Trimming(self.plan, tier, f"driver {tier}", self.log, lambda: [self.table], lambda: units)


def _micros(text: str) -> int:
    return int(np.datetime64(text.rstrip("Z"), "us").astype(np.int64))


@pytest.fixture
def kafka(kafka_server: KafkaServer) -> Iterator[Kafka]:
    made = Kafka(kafka_server)
    yield made
    made.remove()


def flow(query: Query, rng: random.Random, batches: range) -> None:
    for batch in batches:
        for source in (0, 1):
            times = [(batch * 5 + rng.randrange(5)) * SECOND for _ in range(12)]
            query.feed(source, [rng.randrange(6) for _ in times], sorted(times))
        query.run(6)


@pytest.mark.long
def test_results_are_the_same_while_every_log_is_trimmed_and_checkpoints_are_lost(kafka: Kafka) -> None:
    rng, query = random.Random(3), Query(kafka, PAIRS.format(window=" WITHIN 10 SECONDS"))
    drivers = [query.trimming(tier) for tier in ("dispatcher", "joiner")]
    kept: list[Keep] = []
    for part in range(4):
        flow(query, rng, range(6 * part, 6 * part + 6))
        query.run()
        for driver in drivers:
            kept = driver.look() if driver is drivers[0] else [*kept, *driver.look()]
        query.restart()
    query.run(60)
    assert query.found() == query.pairs(10)
    assert {keep.address.topic for keep in kept} == {Topic.SHUFFLED, Topic.SIGNALS, Topic.UNIT}
    for keep in kept:
        bounds = query.log.bounds(keep.address)
        assert 0 < bounds.start == keep.start <= bounds.end
    units = [keep for keep in kept if keep.address.topic is Topic.UNIT]
    assert {keep.why for keep in units} == {"in a window"}
    for driver in drivers:
        driver.close()
    query.close()


def test_a_unit_that_starts_again_beside_an_open_trim_writes_nothing_twice(kafka: Kafka) -> None:
    """How far a log is trimmed stands where the progress of its reader does; a driver killed between two requests
    leaves that transaction open, and hides all progress behind it from readers."""
    rng, query = random.Random(8), Query(kafka, PAIRS.format(window=" WITHIN 10 SECONDS"))
    flow(query, rng, range(3))
    query.run()
    open_trims = []
    for reader in (Address(Topic.SHUFFLED, 0), *map(unit_address, query.table.units())):
        topic, partition = topic_of(kafka.prefix, reader)
        trim = TransactionalProducer({**kafka.client, "transactional.id": f"{kafka.prefix}-{reader}"})
        trim.init_transactions(30)
        trim.begin_transaction()
        trim.produce(topic + PROGRESS, b"{}", key=f"trimmer {reader}".encode(), partition=partition)
        assert trim.flush(30) == 0
        open_trims.append(trim)
    flow(query, rng, range(3, 6))
    query.run()
    found = query.found()
    assert sum(found.values()) > 0
    ends = threading.Timer(3.0, lambda: [trim.abort_transaction(30) for trim in open_trims])
    ends.start()
    query.restart()
    query.run(60)
    ends.join()
    assert query.found() == query.pairs(10)
    query.close()


def test_the_broker_finds_what_a_scan_of_all_records_finds(kafka: Kafka) -> None:
    rng, query = random.Random(4), Query(kafka, PAIRS.format(window=" WITHIN 10 SECONDS"))
    flow(query, rng, range(-6, 6))  # before 1970, too
    query.run()
    for unit in query.table.units():
        address = unit_address(unit)
        records = query.all_of(address)
        for watermark in (-(1 << 62), *range(-40 * SECOND, 60 * SECOND, 1_700_000), 1 << 61):
            scanned = first_needed(query.plan, records, watermark)
            asked = query.log.first_needed(address, watermark)
            # It rounds to milliseconds, and times here are whole seconds.
            assert asked == scanned, watermark
    query.close()


@pytest.mark.long
def test_full_history_keeps_all_that_units_store_and_mergers_merge(kafka: Kafka) -> None:
    query = Query(kafka, "SELECT r.k, COUNT(*) AS n FROM r JOIN s ON r.k = s.k GROUP BY r.k")
    flow(query, random.Random(5), range(8))
    query.run()
    for tier in ("dispatcher", "joiner", "merger"):
        driver = query.trimming(tier)
        kept = driver.look()
        driver.close()
        if tier == "dispatcher":
            continue
        for keep in kept:
            first = first_needed(query.plan, query.all_of(keep.address), 0)
            assert first is not None and keep.start <= first
    query.close()


@pytest.mark.long
def test_groups_of_a_tumbling_window_let_go_of_their_shares(kafka: Kafka) -> None:
    sql = "SELECT r.k, COUNT(*) AS n FROM r JOIN s ON r.k = s.k WITHIN 2 SECONDS GROUP BY r.k, TUMBLE(10 SECONDS)"
    rng, query = random.Random(6), Query(kafka, sql)
    driver = query.trimming("merger")
    flow(query, rng, range(10))
    query.run()
    (kept,) = driver.look()
    assert kept.address == Address(Topic.PARTIALS, 0)
    assert kept.start > 0
    query.restart()
    flow(query, rng, range(10, 20))
    query.run(60)
    driver.close()
    expected = Counter(
        (k, max(a, b) // (10 * SECOND))
        for k, a in query.rows[0]
        for s, b in query.rows[1]
        if k == s and abs(a - b) <= 2 * SECOND
    )
    written = Counter({json.dumps(json.loads(v), sort_keys=True): 1 for _, v in query.kafka.read(query.output)})
    found = [json.loads(text) for text in written]
    assert len(found) == len(query.kafka.read(query.output)), "each group once"
    closed = [count for (_, window), count in expected.items() if window < 9]
    assert Counter(row["n"] for row in found if row["n"]) == Counter(closed)
    query.close()


@pytest.mark.parametrize("topic", [Topic.SHUFFLED, Topic.UNIT])
def test_what_somebody_else_deletes_is_a_loud_stop(kafka: Kafka, topic: Topic) -> None:
    query = Query(kafka, PAIRS.format(window=" WITHIN 10 SECONDS"))
    flow(query, random.Random(7), range(4))
    query.run()
    address = Address(topic, 0) if topic is Topic.SHUFFLED else unit_address(query.table.units()[0])
    if topic is Topic.SHUFFLED:
        query.feed(0, [1], [100 * SECOND])
    place = TopicPartition(*topic_of(kafka.prefix, address), query.log.bounds(address).end)
    kafka.admin.delete_records([place])[place].result(30)
    query.restart()
    with pytest.raises(TrimmedTooFar, match=r"and Biclique has trimmed it up to 0 only: .* restore the topic"):
        query.run()
    query.close()
