"""What the shuffler reads, over a real Kafka: every format, wherever a query begins, and however its topics change."""

from __future__ import annotations

import io
import random
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from biclique.plan.make import make_plan
from biclique.ports.kafka_log import KafkaLog, KafkaSettings
from biclique.ports.wire import Wire
from biclique.query.compile import compile_manifest
from biclique.tiers.dispatcher import dispatcher_producer
from biclique.tiers.progress import DispatcherProgress, SourcePartition
from infra.kafka_server import KafkaServer
from infra.redis_server import RedisServer
from tests.dataplane.query import MANIFEST, KafkaQuery
from tests.dataplane.test_tiers import TIERS, matches

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.long]
FORMATS = MANIFEST.replace("topic: {name}-r, format: json", "topic: {name}-r, format: csv").replace(
    "topic: {name}-s, format: json", "topic: {name}-s, format: arrow"
)


def until(done: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.1)


def arrow(keys: list[int], first: int) -> bytes:
    batch = pa.RecordBatch.from_pydict({"v": pa.array(range(first, first + len(keys))), "k": keys})
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue()


def test_csv_and_arrow_with_a_shuffler_killed_between(
    kafka_server: KafkaServer, redis_server: RedisServer, tmp_path: Path
) -> None:
    query = KafkaQuery(kafka_server, redis_server, tmp_path, template=FORMATS)
    rng = random.Random(11)
    left: list[int] = []
    right: list[int] = []

    def flow() -> None:
        for _ in range(2_000):
            left.append(rng.randrange(3_000))
            query.produce("r", b"%d,%d\n" % (left[-1], len(left) - 1))
        for _ in range(40):
            keys = [rng.randrange(3_000) for _ in range(rng.randint(1, 90))]
            query.produce("s", arrow(keys, len(right)))
            right.extend(keys)
        assert query.producer.flush(30) == 0

    try:
        flow()
        query.produce("r", b"1,2,3")
        query.produce("s", b"no Arrow")
        for tier in TIERS:
            query.start(tier)
        assert query.results(1, 180).total() > 0, query.log_of("shuffler")
        flow()
        query.kill("shuffler")
        flow()
        query.start("shuffler")
        wanted: Counter[tuple[int, int]] = matches(left, right)
        assert query.results(wanted.total(), 180) == wanted, query.log_of("shuffler")
        assert sorted(query.dead()) == [b"1,2,3", b"no Arrow"]
        assert query.stop() == dict.fromkeys(TIERS, 0)
    finally:
        query.stop()


LATEST = MANIFEST.replace("topic: {name}-r, format: json", "topic: {name}-r, startingOffsets: latest")


def test_latest_is_chosen_once_and_partitions_may_be_added(
    kafka_server: KafkaServer, redis_server: RedisServer, tmp_path: Path
) -> None:
    """What comes behind the founding is read, though the shuffler that was to read it first is killed before."""
    query = KafkaQuery(kafka_server, redis_server, tmp_path, template=LATEST)
    try:
        query.produce_rows("r", [1] * 50, 0)
        query.produce_rows("s", [1], 0)
        query.start("dispatcher")
        query.founded(120)
        query.produce_rows("r", [1] * 5, 50)
        for tier in ("shuffler", "joiner"):
            query.start(tier)
        wanted: Counter[tuple[int, int]] = Counter({(number, 0): 1 for number in range(50, 55)})
        assert query.results(5, 180) == wanted, query.log_of("shuffler")
        query.add_partitions("r", 3)
        query.produce("r", b'{"k": 1, "v": 55}', partition=2)
        assert query.producer.flush(30) == 0
        assert query.results(6, 120) == wanted + Counter({(55, 0): 1}), query.log_of("shuffler")
        assert query.stop() == dict.fromkeys(("dispatcher", "shuffler", "joiner"), 0)
        query.recreate("r", 3)
        query.resume()
        query.start("shuffler")
        assert query.exit_of("shuffler", 90) != 0
        assert "was deleted and made anew" in query.log_of("shuffler")
    finally:
        query.stop()


STRICT = MANIFEST.replace(
    "topic: {name}-r, format: json}}",
    "topic: {name}-r, format: json}}\n      badRecordBurst: {{count: 20, share: 0.5}}",
).replace("topic: {name}-s, format: json}}", "topic: {name}-s, format: json}}\n      onBadRecord: fail")


