"""The log on Kafka: a transaction holds the records and, as one more record, the progress.

    shuffled, signals, partials    topics <prefix>.<name>, one partition a dispatcher or merger (signals: one)
    a unit                         topic <prefix>.<subgroup>; the unit's number is the partition
    progress                       topic <input>.progress beside the one that its owner reads, same partition, compacted

* A fence is `init_transactions` of a producer whose `transactional.id` names the query and the producer. It returns
  when what an older one had committed is in the log. Several owners have their progress in one partition (a unit, and
  whoever trims its log), and an open transaction of one hides from readers what others commit behind it: so behind a
  fence progress is read up to where the partition was written by then.
* librdkafka's producers do not survive an unknown outcome: after one, this client has none until the next fence.
* A transaction is open for `SECONDS` at most: it blocks every reader of its partitions. What takes longer is given up.
  The coordinator would do so, too, and what it answers then looks like a fence: whoever needs to know whether a
  successor runs asks the control port (hosts/units/process.py).
* Delivered at least once, results are sent outside of the transaction and acknowledged before it is committed: they
  are seen at once, and a crash in between repeats them under the same ids. Progress, late and dead records are exact
  either way, and so are rows that stand until the next of their group, which a zombie must not write again.
* Progress is a record and not an offset commit's metadata: librdkafka's `send_offsets_to_transaction` may wait for ever
  for a coordinator (its issue 5456: the time-out is not looked at), and metadata is bounded by 4 kB.
* The timestamp of a message to a unit or a merger says until when it is needed (`needed_until` of tiers/trimming.py),
  so that trimming asks the broker and reads nothing.
* What Kafka says is told as in ports/kafka_errors.py.

Clients do not survive a fork: make this object in the process that uses it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka import Producer as KafkaProducer
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    OffsetSpec,
)

from biclique.plan.semijoin import BLOCK_BYTES
from biclique.ports.kafka_admin import identity_of, offsets_of, settings_of, topics_there
from biclique.ports.kafka_errors import FENCED, PASSING, RIGHTS, TOO_LARGE, UNKNOWN_TOPIC, told
from biclique.ports.kafka_reading import READ_BYTES_MAX, SECONDS, Follower, ProgressReader
from biclique.ports.log import Bounds
from biclique.ports.outlets import Mail, Outlets
from biclique.ports.progress_json import decode_progress, encode_progress
from biclique.ports.refusals import Refused, Undecided, UnfitTopic, Unreachable
from biclique.ports.wire import Message, Wire
from biclique.tiers.effects import Commit, Fetched, Outcome
from biclique.tiers.messages import Address, LateTuples, Producer, Record, Results, SetAside, Topic
from biclique.tiers.progress import Progress
from biclique.tiers.trimming import TRIMMER, needed_until, trimmed_by

ATTEMPT_SHIFT = 32  # incarnations of a later attempt are greater than all of an earlier one
PROGRESS = ".progress"
PICKING = {"queued.min.messages": 1, "fetch.message.max.bytes": BLOCK_BYTES}  # fetches no more than is about to be read
MESSAGE_BYTES_MAX = 8 << 20  # as the topics are made (ports/kafka_topics.py)
DEFAULT_BYTES_MAX = 1_048_588  # of a message, where a broker's settings say nothing
OUTPUT_HEARD_OF_S = 5.0  # within which a broker hears of an output topic that was just made
BATCH_BYTES, BATCH_OVERHEAD = 1_000_000, 512
QUEUE_KBYTES = 65_536  # of messages on their way to the broker; more wait
ORIGIN_MS = 10**16  # of timestamps that say until when a record is needed: event times may be before 1970
NOT_NEEDED = 1  # before all of them
TRANSACTION_MS = 60_000  # an open one blocks every reader of its partitions: well above SECONDS, and no more


@dataclass(frozen=True)
class KafkaSettings:
    """`client`: librdkafka's settings for bootstrap servers and security, with secrets already looked up."""

    client: Mapping[str, Any] = field(repr=False)
    prefix: str  # of topics, groups and transactional ids: of no other query
    attempt: int = 0  # of the process that makes this log; grows with each
    patience_s: float = 0.0  # how long a read waits where there is nothing yet
    read_bytes: int = READ_BYTES_MAX

    @property
    def quiet(self) -> dict[str, Any]:
        """What a client is made with: what the library would write to stderr, ten times a second while a broker is
        away, its errors say too."""
        return {"log_level": 0, **self.client}


