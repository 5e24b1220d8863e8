"""The log on Kafka: a transaction holds the records and, as one more record, the progress.

    shuffled, signals, partials    topics <prefix>.<name>, one partition a dispatcher or merger (signals: one)
    a unit                         topic <prefix>.<subgroup>; the unit's number is the partition
    progress                       topic <input>.progress beside the one that its owner reads, same partition, compacted

* A fence is `init_transactions` of a producer whose `transactional.id` names the query and the producer. It returns
  when what an older one had committed is readable.
* librdkafka's producers do not survive an unknown outcome: after one, this client has none until the next fence.
* Readers are read-committed. Control records and aborted ones take offsets, so a reader's place is what the end of the
  partition is said to be, never a count of records.
* Progress is a record and not an offset commit's metadata: librdkafka's `send_offsets_to_transaction` may wait for ever
  for a coordinator (its issue 5456: the time-out is not looked at), and metadata is bounded by 4 kB.

Clients do not survive a fork: make this object in the process that uses it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

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
from biclique.ports.outlets import Outlets
from biclique.ports.progress_json import decode_progress, encode_progress
from biclique.ports.wire import Message, Wire
from biclique.tiers.effects import Commit, Fetched, Outcome
from biclique.tiers.messages import Address, LateTuples, Producer, Record, Results, SetAside, Topic
from biclique.tiers.progress import Progress

ATTEMPT_SHIFT = 32  # incarnations of a later attempt are greater than all of an earlier one
PROGRESS = ".progress"
MESSAGE_BYTES_MAX = 8 << 20  # as the topics are made (ports/kafka_topics.py)
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
FENCED = frozenset({KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED})
TRANSACTION_MS = 60_000  # an open one blocks every reader of its partitions: well above SECONDS, and no more


@dataclass(frozen=True)
class KafkaSettings:
    """`client`: librdkafka's settings for bootstrap servers and security, with secrets already looked up."""

    client: Mapping[str, Any]
    prefix: str  # of topics, groups and transactional ids: of no other query
    attempt: int = 0  # of the process that makes this log; grows with each
    patience_s: float = 0.0  # how long a read waits where there is nothing yet


def topic_of(prefix: str, address: Address) -> tuple[str, int]:
    if address.topic is Topic.OUTPUT:
        return "", 0  # the user's: see ports/outlets.py
    if address.topic is Topic.UNIT:
        subgroup, _, number = str(address.partition).rpartition(".")
        return f"{prefix}.{subgroup}", int(number)
    return f"{prefix}.{address.topic.value}", int(address.partition)


class TooLarge(Exception):
    """A message that no topic of ours takes."""


class Received(NamedTuple):
    value: bytes
    headers: Mapping[str, bytes]
    key: bytes


