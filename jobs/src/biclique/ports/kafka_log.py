"""The log on Kafka: a transaction holds the records and, as its offset commit's metadata, the progress.

    shuffled, signals, partials, late, dead    topics <prefix>.<name>, one partition a dispatcher or merger
    a unit                                     topic <prefix>.<subgroup>, the unit's number is the partition

* A fence is `init_transactions` of a producer whose `transactional.id` names the query and the producer.
* librdkafka's producers do not survive an unknown outcome: after one, this client has none until the next fence.
* Readers are read-committed. Control records and aborted ones take offsets, so a reader's place is what the end of the
  partition is said to be, never a count of records.
* Progress that does not fit the metadata (4 kB by the broker's default) is a record of <prefix>.progress in the same
  transaction, and the metadata says where.

Clients do not survive a fork: make this object in the process that uses it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka import Producer as KafkaProducer
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

from biclique.ports.log import Bounds
from biclique.ports.progress_json import decode_progress, encode_progress
from biclique.ports.wire import Message, Wire
from biclique.tiers.effects import Commit, Fetched, Outcome
from biclique.tiers.messages import Address, Producer, Record, Topic
from biclique.tiers.progress import Progress

ATTEMPT_SHIFT = 32  # incarnations of a later attempt are greater than all of an earlier one
METADATA_MAX = 3_500  # bytes; the broker's default bound is 4,096 and counts more than our text
SECONDS = 30.0  # of one request; what takes longer has an unknown outcome
PASSING = frozenset(
    {
        KafkaError._TRANSPORT,
        KafkaError._TIMED_OUT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.REQUEST_TIMED_OUT,
    }
)  # what a broker that starts, moves or is cut off answers; it passes, and reading goes on where it stood
TRANSACTION_MS = 60_000  # an open one blocks every reader of its partitions: well above SECONDS, and no more


@dataclass(frozen=True)
class KafkaSettings:
    """`client`: librdkafka's settings for bootstrap servers and security, with secrets already looked up."""

    client: Mapping[str, Any]
    prefix: str  # of topics, groups and transactional ids: of no other query
    attempt: int = 0  # of the process that makes this log; grows with each
    patience_s: float = 0.0  # how long a read waits where there is nothing yet
    extra_producer: Mapping[str, Any] = field(default_factory=dict)


def topic_of(prefix: str, address: Address) -> tuple[str, int]:
    if address.topic is Topic.UNIT:
        subgroup, _, number = str(address.partition).rpartition(".")
        return f"{prefix}.{subgroup}", int(number)
    return f"{prefix}.{address.topic.value}", int(address.partition)


class KafkaLog:
    def __init__(self, settings: KafkaSettings, wire: Wire) -> None:
        self.settings, self.wire = settings, wire
        self._admin = AdminClient(dict(settings.client))
        self._appender: KafkaProducer | None = None
        self._incarnations: dict[Producer, int] = {}

    def client(self) -> KafkaClient:
        return KafkaClient(self)

    def incarnation(self, producer: Producer) -> int:
        self._incarnations[producer] = self._incarnations.get(producer, self.settings.attempt << ATTEMPT_SHIFT) + 1
        return self._incarnations[producer]

    def append(self, address: Address, records: Sequence[Record]) -> None:
        if self._appender is None:
            self._appender = KafkaProducer({**self.settings.client, "enable.idempotence": True, "linger.ms": 0})
        topic, partition = topic_of(self.settings.prefix, address)
        for record in records:
            message = self.wire.encode(record)
            self._appender.produce(topic, message.value, partition=partition, headers=dict(message.headers))
        self._appender.flush(SECONDS)

    def bounds(self, address: Address) -> Bounds:
        place = TopicPartition(*topic_of(self.settings.prefix, address))
        asked = [
            self._admin.list_offsets({place: spec}, isolation_level=IsolationLevel.READ_COMMITTED)[place]
            for spec in (OffsetSpec.earliest(), OffsetSpec.latest())
        ]
        start, end = (future.result(SECONDS).offset for future in asked)
        return Bounds(start, end)

    def trim(self, address: Address, before: int) -> None:
        topic, partition = topic_of(self.settings.prefix, address)
        if before > self.bounds(address).start:
            place = TopicPartition(topic, partition, before)
            self._admin.delete_records([place])[place].result(SECONDS)