def topic_of(prefix: str, address: Address) -> tuple[str, int]:
    if address.topic is Topic.OUTPUT:
        return "", 0  # the user's: see ports/outlets.py
    if address.topic is Topic.UNIT:
        subgroup, _, number = str(address.partition).rpartition(".")
        return f"{prefix}.{subgroup}", int(number)
    return f"{prefix}.{address.topic.value}", int(address.partition)


class TooLarge(Refused):
    """A message that its topic does not take."""


class KafkaLog:
    """`outlets`: None where nothing leaves the system through this log."""

    def __init__(self, settings: KafkaSettings, wire: Wire, outlets: Outlets | None = None) -> None:
        self.settings, self.wire, self.outlets = settings, wire, outlets
        self._admin = AdminClient(settings.quiet)
        self._appender: KafkaProducer | None = None
        self._incarnations: dict[Producer, int] = {}
        self._output_bytes: int | None = None

    def client(self) -> KafkaClient:
        return KafkaClient(self)

    def incarnation(self, producer: Producer) -> int:
        self._incarnations[producer] = self._incarnations.get(producer, self.settings.attempt << ATTEMPT_SHIFT) + 1
        return self._incarnations[producer]

    def append(self, address: Address, records: Sequence[Record]) -> None:
        if self._appender is None:
            made = {"enable.idempotence": True, "linger.ms": 0, "message.max.bytes": MESSAGE_BYTES_MAX}
            self._appender = KafkaProducer({**made, **self.settings.quiet})
        topic, partition = topic_of(self.settings.prefix, address)
        failures: list[KafkaError] = []

        def note(error: KafkaError | None, message: Any) -> None:
            if error is not None:
                failures.append(error)

        for record in records:
            message = self.wire.encode(record)
            headers: dict[str, str | bytes | None] = dict(message.headers)
            self._appender.produce(topic, message.value, partition=partition, headers=headers, on_delivery=note)
        with told(f"writing to topic {topic}"):
            if self._appender.flush(SECONDS) or failures:
                raise KafkaException(failures[0] if failures else KafkaError(KafkaError._MSG_TIMED_OUT))

    def identity(self, address: Address) -> str:
        """Of the topic, as it was made this time: what was derived from another of this name says nothing of it."""
        topic, _ = topic_of(self.settings.prefix, address)
        return identity_of(self._admin, topic, f"looking at topic {topic}")

    def that_may_have_progress(self, owners: Iterable[Producer]) -> list[Producer]:
        """Those for whose progress there is a partition."""
        there = topics_there(self._admin)
        places = [(owner, *topic_of(self.settings.prefix, input_of(owner))) for owner in owners]
        return [owner for owner, topic, partition in places if partition < there.get(topic + PROGRESS, 0)]

    def output_bytes_max(self) -> int:
        """Of one message of the output topic, as far as we may know. Raises Unreachable: what is asked again is not
        guessed, or a result that the topic takes would be too large for us as long as this process lives; nor of a
        topic that a broker has not heard of."""
        assert self.outlets is not None
        if self._output_bytes is None:
            try:
                found = settings_of(self._admin, self.outlets.topic, OUTPUT_HEARD_OF_S)
                self._output_bytes = int(found["max.message.bytes"].value)
            except UnfitTopic:
                return DEFAULT_BYTES_MAX  # whoever writes to it says that it is missing
            except (Refused, KafkaException):
                self._output_bytes = DEFAULT_BYTES_MAX  # we may write to it, and perhaps may not look at it
        return self._output_bytes

    def bounds(self, address: Address) -> Bounds:
        place = TopicPartition(*topic_of(self.settings.prefix, address))
        return Bounds(self._offset(place, OffsetSpec.earliest()), self._offset(place, OffsetSpec.latest()))

    def _offset(self, place: TopicPartition, spec: OffsetSpec) -> int:
        return offsets_of(self._admin, [place], spec)[place]

    def written_to(self, address: Address) -> int:
        return self.end_of(*topic_of(self.settings.prefix, address))

    def end_of(self, topic: str, partition: int) -> int:
        """Of all that is written, whether it is decided or not."""
        place = TopicPartition(topic, partition)
        return offsets_of(self._admin, [place], OffsetSpec.latest(), IsolationLevel.READ_UNCOMMITTED)[place]

    def first_needed(self, address: Address, watermark: int) -> int | None:
        """The first record that says that it is needed at this watermark; None: there is none. Each says so by its
        timestamp, so the broker finds it, and nobody reads."""
        place = TopicPartition(*topic_of(self.settings.prefix, address))
        found = self._offset(place, OffsetSpec.for_timestamp(_timestamp(watermark)))
        return None if found < 0 else found

    def trim(self, address: Address, before: int) -> None:
        topic, partition = topic_of(self.settings.prefix, address)
        if before > self.bounds(address).start:
            place = TopicPartition(topic, partition, before)
            with told(f"trimming topic {topic} (it needs the right to delete records)"):
                self._admin.delete_records([place], request_timeout=SECONDS)[place].result(SECONDS)