def test_a_burst_pauses_its_source_and_a_bad_record_stops_where_it_is_to(
    kafka_server: KafkaServer, redis_server: RedisServer, tmp_path: Path
) -> None:
    query = KafkaQuery(kafka_server, redis_server, tmp_path, template=STRICT)
    paused = tmp_path / "control" / "paused" / "r.json"

    def wanted(*left: int) -> Counter[tuple[int, int]]:
        return Counter({(number, 0): 1 for number in left})

    try:
        query.produce_rows("s", [1], 0)
        query.produce_rows("r", [1] * 5, 0)
        for tier in TIERS:
            query.start(tier)
        assert query.results(5, 180) == wanted(*range(5)), query.log_of("shuffler")
        bad = [b'{"k": "%d"}' % number for number in range(30)]
        for value in bad:
            query.produce("r", value)
        assert query.producer.flush(30) == 0
        until(paused.exists, 60)
        assert "of its last" in paused.read_text() and "column k" in paused.read_text()
        query.produce_rows("r", [1] * 5, 5)
        assert query.results(6, 8) == wanted(*range(5)), "a source that is paused is not read"
        paused.unlink()
        assert query.results(10, 60) == wanted(*range(10)), query.log_of("shuffler")
        assert sorted(query.dead()) == sorted(bad)

        query.produce("s", b"worse")
        assert query.exit_of("dispatcher", 90) != 0
        assert "s, partition 0, offset 1: no JSON" in query.log_of("dispatcher")
        assert "Traceback" not in query.log_of("dispatcher")
        query.produce_rows("r", [1], 10)
        query.manifest.write_text(query.manifest.read_text().replace("onBadRecord: fail", "onBadRecord: deadLetter"))
        query.start("dispatcher")
        assert query.results(11, 90) == wanted(*range(11)), query.log_of("dispatcher")
        assert sorted(query.dead()) == sorted([*bad, b"worse"])
    finally:
        query.stop()


def test_retention_of_what_was_read_is_no_loss(
    kafka_server: KafkaServer, redis_server: RedisServer, tmp_path: Path
) -> None:
    """A producer of transactions leaves markers behind its last record. Everything goes by retention; a shuffler that
    is started again finds its topic to begin where it was read to, and not behind records that it lacks."""
    query = KafkaQuery(kafka_server, redis_server, tmp_path)
    writer = Producer({**query.client, "transactional.id": f"{query.name}-writer"})
    writer.init_transactions(30)

    def write(first: int) -> None:
        writer.begin_transaction()
        for number in range(first, first + 6):
            writer.produce(f"{query.name}-r", b'{"k": 1, "v": %d}' % number, partition=number % 2)
        writer.commit_transaction(30)

    def taken() -> int:
        """How far dispatchers have come in both partitions of r, together."""
        owners = [progress_of(query, number) for number in range(2)]
        return sum(owner.last.get(SourcePartition(0, n), -1) for owner in owners if owner for n in range(2)) + 2

    try:
        write(0)
        query.produce_rows("s", [1], 0)
        for tier in TIERS:
            query.start(tier)
        wanted = Counter({(number, 0): 1 for number in range(6)})
        assert query.results(6, 180) == wanted, query.log_of("shuffler")
        until(lambda: taken() == 2 * 3, 60)  # of each partition three records and a marker
        query.kill("shuffler")
        places = [TopicPartition(f"{query.name}-r", n, 4) for n in range(2)]
        admin = AdminClient(query.client)  # held: an answer is lost with its client
        for future in admin.delete_records(places).values():
            future.result(30)
        query.start("shuffler")
        time.sleep(2)
        write(6)
        assert query.results(12, 120) == wanted + Counter({(number, 0): 1 for number in range(6, 12)}), query.log_of(
            "shuffler"
        )
        assert query.stop() == dict.fromkeys(TIERS, 0)
    finally:
        query.stop()


def progress_of(query: KafkaQuery, number: int) -> DispatcherProgress | None:
    plan = make_plan(compile_manifest(query.manifest.read_text()))
    client = KafkaLog(KafkaSettings(query.client, query.name), Wire(plan)).client()
    try:
        found = client.read_progress(dispatcher_producer(number))
        return found if isinstance(found, DispatcherProgress) else None
    finally:
        client.close()


def test_what_was_sent_while_the_dispatchers_were_down_is_no_loss_when_its_retention_is_over(
    kafka_server: KafkaServer, redis_server: RedisServer, tmp_path: Path
) -> None:
    """All of r was read once, and went to shuffled; then its topic is emptied, and the shuffler started again."""
    query = KafkaQuery(kafka_server, redis_server, tmp_path)
    admin = AdminClient(query.client)  # held: an answer is lost with its client
    shuffled = {TopicPartition(f"{query.name}.shuffled", n): OffsetSpec.latest() for n in range(2)}
    sources = [TopicPartition(f"{query.name}-r", n, 5) for n in range(2)]

    def sent() -> bool:
        """A block of each source partition, and before them of each that there is something: one has two of them."""
        ends = {place.partition: future.result(30).offset for place, future in admin.list_offsets(shuffled).items()}
        return ends[0] >= 2 and ends[1] >= 4

    try:
        query.produce_rows("s", [1], 0)
        for number in range(10):
            query.produce("r", b'{"k": 1, "v": %d}' % number, partition=number % 2)
        assert query.producer.flush(30) == 0
        query.start("shuffler")
        query.founded(120)
        until(sent, 120)
        query.kill("shuffler")
        for future in admin.delete_records(sources).values():
            future.result(30)
        query.start("shuffler")
        until(lambda: "may be on their way to a dispatcher that is down" in query.log_of("shuffler"), 90)
        for tier in ("dispatcher", "joiner"):
            query.start(tier)
        wanted: Counter[tuple[int, int]] = Counter({(number, 0): 1 for number in range(10)})
        assert query.results(10, 180) == wanted, query.log_of("shuffler")
        query.produce_rows("r", [1] * 5, 10)
        assert query.results(15, 120) == wanted + Counter({(n, 0): 1 for n in range(10, 15)}), query.log_of("shuffler")
        assert query.stop() == dict.fromkeys(("shuffler", "dispatcher", "joiner"), 0)
    finally:
        query.stop()