class KafkaLog:
    """`outlets`: None where nothing leaves the system through this log."""

    def __init__(self, settings: KafkaSettings, wire: Wire, outlets: Outlets | None = None) -> None:
        self.settings, self.wire, self.outlets = settings, wire, outlets
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
            made = {"enable.idempotence": True, "linger.ms": 0, "message.max.bytes": MESSAGE_BYTES_MAX}
            self._appender = KafkaProducer({**made, **self.settings.client})
        topic, partition = topic_of(self.settings.prefix, address)
        failures: list[KafkaError] = []

        def note(error: KafkaError | None, message: Any) -> None:
            if error is not None:
                failures.append(error)

        for record in records:
            message = self.wire.encode(record)
            headers: dict[str, str | bytes | None] = dict(message.headers)
            self._appender.produce(topic, message.value, partition=partition, headers=headers, on_delivery=note)
        if self._appender.flush(SECONDS) or failures:
            raise KafkaException(failures[0] if failures else KafkaError(KafkaError._MSG_TIMED_OUT))

    def partitions(self, topic: str) -> int:
        """Of any topic of the same brokers."""
        return len(self._admin.list_topics(topic, SECONDS).topics[topic].partitions)

    def end_of(self, topic: str, partition: int) -> int:
        """Of any topic of the same brokers: its last stable offset."""
        return self._offset(TopicPartition(topic, partition), OffsetSpec.latest())

    def bounds(self, address: Address) -> Bounds:
        place = TopicPartition(*topic_of(self.settings.prefix, address))
        return Bounds(self._offset(place, OffsetSpec.earliest()), self._offset(place, OffsetSpec.latest()))

    def _offset(self, place: TopicPartition, spec: OffsetSpec) -> int:
        deadline = time.monotonic() + SECONDS
        while True:
            asked = self._admin.list_offsets({place: spec}, isolation_level=IsolationLevel.READ_COMMITTED)
            try:
                offset: int = asked[place].result(SECONDS).offset
                return offset
            except KafkaException as failure:
                if failure.args[0].code() not in PASSING or time.monotonic() > deadline:
                    raise
                time.sleep(0.05)

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
        self._readers: dict[Address, _Follower] = {}
        self._fenced: set[Producer] = set()
        self._progress: dict[tuple[str, int], _ProgressReader] = {}

    def close(self) -> None:
        for reader in self._readers.values():
            reader.close()
        for progress in self._progress.values():
            progress.close()

    # --- reading -----------------------------------------------------------------------------------------------------

    def read(self, address: Address, offset: int, limit: int) -> Fetched:
        reader = self._readers.get(address)
        if reader is None:
            reader = _Follower(self._settings, *topic_of(self._settings.prefix, address), self._settings.patience_s)
            self._readers[address] = reader
        messages, next_offset, bounds = reader.read(offset, limit)
        records = tuple((at, self._wire.decode(Message(message.value, message.headers))) for at, message in messages)
        return Fetched(records, next_offset, bounds.start, bounds.end)

    def read_progress(self, owner: Producer) -> Progress | None:
        topic, partition = topic_of(self._settings.prefix, input_of(owner))
        reader = self._progress.get((topic, partition))
        if reader is None:
            reader = _ProgressReader(self._settings, topic, partition)
            self._progress[topic, partition] = reader
        text = reader.newest(str(owner))
        return None if text is None else decode_progress(json.loads(text))

    # --- writing -----------------------------------------------------------------------------------------------------

    def fence(self, producer: Producer) -> int:
        made = KafkaProducer(
            {
                "compression.type": "lz4",
                "linger.ms": 5,
                "retry.backoff.ms": 5,  # the default of 100 makes every transaction take as long
                "queue.buffering.max.messages": 2_000_000,
                "queue.buffering.max.kbytes": 262_144,
                "message.max.bytes": MESSAGE_BYTES_MAX,
                **self._settings.client,
                "transactional.id": f"{self._settings.prefix}-{producer.tier}-{producer.name}",
                "transaction.timeout.ms": TRANSACTION_MS,
            }
        )
        made.init_transactions(SECONDS)
        self._producers[producer] = made
        self._fenced.discard(producer)
        return self._log.incarnation(producer)

    def commit(self, transaction: Commit) -> Outcome:
        producer = self._producers.get(transaction.producer)
        if producer is None:
            # As the one before: only a fence can tell.
            return Outcome.FENCED if transaction.producer in self._fenced else Outcome.UNKNOWN
        try:
            producer.begin_transaction()
            for address, record in transaction.sends:
                self._send(producer, address, record)
            topic, partition = topic_of(self._settings.prefix, input_of(transaction.owner))
            text = json.dumps(encode_progress(transaction.progress), separators=(",", ":")).encode()
            key = str(transaction.owner).encode()
            self._produce(producer, topic + PROGRESS, text, partition=partition, key=key)
            producer.commit_transaction(SECONDS)
        except KafkaException as failure:
            return self._outcome_of(failure.args[0], transaction.producer)
        return Outcome.COMMITTED

    def _send(self, producer: KafkaProducer, address: Address, record: Record) -> None:
        topic, partition = topic_of(self._settings.prefix, address)
        outlets = self._log.outlets
        match record:
            case Results():
                assert outlets is not None
                for parcel in outlets.results(record):
                    headers = dict(parcel.headers) if parcel.headers else None
                    self._produce(producer, outlets.topic, parcel.value, key=parcel.key, headers=headers)
            case LateTuples() | SetAside():
                assert outlets is not None
                parcels = outlets.late(record) if isinstance(record, LateTuples) else outlets.dead(record)
                for parcel in parcels:
                    self._produce(producer, topic, parcel.value, partition=partition, headers=dict(parcel.headers))
            case _:
                message = self._wire.encode(record)
                self._produce(producer, topic, message.value, partition=partition, headers=dict(message.headers))

    def _produce(self, producer: KafkaProducer, topic: str, value: bytes, **more: Any) -> None:
        while True:
            try:
                producer.produce(topic, value, **more)
                return
            except BufferError:
                producer.poll(0.05)  # the queue to the broker is full: a slow broker slows us
            except KafkaException as failure:
                if failure.args[0].code() == KafkaError.MSG_SIZE_TOO_LARGE:
                    # Trying again would end the same way: loud, and not an unknown outcome.
                    raise TooLarge(f"a message of {len(value)} bytes for {topic} is over {MESSAGE_BYTES_MAX}") from None
                raise

    def _outcome_of(self, error: KafkaError, producer: Producer) -> Outcome:
        """Whatever it was, this producer is done with. Dropping it ends no transaction; the next fence does."""
        del self._producers[producer]
        if error.code() not in FENCED:
            return Outcome.UNKNOWN
        self._fenced.add(producer)
        return Outcome.FENCED


