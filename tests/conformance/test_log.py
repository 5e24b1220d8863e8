"""One suite for every log: what the loops rely on, whatever is behind the port.

A log shows what was committed at once or a little later: `settle` waits for that. Control records may take offsets, so
nothing here counts them; order, atomicity and fences are what is asked for.
"""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from biclique.ports.kafka_log import KafkaLog, KafkaSettings
from biclique.ports.log import Log, LogClient
from biclique.ports.memory import MemoryLog
from biclique.ports.wire import Wire
from biclique.tiers.effects import Commit, Outcome
from biclique.tiers.messages import Address, Heartbeat, Producer, Record, Topic
from biclique.tiers.progress import DispatcherProgress, JoinerProgress
from infra.kafka_server import KafkaServer
from tests.simulation.fake_log import FakeLog
from tests.unit.tiers.building import plan

HERE, THERE = Address(Topic.UNIT, "0L0.0"), Address(Topic.UNIT, "0R0.0")
SHUFFLED = Address(Topic.SHUFFLED, 0)
SQL = "SELECT r.v FROM r JOIN s ON r.k = s.k"
WRITER, OTHER = Producer("dispatcher", "0"), Producer("dispatcher", "1")


@dataclass(frozen=True)
class Bench:
    log: Log
    settle: Callable[[], None]


def memory(request: pytest.FixtureRequest) -> Bench:
    return Bench(MemoryLog(), lambda: None)


def fake(request: pytest.FixtureRequest) -> Bench:
    log = FakeLog()
    return Bench(log, log.settle)


def fake_with_slow_markers(request: pytest.FixtureRequest) -> Bench:
    """Readers that lag and markers that dawdle change when things are seen, and nothing else."""
    rng = random.Random(7)
    log = FakeLog(rng, lambda what, _: what == "slow markers" or (what == "late reader" and rng.random() < 0.5))
    return Bench(log, log.settle)


def kafka(request: pytest.FixtureRequest) -> Bench:
    server: KafkaServer = request.getfixturevalue("kafka_server")
    client = {"bootstrap.servers": server.bootstrap}
    prefix = f"conformance-{uuid.uuid4()}"
    names = ("shuffled", "shuffled.progress", "signals", "0L0", "0L0.progress", "0R0", "0R0.progress")
    topics = [NewTopic(f"{prefix}.{name}", 2, 1) for name in names]
    admin = AdminClient(client)
    for future in admin.create_topics(topics).values():
        future.result(30)
    log = KafkaLog(KafkaSettings(client, prefix, patience_s=0.05), Wire(plan(SQL)))
    places = [TopicPartition(topic.topic, partition) for topic in topics for partition in range(topic.num_partitions)]

    def ends(level: IsolationLevel) -> list[int]:
        found = admin.list_offsets({place: OffsetSpec.latest() for place in places}, isolation_level=level)
        return [found[place].result(30).offset for place in places]

    def settle() -> None:
        """A commit is answered before its markers have reached every partition."""
        deadline = time.monotonic() + 30
        while True:
            try:
                if ends(IsolationLevel.READ_COMMITTED) == ends(IsolationLevel.READ_UNCOMMITTED):
                    return
            except KafkaException as failure:
                if failure.args[0].code() != KafkaError.NOT_LEADER_FOR_PARTITION:
                    raise  # else: a new topic has no leader for a moment
            assert time.monotonic() < deadline, "the markers of a commit never came"

    return Bench(log, settle)


@pytest.fixture(params=[memory, fake, fake_with_slow_markers, kafka], ids=lambda make: make.__name__)
def bench(request: pytest.FixtureRequest) -> Bench:
    return request.param(request)


def note(n: int) -> Heartbeat:
    return Heartbeat(0, 0, n, n, 0)


def request_of(
    *sends: tuple[Address, Record], producer: Producer = WRITER, owner: Producer | None = None, epoch: int = 1
) -> Commit:
    return Commit(producer, owner or producer, sends, DispatcherProgress(epoch=epoch))


def writer(bench: Bench, producer: Producer = WRITER) -> LogClient:
    client = bench.log.client()
    client.fence(producer)
    return client


def all_of(bench: Bench, address: Address, limit: int = 3) -> list[Record]:
    """As a reader that reads on and on sees it."""
    reader, offset, found = bench.log.client(), 0, []
    for _ in range(200):
        if offset >= bench.log.bounds(address).end:
            break
        fetched = reader.read(address, offset, limit)
        assert len(fetched.records) <= limit
        assert [o for o, _ in fetched.records] == sorted({o for o, _ in fetched.records})
        assert all(offset <= o < fetched.next_offset for o, _ in fetched.records)
        assert fetched.next_offset >= offset
        offset = fetched.next_offset
        found += [record for _, record in fetched.records]
    return found


def test_what_was_committed_is_read_in_order_by_everyone(bench: Bench) -> None:
    client = writer(bench)
    for n in range(7):
        assert client.commit(request_of((HERE, note(n)), (THERE, note(10 + n)))) is Outcome.COMMITTED
    bench.settle()
    assert all_of(bench, HERE) == [note(n) for n in range(7)]
    assert all_of(bench, THERE, limit=100) == [note(10 + n) for n in range(7)]