class KafkaClient:
    """One process's connection. Producers by fence, readers by address, both made when first asked for."""

    def __init__(self, log: KafkaLog) -> None:
        self._log, self._settings, self._wire = log, log.settings, log.wire
        self._producers: dict[Producer, KafkaProducer] = {}
        self._readers: dict[Address, _Reader] = {}
        self._groups: dict[Producer, Consumer] = {}

    def close(self) -> None:
        for reader in self._readers.values():
            reader.close()
        for group in self._groups.values():
            group.close()

    # --- reading -----------------------------------------------------------------------------------------------------

    def read(self, address: Address, offset: int, limit: int) -> Fetched:
        reader = self._readers.get(address)
        if reader is None:
            reader = _Reader(self._settings, address)
            self._readers[address] = reader
        messages, next_offset, bounds = reader.read(offset, limit)
        records = tuple((at, self._wire.decode(message)) for at, message in messages)
        return Fetched(records, next_offset, bounds.start, bounds.end)

    def read_progress(self, owner: Producer) -> Progress | None:
        place = TopicPartition(*self._progress_place(owner))
        (committed,) = self._group(owner).committed([place], timeout=SECONDS)
        if committed.error is not None:
            raise KafkaException(committed.error)
        if committed.offset < 0:
            return None
        text = committed.metadata or ""
        if text.startswith("@"):
            text = self._progress_record(int(text[1:]))
        return decode_progress(json.loads(text))

    # --- writing -----------------------------------------------------------------------------------------------------

    def fence(self, producer: Producer) -> int:
        made = KafkaProducer(
            {
                "compression.type": "lz4",
                "linger.ms": 5,
                "retry.backoff.ms": 5,  # the default of 100 makes every transaction take as long
                "queue.buffering.max.messages": 2_000_000,
                **self._settings.extra_producer,
                **self._settings.client,
                "transactional.id": f"{self._settings.prefix}-{producer.tier}-{producer.name}",
                "transaction.timeout.ms": TRANSACTION_MS,
            }
        )
        made.init_transactions(SECONDS)
        self._producers[producer] = made
        return self._log.incarnation(producer)

    def commit(self, transaction: Commit) -> Outcome:
        producer = self._producers.get(transaction.producer)
        if producer is None:
            return Outcome.UNKNOWN  # as the one before: only a fence can tell
        try:
            producer.begin_transaction()
            for address, record in transaction.sends:
                self._send(producer, address, record)
            topic, partition = self._progress_place(transaction.owner)
            text = self._progress_text(producer, transaction.progress)
            place = TopicPartition(topic, partition, transaction.progress.offset, text)
            group = self._group(transaction.owner).consumer_group_metadata()
            producer.send_offsets_to_transaction([place], group, SECONDS)
            producer.commit_transaction(SECONDS)
        except KafkaException as failure:
            return self._outcome_of(failure.args[0], transaction.producer)
        return Outcome.COMMITTED

    def _send(self, producer: KafkaProducer, address: Address, record: Record) -> None:
        topic, partition = topic_of(self._settings.prefix, address)
        message = self._wire.encode(record)
        while True:
            try:
                producer.produce(topic, message.value, partition=partition, headers=dict(message.headers))
                producer.poll(0)
                return
            except BufferError:
                producer.poll(0.05)

    def _outcome_of(self, error: KafkaError, producer: Producer) -> Outcome:
        """Whatever it was, this producer is done with: dropping it aborts nothing, the next fence does."""
        fenced = error.code() in (
            KafkaError._FENCED,
            KafkaError.INVALID_PRODUCER_EPOCH,
            KafkaError.PRODUCER_FENCED,
        )
        if not fenced:
            del self._producers[producer]
        return Outcome.FENCED if fenced else Outcome.UNKNOWN

    # --- progress ----------------------------------------------------------------------------------------------------

    def _group(self, owner: Producer) -> Consumer:
        """The consumer group whose offset commit is the owner's progress; its one member never reads."""
        group = self._groups.get(owner)
        if group is None:
            name = f"{self._settings.prefix}-{owner.tier}-{owner.name}"
            group = Consumer({**self._settings.client, "group.id": name, "enable.auto.commit": False})
            self._groups[owner] = group
        return group

    def _progress_place(self, owner: Producer) -> tuple[str, int]:
        """The partition that the owner reads: to Kafka's own tools the group's lag is the owner's."""
        match owner.tier:
            case "dispatcher":
                address = Address(Topic.SHUFFLED, owner.name)
            case "merger":
                address = Address(Topic.PARTIALS, owner.name)
            case _:
                address = Address(Topic.UNIT, owner.name.partition("#")[0])
        return topic_of(self._settings.prefix, address)

    def _progress_text(self, producer: KafkaProducer, progress: Progress) -> str:
        text = json.dumps(encode_progress(progress), separators=(",", ":"))
        if len(text) <= METADATA_MAX:
            return text
        written: list[int] = []

        def note(error: KafkaError | None, message: Any) -> None:
            if error is None:
                written.append(message.offset())

        producer.produce(f"{self._settings.prefix}.progress", text.encode(), partition=0, on_delivery=note)
        producer.flush(SECONDS)
        if not written:
            raise KafkaException(KafkaError(KafkaError._MSG_TIMED_OUT, "progress was not written in time"))
        return f"@{written[0]}"

    def _progress_record(self, offset: int) -> str:
        place = TopicPartition(f"{self._settings.prefix}.progress", 0, offset)
        reader = Consumer({**self._settings.client, "group.id": "none", "isolation.level": "read_committed"})
        try:
            reader.assign([place])
            received: list[Any] = reader.consume(1, SECONDS)
            (message,) = received
            assert message.offset() == offset, "the progress that was committed is readable"
            return bytes(message.value()).decode()
        finally:
            reader.close()


