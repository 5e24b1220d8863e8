"""What is asked of Kafka is asked again while it may pass, and ends in time and in a sentence when it does not."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from biclique.plan.make import make_plan
from biclique.ports import kafka_admin
from biclique.ports.kafka_admin import offsets_of, partitions_of
from biclique.ports.kafka_errors import FENCED, trouble
from biclique.ports.kafka_log import KafkaLog, KafkaSettings
from biclique.ports.outlets import Outlets
from biclique.ports.refusals import Refused, UnfitTopic, Unreachable
from biclique.ports.wire import Wire
from biclique.query.compile import compile_manifest
from biclique.tiers.messages import Address, Topic
from tests.unit.tiers.on_topics import on_topics

PLACES = [TopicPartition("t", 0), TopicPartition("t", 1)]
PLAN = make_plan(compile_manifest(on_topics()))
UNKNOWN, AWAY = KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._TRANSPORT


class Broker:
    """Of a client: each question is answered by the next of `answers`, an error's code or None, and at last by None."""

    def __init__(self, *answers: int | None) -> None:
        self.answers, self.asked = list(answers), list[str]()

    def _answer(self, question: str) -> None:
        self.asked.append(question)
        code = self.answers.pop(0) if self.answers else None
        if code is not None:
            raise KafkaException(KafkaError(code))

    def list_topics(self, timeout: float) -> None:
        """Of all: asked for one by name, a broker may make it."""
        self._answer("topics")

    def describe_topics(self, wanted: Any, **more: Any) -> dict[str, Any]:
        return {"t": self._told("topic", SimpleNamespace(partitions=[0, 1]))}

    def list_offsets(self, wanted: dict[TopicPartition, OffsetSpec], **more: Any) -> dict[TopicPartition, Any]:
        told = self._told("offsets", None)
        return {place: told if told.exception() else _told(10 + place.partition) for place in wanted}

    def _told(self, question: str, answer: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            self._answer(question)
            future.set_result(answer)
        except KafkaException as failure:
            future.set_exception(failure)
        return future


def _told(offset: int) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_result(SimpleNamespace(offset=offset))
    return future


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_admin, "PAUSE_S", 0.001)
    monkeypatch.setattr(kafka_admin, "PAUSE_MAX_S", 0.01)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_admin, "SECONDS", 0.5)
    monkeypatch.setattr(kafka_admin, "HEARD_OF_S", 0.2)


@pytest.mark.parametrize(
    "answers",
    [
        pytest.param((), id="at once"),
        pytest.param((AWAY, AWAY), id="away for a moment"),
        pytest.param((UNKNOWN, None, UNKNOWN, None), id="not heard of for a moment"),
        pytest.param((UNKNOWN, AWAY, AWAY), id="not heard of, and away when it is looked for"),
    ],
)
def test_what_passes_is_asked_again(answers: tuple[int | None, ...]) -> None:
    broker: Any = Broker(*answers)
    assert list(offsets_of(broker, PLACES, OffsetSpec.latest()).values()) == [10, 11]


@pytest.mark.parametrize("answers", [(), (UNKNOWN, UNKNOWN)])
def test_a_topic_that_is_not_heard_of_for_a_moment_is_there(answers: tuple[int | None, ...]) -> None:
    broker: Any = Broker(*answers)
    assert partitions_of(broker, "t", "looking") == 2


# What `org.apache.kafka.common.protocol.Errors` of Kafka 4.3 calls retriable, of what clients of ours may be answered.
RETRIABLE = (
    "LEADER_NOT_AVAILABLE NOT_LEADER_FOR_PARTITION REQUEST_TIMED_OUT REPLICA_NOT_AVAILABLE NETWORK_EXCEPTION"
    " COORDINATOR_LOAD_IN_PROGRESS COORDINATOR_NOT_AVAILABLE NOT_COORDINATOR NOT_ENOUGH_REPLICAS"
    " NOT_ENOUGH_REPLICAS_AFTER_APPEND NOT_CONTROLLER CONCURRENT_TRANSACTIONS KAFKA_STORAGE_ERROR LISTENER_NOT_FOUND"
    " FENCED_LEADER_EPOCH UNKNOWN_LEADER_EPOCH OFFSET_NOT_AVAILABLE PREFERRED_LEADER_NOT_AVAILABLE"
    " ELIGIBLE_LEADERS_NOT_AVAILABLE THROTTLING_QUOTA_EXCEEDED"
)


@pytest.mark.parametrize("name", RETRIABLE.split())
def test_what_kafka_calls_retriable_passes(name: str) -> None:
    code = getattr(KafkaError, name)
    assert code not in FENCED
    assert isinstance(trouble(KafkaError(code), "looking"), Unreachable)
    broker: Any = Broker(code, code)
    assert list(offsets_of(broker, PLACES, OffsetSpec.latest()).values()) == [10, 11]


@pytest.mark.parametrize("name", ["TOPIC_AUTHORIZATION_FAILED", "_AUTHENTICATION", "UNKNOWN_TOPIC_OR_PART"])
def test_what_a_person_must_mend_does_not(name: str) -> None:
    assert isinstance(trouble(KafkaError(getattr(KafkaError, name)), "looking"), Refused)


@pytest.mark.parametrize("code", [UNKNOWN, KafkaError.FENCED_LEADER_EPOCH, KafkaError.NOT_LEADER_FOR_PARTITION])
def test_our_client_looks_again_for_what_it_does_not_know(code: int) -> None:
    """Such as the epoch of a leader that was elected meanwhile: it would ask with the old one for many minutes."""
    broker: Any = Broker(code)
    offsets_of(broker, PLACES, OffsetSpec.latest())
    assert broker.asked == ["offsets", "topics", "offsets"]


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(("code", "kind"), [(UNKNOWN, UnfitTopic), (AWAY, Unreachable)])
def test_what_stays_is_said(code: int, kind: type[Exception]) -> None:
    class Always(Broker):
        def _answer(self, question: str) -> None:
            raise KafkaException(KafkaError(code))

    always: Any = Always()
    with pytest.raises(kind, match="looking at the ends of topic t"):
        offsets_of(always, PLACES, OffsetSpec.latest())


@pytest.fixture
def silent() -> Iterator[str]:
    """A broker that takes connections and says nothing, as one that stands still."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.usefixtures("impatient")
def test_a_broker_that_says_nothing_is_one_that_does_not_answer(silent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("biclique.ports.kafka_log.SECONDS", 0.5)
    admin = AdminClient({"bootstrap.servers": silent, "log_level": 0})
    log = KafkaLog(KafkaSettings({"bootstrap.servers": silent}, "q"), Wire(PLAN), Outlets(PLAN.query))
    questions: list[Callable[[], object]] = [
        lambda: partitions_of(admin, "t", "looking"),
        lambda: offsets_of(admin, PLACES, OffsetSpec.latest()),
        lambda: log.bounds(Address(Topic.SHUFFLED, 0)),
        log.output_bytes_max,
    ]
    for question in questions:
        began = time.monotonic()
        with pytest.raises(Unreachable, match="Kafka does not answer while looking"):
            question()
        assert time.monotonic() - began < 10