def input_of(owner: Producer) -> Address:
    match owner.tier:
        case "dispatcher":
            return Address(Topic.SHUFFLED, owner.name)
        case "merger":
            return Address(Topic.PARTIALS, owner.name)
        case _:
            return Address(Topic.UNIT, owner.name.partition("#")[0])


class _ProgressReader:
    """The newest committed progress of each owner in one partition: a unit's generations share one."""

    def __init__(self, settings: KafkaSettings, topic: str, partition: int) -> None:
        self._follower = _Follower(settings, topic + PROGRESS, partition, patience_s=0.05)
        self._found: dict[str, bytes] = {}
        self._next = 0

    def close(self) -> None:
        self._follower.close()

    def newest(self, owner: str) -> bytes | None:
        """As of now: everything below the last stable offset is read first."""
        deadline, end = time.monotonic() + SECONDS, self._follower.stable_end()
        while end is None or self._next < end:
            messages, self._next, _ = self._follower.read(self._next, 1000)
            self._found.update((message.key.decode(), message.value) for _, message in messages)
            if end is None:
                end = self._follower.stable_end()
            if time.monotonic() > deadline:
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT, f"the progress of {owner} could not be read"))
        return self._found.get(owner)


class _Follower:
    """Follows one partition. Reading on is the common case and costs no request of its own."""

    def __init__(self, settings: KafkaSettings, topic: str, partition: int, patience_s: float) -> None:
        self._place, self._patience_s = TopicPartition(topic, partition), patience_s
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

    def read(self, offset: int, limit: int) -> tuple[list[tuple[int, Received]], int, Bounds]:
        if offset != self._next:
            self._go_to(offset)
        if self._next is None:
            return [], offset, self._bounds
        found: list[tuple[int, Received]] = []
        messages: list[Any] = self._consumer.consume(limit, self._patience_s)
        for message in messages:
            error = message.error()
            if error is None:
                found.append(
                    (message.offset(), Received(message.value(), dict(message.headers() or ()), message.key() or b""))
                )
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
        found = self._asked_bounds()
        if found is None:
            return
        self._bounds = found
        self._next = max(offset, self._bounds.start)
        self._consumer.assign([TopicPartition(self._place.topic, self._place.partition, self._next)])

    def stable_end(self) -> int | None:
        """The last stable offset, as the broker says now; None while it cannot say."""
        found = self._asked_bounds()
        return None if found is None else found.end

    def _asked_bounds(self) -> Bounds | None:
        try:
            return Bounds(*self._consumer.get_watermark_offsets(self._place, SECONDS))
        except KafkaException as failure:
            if failure.args[0].code() not in PASSING:
                raise
            return None
