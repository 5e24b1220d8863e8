"""Where a trial runs: a broker and a Redis of its own, and topics on them."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from infra import processes
from infra.kafka_server import KafkaServer
from infra.redis_server import RedisServer

SECONDS = 60.0
LOOK_S = 0.02  # between two looks at a topic's end: how exact a throughput's end is
WARM_UP_PARTITIONS, WARM_UP_TRANSACTIONS, WARM_UP_RECORDS, WARM_UP_BYTES = 2, 300, 1_000, 80
APPEND_TIME = {"message.timestamp.type": "LogAppendTime"}


@dataclass(frozen=True)
class Bed:
    kafka: KafkaServer
    redis: RedisServer
    scratch: Path

    @property
    def client(self) -> dict[str, str]:
        return {"bootstrap.servers": self.kafka.bootstrap}

    def create(self, topics: Mapping[str, int], settings: Mapping[str, str] | None = None) -> None:
        """Name -> partitions."""
        admin = AdminClient(dict(self.client))
        wanted = [NewTopic(name, partitions, 1, config=dict(settings or {})) for name, partitions in topics.items()]
        for future in admin.create_topics(wanted).values():
            future.result(SECONDS)

    def set_topic(self, topic: str, settings: Mapping[str, str]) -> None:
        resource = ConfigResource(
            ResourceType.TOPIC,
            topic,
            incremental_configs=[
                ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
                for name, value in settings.items()
            ],
        )
        admin = AdminClient(dict(self.client))  # held until it has answered
        admin.incremental_alter_configs([resource])[resource].result(SECONDS)

    def messages(self, topic: str, partitions: int) -> Iterator[Message]:
        """All that is committed now."""
        consumer = Consumer(
            {
                **self.client,
                "group.id": "bench",
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "enable.auto.commit": False,
            }
        )
        try:
            consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
            at_end: set[int] = set()
            while len(at_end) < partitions:
                for message in consumer.consume(50_000, 1.0):
                    error = message.error()
                    if error is None:
                        yield message
                    elif error.code() == KafkaError._PARTITION_EOF:
                        at_end.add(message.partition())
                    else:
                        raise KafkaException(error)
        finally:
            consumer.close()


@contextmanager
def bed(scratch: Path) -> Iterator[Bed]:
    kafka = KafkaServer(scratch / "kafka", processes.free_port(), processes.free_port(), heap="2g")
    redis = RedisServer(scratch / "redis", processes.free_port(), memory="4gb")
    started = [kafka.start()]
    try:
        started.append(redis.start())
        yield Bed(kafka, redis, scratch)
    finally:
        for process in reversed(started):
            processes.stop(process)


class Burst:
    """Records that become visible all at once."""

    def __init__(self, bed: Bed) -> None:
        self._producer = Producer(
            {
                **bed.client,
                "transactional.id": f"burst-{time.time_ns()}",
                "transaction.timeout.ms": 600_000,
                "linger.ms": 50,
                "message.max.bytes": 8 << 20,
                "queue.buffering.max.kbytes": 1 << 20,
                "queue.buffering.max.messages": 5_000_000,
            }
        )
        self._producer.init_transactions(SECONDS)
        self.begin()

    def begin(self) -> None:
        """Also another one, when the one before has been shown."""
        self._producer.begin_transaction()
        self._time_ms = time.time_ns() // 1_000_000

    def write(self, topic: str, values: Iterable[bytes], partitions: int) -> None:
        """Spread over the partitions, one after the other. All have one time: they become visible together, and those
        that are read first must not make the others late."""
        produce = self._producer.produce
        for number, value in enumerate(values):
            produce(topic, value, partition=number % partitions, timestamp=self._time_ms)
            if not number & 0xFFFF:
                self._producer.poll(0)

    def write_messages(self, topic: str, partition: int, messages: Iterable[tuple[bytes, Mapping[str, bytes]]]) -> None:
        for value, headers in messages:
            self._producer.produce(topic, value, partition=partition, headers=dict(headers))
            self._producer.poll(0)

    def flush(self) -> None:
        """In the broker, and still invisible."""
        assert self._producer.flush(300) == 0

    def show(self) -> float:
        """The wall clock when they became visible."""
        self.flush()
        began = time.time()
        self._producer.commit_transaction(SECONDS)
        return began


def warm_up(bed: Bed) -> None:
    """Puts the broker to work. It compiles most of its code within its first busy seconds, on the same cores: so the
    engine that came first was measured beside that, and the second was not."""
    topic = f"warm-up-{time.time_ns()}"
    bed.create({topic: WARM_UP_PARTITIONS})
    burst = Burst(bed)
    for records in (*[WARM_UP_RECORDS] * WARM_UP_TRANSACTIONS, WARM_UP_RECORDS * WARM_UP_TRANSACTIONS):
        burst.write(topic, [bytes(WARM_UP_BYTES)] * records, WARM_UP_PARTITIONS)
        burst.show()
        burst.begin()
    for _ in bed.messages(topic, WARM_UP_PARTITIONS):
        pass


class Ends:
    """How far a topic can be read by whoever reads committed records only."""

    def __init__(self, bed: Bed, topic: str, partitions: int) -> None:
        self._admin = AdminClient(dict(bed.client))
        self._topic, self._partitions = topic, partitions

    def now(self) -> list[int]:
        # Places are made anew: an answer writes the leader's epoch into them, and the next request would insist on it.
        places = [TopicPartition(self._topic, partition) for partition in range(self._partitions)]
        asked = self._admin.list_offsets(
            {place: OffsetSpec.latest() for place in places}, isolation_level=IsolationLevel.READ_COMMITTED
        )
        return [asked[place].result(SECONDS).offset for place in places]


class EndWatch:
    """When the ends of a topic moved, seen from a thread."""

    def __init__(self, bed: Bed, topic: str, partitions: int) -> None:
        self._ends, self._stop = Ends(bed, topic, partitions), threading.Event()
        self.seen: list[tuple[float, list[int]]] = []
        self.missed: list[str] = []
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def _look(self) -> None:
        while not self._stop.wait(LOOK_S):
            try:
                ends = self._ends.now()
            except KafkaException as failure:
                self.missed.append(str(failure))  # a look that failed makes the next one's moment a little late
                continue
            if not self.seen or self.seen[-1][1] != ends:
                self.seen.append((time.time(), ends))

    def wait_until_quiet(self, wanted: int, quiet_s: float, limit_s: float) -> None:
        """`wanted` records are there, and no more have come for so long; or the limit has passed. Offsets count control
        records too, so what is there is at most what it seems to be: the quiet makes up for the difference."""
        deadline = time.time() + limit_s
        while time.time() < deadline:
            if self.seen and sum(self.seen[-1][1]) >= wanted and time.time() - self.seen[-1][0] > quiet_s:
                return
            time.sleep(0.1)

    def readable_at(self, last: Mapping[int, int]) -> float:
        """The first moment at which the records at these offsets (partition -> offset) were all readable."""
        self._stop.set()
        self._thread.join()
        return next(at for at, ends in self.seen if all(ends[p] > offset for p, offset in last.items()))
