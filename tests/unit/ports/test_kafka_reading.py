"""What a follower of a partition hands on when its client meets an error in the midst of a read, and what is the newest
progress while others' transactions are open: scripted at the wire, since a broker does it only now and then."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from biclique.ports.kafka_log import KafkaSettings
from biclique.ports.kafka_reading import Follower, ProgressReader
from biclique.ports.kafka_receivers import Receivers
from biclique.ports.refusals import Unreachable
from biclique.tiers.messages import Producer


@dataclass(frozen=True)
class Message:
    at: int
    wrong: int | None = None

    def error(self) -> KafkaError | None:
        return None if self.wrong is None else KafkaError(self.wrong)

    def offset(self) -> int:
        return self.at

    def headers(self) -> None:
        return None

    def value(self) -> bytes:
        return str(self.at).encode()

    def key(self) -> bytes:
        return b"other" if self.at % 2 else b"owner"

    def __len__(self) -> int:
        return 1


class Broker:
    """A partition from `start` to `end`, its last stable offset. `ends`: where that is after each look for more. Keys
    take turns, `compacted` are gone. `answers`: False for each question for its bounds that it does not answer; `gone`:
    once, behind this offset, it says that the next one is out of range, or `says` something else."""

    def __init__(self, start: int, end: int) -> None:
        self.start, self.end = start, end
        self.ends: deque[int] = deque()
        self.compacted: frozenset[int] = frozenset()
        self.answers: deque[bool] = deque()
        self.gone: int | None = None
        self.says = KafkaError._AUTO_OFFSET_RESET
        self.at, self.placed = 0, 0

    def __call__(self, settings: Mapping[str, Any]) -> Broker:
        self.says_end = settings.get("enable.partition.eof", False)
        return self

    def assign(self, places: list[Any]) -> None:
        self.at = places[0].offset
        self.placed += 1

    def consume(self, limit: int, patience_s: float) -> list[Message]:
        found: list[Message] = []
        while self.at < self.end and len(found) < limit:
            if self.at == self.gone:
                self.gone = None
                return [*found, Message(self.at, self.says)]
            if self.at not in self.compacted:
                found.append(Message(self.at))
            self.at += 1
        if not found and self.says_end:
            found.append(Message(self.at, KafkaError._PARTITION_EOF))
        if self.ends:
            self.end = self.ends.popleft()
        return found

    def get_watermark_offsets(self, place: Any, timeout: float = 0, cached: bool = False) -> tuple[int, int]:
        if not cached and self.answers and not self.answers.popleft():
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))
        return self.start, self.end


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Broker:
    made = Broker(0, 10)
    monkeypatch.setattr("biclique.ports.kafka_reading.Consumer", made)
    return made


def read_all(follower: Follower) -> list[int]:
    found: list[int] = []
    at = 0
    for _ in range(10):
        messages, after, _ = follower.read(at, 100)
        assert all(at <= offset < after for offset, _ in messages)
        found += [offset for offset, _ in messages]
        at = after
    return found


def test_what_was_read_before_the_place_was_lost_is_not_read_again(broker: Broker) -> None:
    broker.gone, broker.answers = 5, deque([True, False, False])
    assert read_all(Follower({}, "t", 0, 0.0)) == list(range(10))


def test_a_broker_that_has_not_heard_of_a_topic_is_asked_again(broker: Broker) -> None:
    broker.gone, broker.says = 5, KafkaError.UNKNOWN_TOPIC_OR_PART
    assert read_all(Follower({}, "t", 0, 0.0)) == list(range(10))


def test_a_gap_that_opens_in_the_midst_of_a_read_is_passed_once(broker: Broker) -> None:
    broker.gone = 5
    follower = Follower({}, "t", 0, 0.0)
    messages, after, _ = follower.read(0, 3)
    assert ([offset for offset, _ in messages], after) == ([0, 1, 2], 3)
    broker.start = 8
    messages, after, bounds = follower.read(3, 100)
    assert ([offset for offset, _ in messages], after, bounds.start) == ([3, 4], 8, 8)
    assert [offset for offset, _ in follower.read(8, 100)[0]] == [8, 9]


def test_progress_behind_an_open_transaction_is_waited_for_where_it_must_be_known(broker: Broker) -> None:
    broker.end, broker.ends = 4, deque([4, 4, 10])
    reader = ProgressReader({}, "p", 0)
    assert reader.newest("owner") == b"2", "as far as can be read"
    assert reader.newest("owner", 10) == b"8"


def test_a_transaction_that_stays_open_is_what_is_said_to_stand_in_the_way(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("biclique.ports.kafka_reading.SECONDS", 0.05)
    broker.end = 4
    with pytest.raises(Unreachable, match="of owner in p stands behind a transaction of somebody else: it shows when"):
        ProgressReader({}, "p", 0).newest("owner", 10)


def test_progress_that_is_compacted_while_it_is_looked_for_is_found_behind(broker: Broker) -> None:
    broker.end, broker.compacted, broker.ends = 2, frozenset({0}), deque([8])
    assert ProgressReader({}, "p", 0).newest("owner") == b"6"
    assert ProgressReader({}, "p", 0).newest("nobody") is None


def test_advice_is_no_reason_to_stop(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("biclique.ports.kafka_receivers.Consumer", broker)
    broker.gone, broker.says = 5, KafkaError.UNKNOWN_TOPIC_OR_PART
    receivers = Receivers(KafkaSettings({}, "q"), count(step=100).__next__)
    for _ in range(3):
        assert receivers.progress([Producer("joiner", "0L0.0")]) == [None]
    assert (broker.placed, broker.gone) == (2, None)
