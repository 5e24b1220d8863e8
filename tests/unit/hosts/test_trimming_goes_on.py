"""Whatever Kafka says to a look at what may be trimmed, the next look comes."""

from __future__ import annotations

import logging
import socket
import threading
from typing import cast

import pytest
from confluent_kafka import KafkaError, KafkaException

from biclique.hosts.units.trimming import Keep, Trimming, keep_trimming
from biclique.ports.kafka_log import KafkaLog, KafkaSettings
from biclique.ports.memory import MemoryLog
from biclique.ports.refusals import Refused, Unreachable
from biclique.ports.wire import Wire
from biclique.tiers.effects import Commit, Outcome
from biclique.tiers.messages import Address, Producer, Topic
from biclique.tiers.progress import TrimProgress
from biclique.tiers.trimming import trimmer_of
from tests.unit.tiers.building import plan

PLAN = plan("SELECT r.k FROM r JOIN s ON r.k = s.k")
TROUBLES = [KafkaException(KafkaError(KafkaError.FENCED_LEADER_EPOCH)), Unreachable("away"), Refused("no right")]


class Troubled(Trimming):
    """Its first looks come to nothing."""

    def __init__(self, ended: threading.Event) -> None:
        super().__init__(PLAN, "dispatcher", "driver", _log(), list, frozenset)
        self.troubles, self.ended, self.closed = list(TROUBLES), ended, False

    def look(self) -> list[Keep]:
        if self.troubles:
            raise self.troubles.pop()
        self.ended.set()
        return [Keep(Address(Topic.SHUFFLED, 0), 7, "not taken yet", 3)]

    def close(self) -> None:
        self.closed = True


def _log() -> KafkaLog:
    return cast(KafkaLog, MemoryLog())


def test_trimming_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    ended = threading.Event()
    trimming = Troubled(ended)
    with caplog.at_level(logging.INFO):
        keep_trimming(trimming, ended, every_s=0.0)
    told = [record.__dict__["event"] for record in caplog.records]
    assert told == ["log.untrimmed"] * len(TROUBLES) + ["log.trimmed"]
    assert trimming.closed


def test_a_kafka_that_says_nothing_is_said_once_and_asked_again(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("biclique.ports.kafka_log.SECONDS", 0.2)
    ended = AfterLooks(3)
    with socket.create_server(("127.0.0.1", 0)) as server, caplog.at_level(logging.WARNING):
        silent = KafkaSettings({"bootstrap.servers": f"127.0.0.1:{server.getsockname()[1]}"}, "q")
        log = KafkaLog(silent, Wire(PLAN))
        keep_trimming(Trimming(PLAN, "dispatcher", "driver dispatcher", log, list, frozenset), ended)
    assert [record.getMessage().partition(" (")[0] for record in caplog.records] == [
        "logs are not trimmed: Kafka does not answer while taking over from an older trimmer driver dispatcher"
    ]


def test_it_takes_over_before_its_first_look() -> None:
    log, ended, me = MemoryLog(), AfterLooks(1), Producer("trimmer", "driver")
    before = log.client()
    before.fence(me)
    keep_trimming(InMemory(PLAN, "dispatcher", "driver", cast(KafkaLog, log), list, frozenset), ended)
    assert before.commit(Commit(me, trimmer_of(Address(Topic.SHUFFLED, 0)), (), TrimProgress(3))) is Outcome.FENCED


class InMemory(Trimming):
    def close(self) -> None:
        """Its client has nothing to close."""


class AfterLooks(threading.Event):
    """Set when it has been waited for more often."""

    def __init__(self, looks: int) -> None:
        super().__init__()
        self.looks = looks

    def wait(self, timeout: float | None = None) -> bool:
        self.looks -= 1
        return self.looks < 0
