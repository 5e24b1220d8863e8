"""A driver of each tier is killed while both sides flow, and the operator that leads with one of them: each is back by
itself, what stood by leads and acts, and what is read from Kafka is what the oracle says, each pair once."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from infra.kafka_server import KafkaServer
from infra.redis_server import RedisServer
from tests.dataplane.query import KafkaQuery
from tests.e2e.conftest import install
from tests.e2e.flow import Flow
from tests.e2e.infrastructure import Kubelet
from tests.e2e.kube import Kube
from tests.e2e.operators import leader, leading_pod
from tests.e2e.test_life_of_a_query import MANIFEST

TIERS = ("shuffler", "dispatcher", "joiner")
DRIVER = "biclique.dev/role=driver,app.kubernetes.io/component={}"
READY_S, CAUGHT_UP_S, TAKEN_OVER_S = 240, 240, 20


@pytest.fixture
def query(kafka: KafkaServer, redis: RedisServer, tmp_path: Path) -> KafkaQuery:
    template = MANIFEST.replace("REDIS", redis.url).replace("EXECUTORS", "0")
    return KafkaQuery(kafka, redis, tmp_path, template=template)


def killed(kube: Kube, selector: str) -> None:
    kube.said("delete", "pods", f"--selector={selector}", "--grace-period=0", "--force")


def the_one_that_leads_is_killed(kube: Kube, operator: Kube, node: Kubelet | None) -> dict[str, float]:
    """Where its node is ours there, and its pod taken away at once, as when a node is lost: it lets go of nothing.
    Joiners that are killed with it are begun again by whoever leads next. The seconds from the kill to both."""
    pod = leading_pod(operator)
    before, holder = joiners_of(kube), leader(operator)
    took: dict[str, float] = {}
    began = time.monotonic()
    if node is not None:
        node.kill_what_runs(pod["metadata"]["uid"])
    operator.said("delete", "pod", pod["metadata"]["name"], "--grace-period=0", "--force", "--wait=false")
    killed(kube, DRIVER.format("joiner"))
    while len(took) < 2:
        assert time.monotonic() - began < 2 * TAKEN_OVER_S, f"{took}\n{operator.story()}"
        if "leads" not in took and leader(operator) not in ("", holder):
            took["leads"] = time.monotonic() - began
        if "acts" not in took and joiners_of(kube) - before:
            took["acts"] = time.monotonic() - began
    assert max(took.values()) < TAKEN_OVER_S, took
    return took


def joiners_of(kube: Kube) -> set[str]:
    return {pod["metadata"]["name"] for pod in kube.objects("pods", f"--selector={DRIVER.format('joiner')}")}


def test_every_pair_once_while_each_driver_is_killed(
    kube: Kube, operator: Kube, own_kubelet: Kubelet | None, query: KafkaQuery
) -> None:
    flow = Flow(query, seed=11, keys_max=10_000)
    kube.apply(query.manifest.read_text())
    kube.wait(f"joinquery/{query.name}", "condition=Ready", READY_S)
    flow.rows(2_000)
    for tier in TIERS:
        killed(kube, DRIVER.format(tier))
        flow.rows(2_000)
    install(operator, "replicas=2")
    try:
        told = the_one_that_leads_is_killed(kube, operator, own_kubelet)
    finally:
        install(operator)
    flow.rows(2_000)
    wanted = flow.wanted
    found = query.results(wanted.total(), CAUGHT_UP_S)
    assert found == wanted, kube.story()
    kube.wait(f"joinquery/{query.name}", "condition=Ready", READY_S)
    attempts = {pod["metadata"]["name"] for pod in kube.objects("pods", "--selector=biclique.dev/role=driver")}
    assert all(not name.endswith("-1") for name in attempts), f"each is a later attempt: {attempts}"
    kube.said("delete", f"joinquery/{query.name}", "--timeout=60s")
    print("of those that stood by, behind the kill:", {what: f"{seconds:.1f} s" for what, seconds in told.items()})