class _Reader:
    """Follows one partition. Reading on is the common case and costs no request of its own."""

    def __init__(self, settings: KafkaSettings, address: Address) -> None:
        self._place = TopicPartition(*topic_of(settings.prefix, address))
        self._patience_s = settings.patience_s
        self._consumer = Consumer(
            {
                "fetch.wait.max.ms": 50,
                "fetch.error.backoff.ms": 50,
                "queued.max.messages.kbytes": 32_768,
                **settings.client,
                "group.id": "none",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
            }
        )
        self._next: int | None = None
        self._bounds = Bounds(0, 0)

    def close(self) -> None:
        self._consumer.close()

    def read(self, offset: int, limit: int) -> tuple[list[tuple[int, Message]], int, Bounds]:
        if offset != self._next:
            self._go_to(offset)
        if self._next is None:
            return [], offset, self._bounds
        found: list[tuple[int, Message]] = []
        received: list[Any] = self._consumer.consume(limit, self._patience_s)
        for message in received:
            error = message.error()
            if error is None:
                found.append((message.offset(), Message(message.value(), dict(message.headers() or ()))))
                self._next = message.offset() + 1
            elif error.code() == KafkaError._PARTITION_EOF:
                self._next = message.offset()
            elif error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
                self._go_to(self._next if self._next is not None else offset)
            elif error.code() not in PASSING:
                raise KafkaException(error)
        low, high = self._consumer.get_watermark_offsets(self._place, cached=True)
        self._bounds = Bounds(max(self._bounds.start, low), max(self._bounds.end, high))
        return found, self._next if self._next is not None else offset, self._bounds

    def _go_to(self, offset: int) -> None:
        """`_next` stays None where the broker cannot say yet where the partition begins: the caller asks again."""
        self._next = None
        try:
            low, high = self._consumer.get_watermark_offsets(self._place, SECONDS)
        except KafkaException as failure:
            if failure.args[0].code() not in PASSING:
                raise
            return
        self._bounds = Bounds(low, high)
        self._next = max(offset, self._bounds.start)
        self._consumer.assign([TopicPartition(self._place.topic, self._place.partition, self._next)])