class KafkaClient:
    """One process's connection. Producers by fence, readers by address, both made when first asked for."""

    def __init__(self, log: KafkaLog) -> None:
        self._log, self._settings, self._wire = log, log.settings, log.wire
        self._producers: dict[Producer, KafkaProducer] = {}
        self._readers: dict[Address, Follower] = {}
        self._fenced: set[Producer] = set()
        self._progress: dict[tuple[str, int], ProgressReader] = {}
        self._last_read: Follower | None = None
        self._plain: KafkaProducer | None = None  # of what is delivered at least once
        self._undelivered: list[KafkaError] = []  # by it
        self.undecided: Undecided | None = None  # why a transaction's outcome is not known

    def close(self) -> None:
        for reader in self._readers.values():
            reader.close()
        for progress in self._progress.values():
            progress.close()

    # --- reading -----------------------------------------------------------------------------------------------------

    def read(self, address: Address, offset: int, limit: int) -> Fetched:
        reader = self._readers.get(address)
        if reader is None:
            place = topic_of(self._settings.prefix, address)
            client = self._settings.quiet | (PICKING if self._picks(address) else {})
            reader = Follower(client, *place, self._settings.patience_s)
            self._readers[address] = reader
        self._last_read = reader
        messages, next_offset, bounds = reader.read(offset, limit, self._settings.read_bytes)
        records = tuple((at, self._wire.decode(Message(message.value, message.headers))) for at, message in messages)
        return Fetched(records, next_offset, bounds.start, bounds.end)

    def _picks(self, address: Address) -> bool:
        """A unit that fetches payload reads a block here and a block there; a dispatcher reads on."""
        return address.topic is Topic.SHUFFLED and any(producer.tier == "joiner" for producer in self._producers)

    def wait(self, seconds: float) -> bool:
        """At most so long, or until there is more to read where was read last. What was there before the call does not
        end it: whoever left it unread waits for something else."""
        if self._last_read is None:
            time.sleep(seconds)
            return False
        return self._last_read.wait(seconds)

    def read_progress(self, owner: Producer) -> Progress | None:
        topic, partition = topic_of(self._settings.prefix, input_of(owner))
        reader = self._progress.get((topic, partition))
        if reader is None:
            reader = ProgressReader(self._settings.quiet, topic + PROGRESS, partition)
            self._progress[topic, partition] = reader
        written = self._log.end_of(topic + PROGRESS, partition) if self._has_fenced(owner) else 0
        text = reader.newest(str(owner), written)
        return None if text is None else decode_progress(json.loads(text))

    def _has_fenced(self, owner: Producer) -> bool:
        """Whether this client has fenced who writes this progress: a unit's generations share a producer, and one that
        trims writes down of many logs how far."""
        names = {fenced.name for fenced in (*self._producers, *self._fenced) if fenced.tier == owner.tier}
        return bool(names) if owner.tier == TRIMMER else owner.name.partition("#")[0] in names

    # --- writing -----------------------------------------------------------------------------------------------------

    def fence(self, producer: Producer) -> int:
        made = KafkaProducer(
            {
                **self._producing(),
                "transactional.id": f"{self._settings.prefix}-{producer.tier}-{producer.name}",
                "transaction.timeout.ms": TRANSACTION_MS,
            }
        )
        with told(f"taking over from an older {producer}"):
            made.init_transactions(SECONDS)
        self._producers[producer] = made
        self._fenced.discard(producer)
        return self._log.incarnation(producer)

    def _producing(self) -> dict[str, Any]:
        largest, batch = MESSAGE_BYTES_MAX, BATCH_BYTES
        if self._log.outlets is not None:
            output = self._log.output_bytes_max()
            largest, batch = max(largest, output), min(batch, output - BATCH_OVERHEAD)
        return {
            "compression.type": "lz4",
            "linger.ms": 5,
            "retry.backoff.ms": 5,  # the default of 100 makes every transaction take as long
            "queue.buffering.max.messages": 2_000_000,
            "queue.buffering.max.kbytes": QUEUE_KBYTES,
            "message.max.bytes": largest,
            "batch.size": max(batch, 1),
            **self._settings.quiet,
        }

    def commit(self, transaction: Commit) -> Outcome:
        producer = self._producers.get(transaction.producer)
        if producer is None:
            # As the one before: only a fence can tell.
            return Outcome.FENCED if transaction.producer in self._fenced else Outcome.UNKNOWN
        deadline = time.monotonic() + SECONDS
        try:
            producer.begin_transaction()
            # First, so that its partition is added to the transaction with the others, and not by a request of its own.
            topic, partition = topic_of(self._settings.prefix, input_of(transaction.owner))
            text = json.dumps(encode_progress(transaction.progress), separators=(",", ":")).encode()
            key = str(transaction.owner).encode()
            self._produce(producer, deadline, topic + PROGRESS, text, partition=partition, key=key)
            for address, record in transaction.sends:
                self._send(producer, address, record, deadline)
            self._delivered(deadline)
            producer.commit_transaction(_left(deadline))
        except KafkaException as failure:
            return self._outcome_of(failure.args[0], transaction.producer)
        except Exception:  # what cannot be sent, or not even be made a message
            self._give_up(transaction.producer)
            raise
        return Outcome.COMMITTED

    def _send(self, producer: KafkaProducer, address: Address, record: Record, deadline: float) -> None:
        topic, partition = topic_of(self._settings.prefix, address)
        outlets = self._log.outlets
        match record:
            case Results():
                assert outlets is not None
                out = self._repeating() if outlets.may_repeat else producer
                for mail in outlets.results(record):
                    self._post(out, deadline, outlets.topic, mail)
            case LateTuples() | SetAside():
                assert outlets is not None
                parcels = outlets.late(record) if isinstance(record, LateTuples) else outlets.dead(record)
                for parcel in parcels:
                    headers = dict(parcel.headers)
                    self._produce(producer, deadline, topic, parcel.value, partition=partition, headers=headers)
            case _:
                message = self._wire.encode(record)
                more: dict[str, Any] = {"partition": partition, "headers": dict(message.headers)}
                until = needed_until(self._wire.plan, record)
                more["timestamp"] = NOT_NEEDED if until is None else _timestamp(until) + 1
                self._produce(producer, deadline, topic, message.value, **more)

    def _post(self, producer: KafkaProducer, deadline: float, topic: str, mail: Mail) -> None:
        """By far the most of what is sent: twice as fast as through `_produce`, which deals with what fails."""
        send, more = producer.produce, dict[str, Any]()
        if mail.headers:
            more["headers"] = dict(mail.headers)
        if mail.partition is not None:
            more["partition"] = mail.partition
        for key, value in zip(mail.keys, mail.values, strict=True):
            try:
                if more:
                    send(topic, value, key, **more)
                else:
                    send(topic, value, key)
            except (BufferError, KafkaException):
                self._produce(producer, deadline, topic, value, key=key, **more)

    def _repeating(self) -> KafkaProducer:
        if self._plain is None:
            self._undelivered = failures = []

            def note(error: KafkaError | None, message: Any) -> None:
                if error is not None:
                    failures.append(error)

            self._plain = KafkaProducer({**self._producing(), "enable.idempotence": True, "on_delivery": note})
        return self._plain

    def _delivered(self, deadline: float) -> None:
        """What is delivered at least once is there, or nothing that follows from it is committed."""
        if self._plain is None:
            return
        left = self._plain.flush(_left(deadline))
        if left or self._undelivered:
            self._plain = None
            raise KafkaException(self._undelivered[0] if self._undelivered else KafkaError(KafkaError._MSG_TIMED_OUT))

    def _produce(self, producer: KafkaProducer, deadline: float, topic: str, value: bytes, **more: Any) -> None:
        while True:
            try:
                producer.produce(topic, value, **more)
                return
            except BufferError:
                if time.monotonic() > deadline:
                    raise KafkaException(KafkaError(KafkaError._MSG_TIMED_OUT)) from None
                producer.poll(0.05)  # the queue to the broker is full: a slow broker slows us
            except KafkaException as failure:
                if failure.args[0].code() in TOO_LARGE:
                    # Trying again would end the same way: loud, and not an unknown outcome.
                    raise TooLarge(
                        f"a message of {len(value)} bytes is more than topic {topic} takes: it holds one row, so make "
                        "the texts that the query selects shorter"
                    ) from None
                raise

    def _outcome_of(self, error: KafkaError, producer: Producer) -> Outcome:
        """Whatever it was, this producer is done with. Dropping it ends no transaction; the next fence does."""
        code = error.code()
        outlets = self._log.outlets
        if code in TOO_LARGE and outlets is not None:
            self._give_up(producer)
            raise TooLarge(
                f"a result is larger than topic {outlets.topic} takes: raise its max.message.bytes, now "
                f"{self._log.output_bytes_max()}, and start again; nothing is lost"
            )
        if code == KafkaError.INVALID_RECORD:
            self._give_up(producer)
            raise UnfitTopic(
                f"topic {outlets.topic if outlets else self._settings.prefix} refuses our records ({error.str()}): if "
                "its cleanup.policy is compact, a record needs a key; choose format json, or another topic"
            )
        where = f"{outlets.topic} and {self._settings.prefix}.*" if outlets else f"{self._settings.prefix}.*"
        if code in RIGHTS:
            self._give_up(producer)
            raise Refused(f"Kafka does not allow writing to {where} ({error.str()}): {RIGHTS[code]}")
        if code in UNKNOWN_TOPIC:
            self._give_up(producer)
            raise Unreachable(
                f"Kafka does not know every topic of {where} ({error.str()}): create what is missing; nothing is lost"
            )
        if code == KafkaError.INVALID_TIMESTAMP:
            self._give_up(producer)
            raise Unreachable(
                f"Kafka refuses the time of our records in {where} ({error.str()}): the clock of this machine is ahead"
                " of the brokers', so set it right; nothing is lost"
            )
        del self._producers[producer]
        if code not in FENCED:
            self.undecided = Undecided(f"the outcome of a transaction is not known ({error.str()})", code in PASSING)
            return Outcome.UNKNOWN
        self._fenced.add(producer)
        return Outcome.FENCED

    def _give_up(self, producer: Producer) -> None:
        """What is open would hold up readers until it times out."""
        made = self._producers.pop(producer)
        try:
            made.abort_transaction(SECONDS)
        except KafkaException:
            return  # it will time out


def _timestamp(time_us: int) -> int:
    """An event time as the timestamp of a message, rounded down; never negative."""
    return time_us // 1000 + ORIGIN_MS


def _left(deadline: float) -> float:
    return max(0.001, deadline - time.monotonic())


def input_of(owner: Producer) -> Address:
    match owner.tier:
        case "dispatcher":
            return Address(Topic.SHUFFLED, owner.name)
        case "merger":
            return Address(Topic.PARTIALS, owner.name)
        case "trimmer":
            return trimmed_by(owner)
        case _:
            return Address(Topic.UNIT, owner.name.partition("#")[0])
