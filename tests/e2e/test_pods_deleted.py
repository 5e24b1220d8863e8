"""Pods are deleted one after the other while both sides flow: drivers and executors of every tier, and the operator, in
an order, at moments and in ways that a seed chooses. They come in volleys: within one nobody waits until the query has
recovered, and who is not there, since it or its driver has just been deleted, has its turn later; before the next one
results of what was made meanwhile have come. What is read in the end is what the oracle says, each pair once, and what
was late or no record is set aside."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from infra.kafka_server import KafkaServer
from infra.redis_server import RedisServer
from tests.chaos.stage import GROUPED
from tests.e2e.kube import Kube
from tests.e2e.under_fault import Kind, UnderFault, beside, running, seed

pytestmark = pytest.mark.long
DELETIONS, VOLLEY, ROWS = 20, 5, 100_000
OPERATOR: Kind = ("operator", "")
KINDS = (*((role, tier) for role in ("driver", "executor") for tier in GROUPED.tiers), OPERATOR)
WAYS = {"at once": ("--grace-period=0", "--force"), "within a second": ("--now",), "with its grace": ()}
EXECUTORS = 5  # shuffler, dispatchers, mergers, and one for each of the two joiner units
THERE_S = 240.0  # within which a pod of a kind that is due is there again


@dataclass(frozen=True)
class Deletion:
    """`after_s`: how long nothing strikes before."""

    kind: Kind
    way: str
    after_s: float

    @property
    def victim(self) -> str:
        return " of the ".join(filter(None, self.kind))


def deletions() -> list[Deletion]:
    """Every kind once, others at random, in any order; every way as often as the others."""
    rng = random.Random(f"{seed()}/deletions")
    kinds = [*KINDS, *rng.choices(KINDS, k=DELETIONS - len(KINDS))]
    ways = [list(WAYS)[number % len(WAYS)] for number in range(DELETIONS)]
    rng.shuffle(kinds)
    rng.shuffle(ways)
    return [Deletion(kind, way, rng.uniform(0.5, 4)) for kind, way in zip(kinds, ways, strict=True)]


@pytest.fixture
def query(kube: Kube, kafka: KafkaServer, redis: RedisServer) -> Iterator[UnderFault]:
    made = UnderFault(kube, beside(kafka, redis), GROUPED, executors=1)
    yield made
    made.close()


def test_pods_of_every_kind_are_deleted(query: UnderFault, operator: Kube, capsys: pytest.CaptureFixture[str]) -> None:
    query.begin()
    deadline = time.monotonic() + THERE_S
    while executors_of(query) != EXECUTORS:  # a driver may be ready before its executor is
        assert time.monotonic() < deadline, query.kube.story()
        time.sleep(0.5)
    rng, due = random.Random(f"{seed()}/victims"), deletions()
    while due:
        time.sleep(due[0].after_s)
        deletion, pods = first_there(query, operator, due)
        before, began = query.place(), time.monotonic()
        kube = operator if deletion.kind == OPERATOR else query.kube
        if kube.said("delete", "pod", rng.choice(pods), "--wait=false", "--ignore-not-found", *WAYS[deletion.way]):
            due.remove(deletion)
            query.is_over(f"deleted {deletion.way}", deletion.victim, before, time.monotonic() - began, [])
            if len(due) % VOLLEY == 0:
                query.recovers()
    query.flows_to(ROWS)
    query.recovers()
    judged = query.judged()
    assert len(query.struck) == DELETIONS
    with capsys.disabled():
        print(query.told(judged))


def executors_of(query: UnderFault) -> int:
    return sum(len(names) for (role, _), names in query.pods().items() if role == "executor")


def first_there(query: UnderFault, operator: Kube, due: list[Deletion]) -> tuple[Deletion, list[str]]:
    """The first of which there are pods, and they."""
    deadline = time.monotonic() + THERE_S
    while time.monotonic() < deadline:
        pods = query.pods()
        pods[OPERATOR] = [
            pod["metadata"]["name"] for pod in running(operator, "app.kubernetes.io/name=biclique-operator")
        ]
        for deletion in due:
            if found := pods.get(deletion.kind):
                return deletion, sorted(found)
        time.sleep(0.5)
    raise AssertionError(f"nothing is there of {due}\n{query.kube.story()}")
