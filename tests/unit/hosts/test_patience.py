"""What must be done before a tier runs: as long as Kafka is away, and not for ever where it fails."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, KafkaException

from biclique.hosts.units import patience
from biclique.hosts.units.patience import patiently
from biclique.ports.refusals import Refused, Unreachable


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "LOOK_S", 0.001)
    monkeypatch.setattr("biclique.hosts.units.restarts.Restarts._pause", lambda restarts, number: 0.002)


class Scripted:
    def __init__(self, *answers: Exception | None) -> None:
        self.answers, self.asked = list(answers), 0

    def __call__(self) -> None:
        answer = self.answers[min(self.asked, len(self.answers) - 1)]
        self.asked += 1
        if answer is not None:
            raise answer


BROKEN = KafkaException(KafkaError(KafkaError.UNKNOWN, "the server's own trouble"))


def test_what_is_away_is_waited_for_and_a_failure_passes() -> None:
    action = Scripted(*[Unreachable("away")] * 20, *[BROKEN] * 3, None)
    assert patiently(action, lambda: False) and action.asked == 24


def test_what_fails_again_and_again_is_one_sentence() -> None:
    """Where it was none of the troubles that are told apart, a tier ended with a traceback."""
    action = Scripted(BROKEN)
    with pytest.raises(Refused, match=r"Kafka has failed 9 times in a row \(the server's own trouble\): its own log"):
        patiently(action, lambda: False)
    assert action.asked == 9


def test_it_ends_when_it_is_to_stop() -> None:
    action = Scripted(Unreachable("away"))
    assert not patiently(action, lambda: action.asked >= 2)


def test_whoever_looks_reads_what_is_waited_for_and_the_remedy() -> None:
    told: list[str] = []
    assert patiently(Scripted(Unreachable("Kafka at a:1 does not answer"), None), lambda: False, told.append)
    assert told == [f"Kafka at a:1 does not answer; {patience.REMEDY}"]
