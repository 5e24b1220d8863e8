"""How a commit ends, by what the client says to it: scripted at the wire, since a broker says most of it rarely."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from biclique.ports.kafka_log import KafkaClient, KafkaLog, KafkaSettings
from biclique.ports.refusals import Refused, UnfitTopic, Unreachable
from biclique.ports.wire import Wire
from biclique.tiers.effects import Commit, Outcome
from biclique.tiers.messages import Producer
from biclique.tiers.progress import JoinerProgress
from tests.unit.tiers.building import plan

UNIT = Producer("joiner", "0L0.0")
COMMIT = Commit(UNIT, UNIT, (), JoinerProgress(1, 1))


class Wired:
    """A producer; each step of a transaction goes well unless it is told otherwise."""

    def __init__(self) -> None:
        self.fails: dict[str, int | Exception] = {}
        self.steps: list[str] = []

    def __call__(self, settings: Mapping[str, Any]) -> Wired:
        return self

    def __getattr__(self, step: str) -> Any:
        def taken(*given: Any, **more: Any) -> None:
            self.steps.append(step)
            failure = self.fails.get(step)
            if failure is not None:
                raise KafkaException(KafkaError(failure)) if isinstance(failure, int) else failure

        return taken


@pytest.fixture
def producer(monkeypatch: pytest.MonkeyPatch) -> Wired:
    made = Wired()
    monkeypatch.setattr("biclique.ports.kafka_log.KafkaProducer", made)
    return made


def fenced() -> KafkaClient:
    client = KafkaLog(KafkaSettings({}, "q"), Wire(plan("SELECT r.v FROM r JOIN s ON r.k = s.k"))).client()
    client.fence(UNIT)
    return client


@pytest.mark.parametrize(("code", "may_pass"), [(KafkaError._TIMED_OUT, True), (KafkaError.POLICY_VIOLATION, False)])
def test_why_an_outcome_is_not_known_is_said(producer: Wired, code: int, may_pass: bool) -> None:
    client = fenced()
    producer.fails = {"commit_transaction": code}
    assert client.commit(COMMIT) is Outcome.UNKNOWN
    assert client.undecided is not None and client.undecided.may_pass is may_pass
    assert KafkaError(code).str() in str(client.undecided)


def test_a_clock_that_is_ahead_is_named(producer: Wired) -> None:
    client = fenced()
    producer.fails = {"commit_transaction": KafkaError.INVALID_TIMESTAMP}
    with pytest.raises(Unreachable, match="the clock of this machine is ahead"):
        client.commit(COMMIT)
    assert producer.steps[-1] == "abort_transaction"


@pytest.mark.parametrize("step", ["begin_transaction", "produce", "commit_transaction"])
@pytest.mark.parametrize(
    ("code", "outcome"),
    [
        (KafkaError._FENCED, Outcome.FENCED),
        (KafkaError.INVALID_PRODUCER_EPOCH, Outcome.FENCED),
        (KafkaError._TIMED_OUT, Outcome.UNKNOWN),
        (KafkaError._STATE, Outcome.UNKNOWN),
        (KafkaError.INVALID_PRODUCER_ID_MAPPING, Outcome.UNKNOWN),
    ],
)
def test_after_any_failure_there_is_no_producer_until_the_next_fence(
    producer: Wired, step: str, code: int, outcome: Outcome
) -> None:
    client = fenced()
    producer.fails = {step: code}
    assert client.commit(COMMIT) is outcome
    producer.fails, producer.steps = {}, []
    assert client.commit(COMMIT) is outcome, "and again"
    assert producer.steps == []
    client.fence(UNIT)
    assert client.commit(COMMIT) is Outcome.COMMITTED


@pytest.mark.parametrize(
    ("code", "kind", "sentence"),
    [
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, Refused, r"does not allow writing to q\.\* \(.*\): grant"),
        (KafkaError.INVALID_RECORD, UnfitTopic, r"topic q refuses our records"),
        (
            KafkaError.UNKNOWN_TOPIC_OR_PART,
            Unreachable,
            r"does not know every topic of q\.\* \(.*\): create what is missing",
        ),
        (KafkaError._UNKNOWN_TOPIC, Unreachable, r"does not know every topic of q\.\*"),
    ],
)
def test_what_holds_up_readers_for_nothing_is_ended_at_once(
    producer: Wired, code: int, kind: type[Exception], sentence: str
) -> None:
    client = fenced()
    producer.fails = {"commit_transaction": code, "abort_transaction": KafkaError._STATE}
    with pytest.raises(kind, match=sentence):
        client.commit(COMMIT)
    assert producer.steps[-2:] == ["commit_transaction", "abort_transaction"]


def test_a_record_that_cannot_be_sent_leaves_no_transaction_open(producer: Wired) -> None:
    client = fenced()
    producer.fails = {"produce": ValueError("of ours")}
    with pytest.raises(ValueError, match="of ours"):
        client.commit(COMMIT)
    assert producer.steps[-2:] == ["produce", "abort_transaction"]
    assert client.commit(COMMIT) is Outcome.UNKNOWN