def test_records_of_one_transaction_keep_their_order_in_a_partition(bench: Bench) -> None:
    writer(bench).commit(request_of((HERE, note(1)), (THERE, note(2)), (HERE, note(3)), (HERE, note(4))))
    bench.settle()
    assert all_of(bench, HERE) == [note(1), note(3), note(4)]


def test_an_empty_partition_reads_empty_and_reading_on_stays_in_place(bench: Bench) -> None:
    fetched = bench.log.client().read(HERE, 0, 10)
    assert (fetched.records, fetched.next_offset, fetched.start, fetched.end) == ((), 0, 0, 0)
    writer(bench).commit(request_of((HERE, note(1))))
    bench.settle()
    end = bench.log.bounds(HERE).end
    fetched = bench.log.client().read(HERE, end, 10)
    assert (fetched.records, fetched.next_offset) == ((), end)


def test_progress_is_that_of_the_last_transaction_and_of_its_owner_only(bench: Bench) -> None:
    client = writer(bench)
    assert client.read_progress(WRITER) is None
    client.commit(request_of((HERE, note(1)), epoch=5))
    client.commit(request_of(epoch=6))
    bench.settle()
    assert bench.log.client().read_progress(WRITER) == DispatcherProgress(epoch=6)
    assert client.read_progress(OTHER) is None


def test_progress_belongs_to_the_owner_and_the_fence_to_the_producer(bench: Bench) -> None:
    """A new generation of a unit fences the older ones and shares no progress with them."""
    unit, generation = Producer("joiner", "0L0.0"), Producer("joiner", "0L0.0#1")
    old = writer(bench, unit)
    assert old.commit(Commit(unit, unit, (), JoinerProgress(4, 9))) is Outcome.COMMITTED
    new = writer(bench, unit)
    assert new.read_progress(generation) is None
    assert old.commit(Commit(unit, unit, (), JoinerProgress(5, 10))) is Outcome.FENCED
    assert new.commit(Commit(unit, generation, (), JoinerProgress(7, 11))) is Outcome.COMMITTED
    bench.settle()
    assert new.read_progress(unit) == JoinerProgress(4, 9)
    assert new.read_progress(generation) == JoinerProgress(7, 11)


def test_a_fence_sees_what_its_predecessor_committed_and_refuses_it_from_then_on(bench: Bench) -> None:
    first = writer(bench)
    first.commit(request_of((HERE, note(1)), epoch=3))
    second = bench.log.client()
    second.fence(WRITER)
    assert second.read_progress(WRITER) == DispatcherProgress(epoch=3), "known before the fence returns"
    assert first.commit(request_of((HERE, note(2)), epoch=4)) is Outcome.FENCED
    assert first.commit(request_of((HERE, note(2)), epoch=4)) is Outcome.FENCED, "and again"
    assert second.commit(request_of((HERE, note(3)), epoch=5)) is Outcome.COMMITTED
    bench.settle()
    assert all_of(bench, HERE) == [note(1), note(3)]
    assert second.read_progress(WRITER) == DispatcherProgress(epoch=5)


def test_incarnations_grow_for_each_producer(bench: Bench) -> None:
    numbers = [bench.log.client().fence(WRITER) for _ in range(4)]
    assert numbers == sorted(set(numbers))
    assert bench.log.client().fence(OTHER) < numbers[-1], "each producer counts for itself"


def test_two_producers_write_side_by_side(bench: Bench) -> None:
    one, other = writer(bench), writer(bench, OTHER)
    for n in range(5):
        assert one.commit(request_of((HERE, note(n)))) is Outcome.COMMITTED
        assert other.commit(request_of((HERE, note(100 + n)), producer=OTHER)) is Outcome.COMMITTED
    bench.settle()
    found = [record.position for record in all_of(bench, HERE)]
    assert [n for n in found if n < 100] == [0, 1, 2, 3, 4]
    assert [n for n in found if n >= 100] == [100, 101, 102, 103, 104]


def test_what_was_committed_is_below_the_end_of_what_is_written_before_it_can_be_read(bench: Bench) -> None:
    """Where the part of a partition begins that a new generation of a unit reads: behind all of the older ones."""
    for number in range(3):
        writer(bench).commit(request_of((HERE, note(number))))
        lower = bench.log.written_to(HERE)
        bench.settle()
        assert len(all_of(bench, HERE)) == number + 1
        assert bench.log.client().read(HERE, lower, 10).records == ()


def test_trimmed_records_are_gone_and_the_rest_keep_their_offsets(bench: Bench) -> None:
    bench.log.append(SHUFFLED, [note(n) for n in range(6)])
    bench.log.trim(SHUFFLED, 4)
    bench.log.trim(SHUFFLED, 2)
    assert bench.log.bounds(SHUFFLED) == (4, 6)
    bench.settle()
    reader = bench.log.client()
    for _ in range(50):
        fetched = reader.read(SHUFFLED, 0, 10)
        assert fetched.start == 4
        assert fetched.records == tuple((n, note(n)) for n in range(4, fetched.next_offset))
        if fetched.next_offset == 6:
            break
    else:
        pytest.fail("a reader that lags catches up")


def test_an_append_needs_no_transaction(bench: Bench) -> None:
    bench.log.append(SHUFFLED, [note(1), note(2)])
    bench.log.append(SHUFFLED, [note(2)])
    assert all_of(bench, SHUFFLED) == [note(1), note(2), note(2)]
