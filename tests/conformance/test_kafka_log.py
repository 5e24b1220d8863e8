"""What only Kafka can show of the log over it: bounds in bytes, what a topic refuses, and results outside of the
transaction."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest
from confluent_kafka import Consumer, IsolationLevel, KafkaException, TopicPartition
from confluent_kafka import Producer as TransactionalProducer
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec  # type: ignore[attr-defined]

from biclique.core.rows import Vector
from biclique.plan.make import make_plan
from biclique.ports.kafka_admin import offsets_of, partitions_of
from biclique.ports.kafka_log import PROGRESS, KafkaLog, KafkaSettings, TooLarge, topic_of
from biclique.ports.kafka_reading import LostRecords
from biclique.ports.outlets import Outlets
from biclique.ports.refusals import UnfitTopic, Unreachable
from biclique.ports.wire import Wire
from biclique.query.compile import compile_manifest
from biclique.tiers.effects import Commit, Outcome
from biclique.tiers.messages import Address, Producer, Results, Signal, SourceBlock, Topic
from biclique.tiers.progress import JoinerProgress
from infra.kafka_server import KafkaServer
from tests.unit.tiers.on_topics import on_topics

ROWS = "SELECT r.s FROM r JOIN s ON r.k = s.k"
UNIT, SHUFFLED, OUTPUT = Producer("joiner", "0L0.0"), Address(Topic.SHUFFLED, 0), Address(Topic.OUTPUT, "0L0.0")


class Kafka:
    """A broker, and topics of one test."""

    def __init__(self, server: KafkaServer) -> None:
        self.client, self.prefix = {"bootstrap.servers": server.bootstrap}, f"log-{uuid.uuid4().hex[:8]}"
        self.admin = AdminClient(self.client)

    def remove(self) -> None:
        topics = [name for name in self.admin.list_topics(timeout=30).topics if name.startswith(self.prefix)]
        for future in self.admin.delete_topics(topics).values() if topics else ():
            future.result(30)

    def topic(self, name: str, partitions: int = 1, **settings: str) -> str:
        made = {key.replace("_", "."): value for key, value in settings.items()}
        topic = NewTopic(f"{self.prefix}.{name}", partitions, 1, config=made)
        self.admin.create_topics([topic])[topic.topic].result(30)
        return topic.topic

    def log(
        self,
        topic: str,
        delivery: str = "exactlyOnce",
        shape: str = "json",
        read_bytes: int = 1 << 20,
        sql: str = ROWS,
    ) -> KafkaLog:
        out = f"topic: {topic}, format: {shape}"
        manifest = on_topics(sql, f"delivery: {delivery}", r="k INT, s STRING", out=out)
        plan = make_plan(compile_manifest(manifest))
        settings = KafkaSettings(self.client, self.prefix, patience_s=0.2, read_bytes=read_bytes)
        return KafkaLog(settings, Wire(plan), Outlets(plan.query))

    def _decided(self, place: TopicPartition) -> None:
        """A commit is answered before its markers have reached every partition."""
        admin, deadline = AdminClient(self.client), time.monotonic() + 30
        while len({offsets_of(admin, [place], OffsetSpec.latest(), level)[place] for level in IsolationLevel}) > 1:
            assert time.monotonic() < deadline, f"something is open in {place}"
            time.sleep(0.05)

    def read(self, topic: str, isolation: str = "read_committed", partition: int = 0) -> list[tuple[str | None, bytes]]:
        consumer = Consumer(
            {**self.client, "group.id": "r", "isolation.level": isolation, "enable.partition.eof": True}
        )
        try:
            self._decided(TopicPartition(topic, partition))
            consumer.assign([TopicPartition(topic, partition, 0)])
            found = []
            while True:
                (message,) = consumer.consume(1, 30)
                if message.error() is not None:
                    return found
                key = message.key()
                found.append((None if key is None else key.decode(), message.value()))
        finally:
            consumer.close()


@pytest.fixture
def kafka(kafka_server: KafkaServer) -> Iterator[Kafka]:
    made = Kafka(kafka_server)
    made.topic("0L0")
    made.topic("0L0.progress")
    yield made
    made.remove()


def results(*texts: str, first: int = 0) -> Results:
    ids = np.arange(first, first + len(texts), dtype=np.uint64)
    return Results((Vector(pa.array(texts, pa.string())),), ids, ids, np.zeros(len(texts), np.int64))


def commit_of(record: Results | None, frontier: int = 1) -> Commit:
    return Commit(UNIT, UNIT, () if record is None else ((OUTPUT, record),), JoinerProgress(0, frontier))


def test_a_read_is_bounded_by_bytes_and_brings_a_record_at_least(kafka: Kafka) -> None:
    kafka.topic("shuffled", max_message_bytes=str(8 << 20))
    log = kafka.log("nowhere", read_bytes=1500)

    def block(n: int) -> SourceBlock:
        text = Vector(pa.array(["x" * (100 if n % 3 else 5000)], pa.string()))
        columns = (Vector(np.array([n], np.int32)), text)
        one = np.array([n])
        return SourceBlock(0, 0, -1, one, np.zeros(1, np.int8), one, columns)

    log.append(SHUFFLED, [block(n) for n in range(12)])
    reader, offset, sizes, seen = log.client(), 0, [], []
    while offset < 12:
        fetched = reader.read(SHUFFLED, offset, 64)
        offset = fetched.next_offset
        found = [int(record.offsets[0]) for _, record in fetched.records if isinstance(record, SourceBlock)]
        assert [at for at, _ in fetched.records] == found
        sizes.append(len(found))
        seen += found
    reader.close()
    assert seen == list(range(12))
    assert max(sizes) <= 2


def test_small_rows_fit_a_topic_of_small_messages_and_a_large_one_is_a_stop_that_loses_nothing(kafka: Kafka) -> None:
    topic = kafka.topic("out", max_message_bytes="2000")
    client = kafka.log(topic).client()
    client.fence(UNIT)
    small = [f"{n:0100}" for n in range(500)]
    assert client.commit(commit_of(results(*small))) is Outcome.COMMITTED
    with pytest.raises(
        TooLarge, match=r"a result is larger than topic .*out takes: raise its max.message.bytes, now 2000"
    ):
        client.commit(commit_of(results(random_text(9000), first=500), 2))
    assert client.read_progress(UNIT) == JoinerProgress(0, 1), "what did not fit is not taken for done"
    assert [json.loads(value)["s"] for _, value in kafka.read(topic)] == small
    client.close()


def random_text(length: int) -> str:
    """That does not compress to nothing."""
    return "".join(map(chr, np.random.default_rng(1).integers(48, 123, length)))


def test_messages_without_a_key_do_not_go_to_a_compacted_topic(kafka: Kafka) -> None:
    topic = kafka.topic("compacted", cleanup_policy="compact")
    client = kafka.log(topic, shape="arrow").client()
    client.fence(UNIT)
    with pytest.raises(UnfitTopic, match=r"compacted refuses our records .*choose format json, or another topic"):
        client.commit(commit_of(results("x")))
    assert client.read_progress(UNIT) is None
    client.close()


def test_arrow_results_bring_their_ids_and_each_message_fits_a_topic_of_default_size(kafka: Kafka) -> None:
    topic = kafka.topic("arrow")
    client = kafka.log(topic, shape="arrow").client()
    client.fence(UNIT)
    texts = [random_text(60_000) for _ in range(40)]
    assert client.commit(commit_of(results(*texts))) is Outcome.COMMITTED
    found = [(key, pa.ipc.open_stream(value).read_all()) for key, value in kafka.read(topic)]
    assert all(key is None for key, _ in found)
    assert 2 < len(found) < 10
    table = pa.concat_tables([table for _, table in found])
    assert table.column("s").to_pylist() == texts
    assert [int.from_bytes(i[:8], "big") for i in table.column("_result_id").to_pylist()] == list(range(40))
    client.close()


@pytest.mark.parametrize("shape", ["json", "arrow"])
def test_rows_of_a_group_are_in_order_in_one_partition_of_many(kafka: Kafka, shape: str) -> None:
    """Each stands until the next; a reader sees no order between partitions."""
    topic = kafka.topic(f"groups-{shape}", partitions=8)
    client = kafka.log(
        topic, shape=shape, sql="SELECT r.s, COUNT(*) AS n FROM r JOIN s ON r.k = s.k GROUP BY r.s"
    ).client()
    client.fence(UNIT)
    ids = np.arange(5, dtype=np.uint64)
    for count in range(1, 21):
        columns = (Vector(pa.array(list("abcde"))), Vector(np.full(5, count, np.int64)))
        record = Results(columns, ids, ids, np.zeros(5, np.int64))
        assert client.commit(commit_of(record, count)) is Outcome.COMMITTED
    counts: dict[str, list[int]] = {}
    for partition in range(8):
        here: dict[str, list[int]] = {}
        for _, value in kafka.read(topic, partition=partition):
            rows = [json.loads(value)] if shape == "json" else pa.ipc.open_stream(value).read_all().to_pylist()
            for row in rows:
                here.setdefault(row["s"], []).append(row["n"])
        assert not here.keys() & counts.keys()
        counts |= here
    assert counts == {group: list(range(1, 21)) for group in "abcde"}
    client.close()


def test_at_least_once_results_are_seen_before_the_commit_and_repeated_under_the_same_ids(kafka: Kafka) -> None:
    topic = kafka.topic("repeated")
    log = kafka.log(topic, delivery="atLeastOnce")
    client = log.client()
    client.fence(UNIT)
    assert client.commit(commit_of(results("a", "b"))) is Outcome.COMMITTED
    successor = log.client()
    successor.fence(UNIT)
    assert client.commit(commit_of(results("c", first=2), 2)) is Outcome.FENCED, "killed between the two, as it were"
    assert successor.read_progress(UNIT) == JoinerProgress(0, 1), "progress stays exact"
    assert successor.commit(commit_of(results("c", first=2), 2)) is Outcome.COMMITTED
    found = kafka.read(topic)
    assert [json.loads(value)["s"] for _, value in found] == ["a", "b", "c", "c"]
    assert [key for key, _ in found] == [f"{n:016x}" * 2 for n in (0, 1, 2, 2)]
    client.close()
    successor.close()


def test_a_partition_that_was_made_anew_is_a_loud_stop(kafka: Kafka, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("biclique.ports.kafka_reading.SECONDS", 1.0)
    kafka.topic("shuffled")
    reader = kafka.log("nowhere").client()

    def read_on() -> None:
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            assert reader.read(SHUFFLED, 7, 10).records == ()

    with pytest.raises(LostRecords, match=r"0 of topic .*shuffled ends at offset 0, and was read to 7 before"):
        read_on()
    reader.close()


def test_a_fence_shows_what_was_committed_behind_the_open_transaction_of_another_owner(
    kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("biclique.ports.kafka_reading.SECONDS", 3.0)
    trimming = TransactionalProducer({**kafka.client, "transactional.id": f"{kafka.prefix}-trimming"})
    trimming.init_transactions(30)
    trimming.begin_transaction()
    trimming.produce(f"{kafka.prefix}.0L0.progress", b"{}", key=b"trimmer unit/0L0.0", partition=0)
    assert trimming.flush(30) == 0
    log = kafka.log("nowhere")
    first, second = log.client(), log.client()
    first.fence(UNIT)
    assert first.commit(commit_of(None, 7)) is Outcome.COMMITTED
    assert log.end_of(f"{kafka.prefix}.0L0.progress", 0) > 1
    second.fence(UNIT)
    with pytest.raises(
        Unreachable, match=r"the progress of joiner 0L0.0 in .* stands behind a transaction of somebody"
    ):
        second.read_progress(UNIT)
    trimming.abort_transaction(30)
    assert second.read_progress(UNIT) == JoinerProgress(0, 7)
    first.close()
    second.close()


def test_what_a_fence_aborts_takes_offsets_and_is_never_read(kafka: Kafka) -> None:
    """As the simulator's log has it: a dead unit's open transaction, its successor's, and a reader of both places."""
    log = kafka.log("out")
    unit = Address(Topic.UNIT, "0L0.0")
    dead = TransactionalProducer({**kafka.client, "transactional.id": f"{kafka.prefix}-{UNIT.tier}-{UNIT.name}"})
    dead.init_transactions(30)
    dead.begin_transaction()
    topic, partition = topic_of(kafka.prefix, unit)
    dead.produce(topic, b"never", partition=partition)
    dead.produce(topic + PROGRESS, b"{}", key=str(UNIT), partition=partition)
    assert dead.flush(30) == 0
    assert (log.bounds(unit).end, log.written_to(unit)) == (0, 1), "it hides itself and what comes behind it"
    client = log.client()
    client.fence(UNIT)
    assert client.read_progress(UNIT) is None
    said = Signal(Producer("dispatcher", "0"), 1, 2, False, 0, 0, carried=True)
    assert client.commit(Commit(UNIT, UNIT, ((unit, said),), JoinerProgress(0, 1))) is Outcome.COMMITTED
    assert client.read_progress(UNIT) == JoinerProgress(0, 1)
    deadline = time.monotonic() + 30
    while not (found := log.client().read(unit, 0, 9)).records:
        assert time.monotonic() < deadline
    assert found.records == ((2, said),), "behind the record and the marker of what was aborted"
    with pytest.raises(KafkaException):
        dead.commit_transaction(30)
    client.close()


