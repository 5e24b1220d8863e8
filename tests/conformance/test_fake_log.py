"""What only the fake log can show: what clients of a real broker meet now and then."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from biclique.tiers.effects import Commit, Outcome
from biclique.tiers.messages import Address, Heartbeat, Producer, Topic
from biclique.tiers.progress import DispatcherProgress
from tests.simulation.fake_log import FakeClient, FakeLog

HERE, THERE = Address(Topic.UNIT, "0L0.0"), Address(Topic.UNIT, "0R0.0")
WRITER, OTHER = Producer("dispatcher", "0"), Producer("dispatcher", "1")


def note(n: int) -> Heartbeat:
    return Heartbeat(0, 0, n, n, 0)


def request_of(n: int, producer: Producer = WRITER) -> Commit:
    return Commit(producer, producer, ((HERE, note(n)), (THERE, note(n))), DispatcherProgress(epoch=n))


def writer(log: FakeLog, producer: Producer = WRITER) -> FakeClient:
    client = log.client()
    client.fence(producer)
    return client


def seen(log: FakeLog, address: Address) -> list[int]:
    return [record.position for _, record in log.client().read(address, 0, 100).records]


def only(*what: str) -> Callable[[str, float], bool]:
    return lambda kind, _: kind in what


def test_an_open_transaction_blocks_readers_of_its_partitions_also_for_others() -> None:
    log = FakeLog()
    one, other = writer(log), writer(log, OTHER)
    assert one.begin(request_of(1)) is None
    assert other.commit(Commit(OTHER, OTHER, ((HERE, note(2)),), DispatcherProgress())) is Outcome.COMMITTED
    assert seen(log, HERE) == []
    assert log.client().read(HERE, 0, 9).end == 0
    assert (log.bounds(HERE).end, log.written_to(HERE)) == (0, 3)
    assert one.end() is Outcome.COMMITTED
    assert seen(log, HERE) == [1, 2]


def test_markers_reach_the_partitions_one_by_one_and_take_offsets() -> None:
    log = FakeLog(chance=only("slow markers"))
    writer(log).commit(request_of(1))
    states = set()
    while log.deliver_one():
        states.add((len(seen(log, HERE)), len(seen(log, THERE)), log.client().read_progress(WRITER) is not None))
    assert (1, 1, True) in states
    assert len(states) >= 2, "not all at once"
    assert log.bounds(HERE) == (0, 2)
    assert log.client().read(HERE, 0, 9).next_offset == 2


def test_aborted_records_take_offsets_and_are_skipped() -> None:
    log = FakeLog()
    assert writer(log).begin(request_of(1)) is None
    successor = writer(log)
    assert successor.read_progress(WRITER) is None
    assert successor.commit(request_of(2)) is Outcome.COMMITTED
    assert seen(log, HERE) == [2]
    assert log.client().read(HERE, 0, 9).records[0][0] == 2
    assert [record.position for _, record in log.history(HERE)] == [2]


def test_a_zombie_cannot_end_what_its_successor_has_fenced() -> None:
    log = FakeLog()
    zombie = writer(log)
    assert zombie.begin(request_of(1)) is None
    writer(log)
    assert zombie.end() is Outcome.FENCED
    assert seen(log, HERE) == []


def test_a_transaction_left_open_is_aborted_by_the_time_out() -> None:
    log = FakeLog()
    slow = writer(log)
    assert slow.begin(request_of(1)) is None
    assert log.time_out_one() is not None
    assert slow.end() is Outcome.UNKNOWN, "nobody has taken over: a restart is due"
    log.settle()
    assert log.client().read(HERE, 0, 9).next_offset == 2
    assert seen(log, HERE) == []
    writer(log)
    assert slow.commit(request_of(3)) is Outcome.FENCED


@pytest.mark.parametrize(
    ("fault", "committed"), [("lost acknowledgement", True), ("lost request", False), ("lost send", False)]
)
def test_an_unknown_outcome_is_known_after_a_fence(fault: str, committed: bool) -> None:
    log = FakeLog(chance=only(fault, "slow markers"))
    assert writer(log).commit(request_of(4)) is Outcome.UNKNOWN
    successor = writer(log)
    assert successor.read_progress(WRITER) == (DispatcherProgress(epoch=4) if committed else None)
    log.settle()
    assert (seen(log, HERE), seen(log, THERE)) == (([4], [4]) if committed else ([], []))