def test_a_topic_that_is_made_anew_is_another_one(kafka: Kafka, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("biclique.ports.kafka_admin.HEARD_OF_S", 0.5)
    topic = kafka.topic("shuffled")
    first = kafka.log("nowhere").identity(SHUFFLED)
    assert kafka.log("nowhere").identity(SHUFFLED) == first
    kafka.admin.delete_topics([topic])[topic].result(30)
    deadline = time.monotonic() + 30
    while topic in kafka.admin.list_topics(timeout=30).topics:
        assert time.monotonic() < deadline
    kafka.topic("shuffled")
    assert kafka.log("nowhere").identity(SHUFFLED) != first
    with pytest.raises(UnfitTopic, match=r"looking at topic .*signals: the topic or partition does not exist"):
        kafka.log("nowhere").identity(Address(Topic.SIGNALS, 0))


def test_a_missing_topic_is_named(kafka: Kafka, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("biclique.ports.kafka_reading.SECONDS", 1.0)
    with pytest.raises(UnfitTopic, match=r"looking for topic absent: the topic or partition does not exist"):
        partitions_of(kafka.admin, "absent", "looking for topic absent")
    reader = kafka.log("nowhere").client()

    def read_on() -> None:
        """One whose first question was answered late is asked again."""
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            assert reader.read(SHUFFLED, 0, 10).records == ()

    with pytest.raises(
        UnfitTopic, match=r"reading partition 0 of topic .*shuffled: the topic or partition does not exist"
    ):
        read_on()
    reader.close()
