"""One query and all that a person does to it, while rows flow: its operator away and back as another release, suspended
and resumed, paused, changed, changed to what state cannot follow, and deleted when neither Kafka nor Redis is there.
What is read from Kafka is what the oracle says, each pair once; and what it tells of itself arrives at a collector."""

from __future__ import annotations

import secrets
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra import processes
from infra.cluster import network
from infra.collector import CollectedSpan, Collector
from infra.jars import BROKER, jars_of
from infra.kafka_server import KafkaServer
from infra.redis_server import RedisServer
from tests.dataplane.query import BICLIQUE, KafkaQuery
from tests.e2e.conftest import install
from tests.e2e.flow import Flow
from tests.e2e.kube import Kube
from tests.e2e.leftovers import keys_of, not_swept, objects_of_queries
from tests.e2e.operators import DEPLOYMENT, operator_pods
from tests.e2e.test_life_of_a_query import MANIFEST

Raw = dict[str, Any]
READY_S, SUSPENDED_S, SAID_S, CAUGHT_UP_S = 240.0, 90.0, 60.0, 180.0
DELETED_S, SWEPT_S = 60.0, 60.0
TOLD = {("shuffler", "read"), ("dispatcher", "dispatch"), ("joiner", "join"), ("joiner", "store"), ("joiner", "probe")}
JOINED = {("join", "0L0.0"), ("join", "0R0.0")}  # one unit keeps the row, and one is probed by it


@dataclass
class Servers:
    """Of this test alone, since it takes them away."""

    kafka: KafkaServer
    redis: RedisServer
    broker: subprocess.Popen[bytes]
    store: subprocess.Popen[bytes]

    def go(self) -> None:
        """Kafka ends; Redis, which would forget all, answers nobody."""
        processes.stop(self.broker)
        self.store.send_signal(signal.SIGSTOP)

    def come_back(self) -> None:
        self.store.send_signal(signal.SIGCONT)
        self.broker = self.kafka.start()


@pytest.fixture
def servers(cluster: Kube, tmp_path: Path) -> Iterator[Servers]:
    jars_of(BROKER)
    ports = [processes.free_port() for _ in range(3)]
    kafka = KafkaServer(tmp_path / "kafka", ports[0], ports[1], advertised=network.ADDRESS)
    redis = RedisServer(tmp_path / "redis", ports[2], host=network.ADDRESS)
    found = Servers(kafka, redis, kafka.start(), redis.start())
    yield found
    processes.stop(found.broker)
    processes.stop(found.store)


@pytest.fixture
def collector(cluster: Kube) -> Iterator[Collector]:
    found = Collector(network.ADDRESS).start()
    yield found
    found.stop()


@dataclass
class Life:
    """The query, as its user sees it."""

    kube: Kube
    query: KafkaQuery
    flow: Flow
    manifest: Raw

    @property
    def name(self) -> str:
        return self.query.name

    def apply(self) -> None:
        self.kube.apply(yaml.safe_dump(self.manifest))

    def annotate(self, annotation: str) -> None:
        self.kube.said("annotate", f"joinquery/{self.name}", annotation)

    def is_said(self, kind: str, status: str, reason: str) -> bool:
        """Of the manifest as it stands."""
        found = self.kube.object(f"joinquery/{self.name}")
        told = {one["type"]: one for one in found.get("status", {}).get("conditions", ())}.get(kind, {})
        now = told.get("observedGeneration") == found["metadata"]["generation"]
        return now and (told["status"], told["reason"]) == (status, reason)

    def until_said(self, kind: str, status: str, reason: str, within_s: float) -> float:
        return self.flow.until(lambda: self.is_said(kind, status, reason), within_s, self.kube.story)

    def drivers(self) -> dict[str, str]:
        """Those that run: the tier or the subgroup, and which pod it is."""
        pods = self.kube.objects("pods", "--selector=biclique.dev/role=driver", "--field-selector=status.phase=Running")
        labels = {pod["metadata"]["uid"]: pod["metadata"]["labels"] for pod in pods}
        return {
            told.get("biclique.dev/subgroup", told["app.kubernetes.io/component"]): uid for uid, told in labels.items()
        }

    def owned(self) -> dict[str, str]:
        """All that the operator made of it: its pods, and of what nobody else writes to the version."""
        mine = "--selector=app.kubernetes.io/name=biclique"
        found = self.kube.objects("configmaps,services,serviceaccounts,roles,rolebindings,networkpolicies", mine)
        kinds = {f"{one['kind']}/{one['metadata']['name']}": one["metadata"]["resourceVersion"] for one in found}
        return {name: version for name, version in kinds.items() if not name.endswith("-routing")} | self.drivers()


@pytest.fixture
def life(kube: Kube, servers: Servers, tmp_path: Path) -> Life:
    template = MANIFEST.replace("REDIS", servers.redis.url).replace("EXECUTORS", "0")
    query = KafkaQuery(servers.kafka, servers.redis, tmp_path, template=template)
    return Life(kube, query, Flow(query, seed=23), yaml.safe_load(query.manifest.read_text()))


def test_all_that_a_person_does_to_a_query_while_rows_flow(
    life: Life, servers: Servers, operator: Kube, collector: Collector
) -> None:
    life.apply()
    took = {"ready": life.until_said("Ready", "True", "Running", READY_S)}
    its_operator_goes_and_comes_back_as_another_release(life, operator, collector)
    try:
        took |= is_suspended_and_resumed(life)
        took |= is_changed_but_not_while_reconciliation_is_paused(life)
        what_cannot_be_followed_touches_nothing(life)
        is_followed_through_every_tier(life, collector)
        its_reconciles_are_told(life, collector)
        wanted = life.flow.wanted
        found = life.query.results(wanted.total(), CAUGHT_UP_S)
        assert found == wanted, life.kube.story()
        took |= is_deleted_with_kafka_and_redis_gone(life, servers)
    finally:
        install(operator)
    print({what: round(seconds) for what, seconds in took.items()}, f"{wanted.total():,} pairs")


def its_operator_goes_and_comes_back_as_another_release(life: Life, operator: Kube, collector: Collector) -> None:
    """Data flows on, and nothing that runs is touched."""
    before = life.drivers()
    operator.said("scale", DEPLOYMENT, "--replicas=0")
    life.flow.until(lambda: not operator_pods(operator), SAID_S, operator.story)
    life.flow.rows(500)
    wanted = life.flow.wanted
    assert life.query.results(wanted.total(), CAUGHT_UP_S) == wanted, life.kube.story()
    install(operator, f"telemetry.otlpEndpoint={collector.endpoint}")
    life.until_said("Ready", "True", "Running", SAID_S)
    life.flow.over(5)
    assert life.drivers() == before


def is_suspended_and_resumed(life: Life) -> dict[str, float]:
    """What is stored is kept: what comes later finds the partners that came before."""
    before = life.drivers()
    life.manifest["spec"]["suspend"] = True
    life.apply()
    suspended_s = life.until_said("Suspended", "True", "Suspended", SUSPENDED_S)
    assert life.drivers() == {}
    life.flow.rows(500)
    life.manifest["spec"]["suspend"] = False
    life.apply()
    resumed_s = life.until_said("Ready", "True", "Running", READY_S)
    assert not set(before.values()) & set(life.drivers().values())
    return {"suspended": suspended_s, "resumed": resumed_s}


def is_changed_but_not_while_reconciliation_is_paused(life: Life) -> dict[str, float]:
    """A change of the dispatchers' memory rolls the dispatchers, and nothing else."""
    before = life.drivers()
    life.annotate("biclique.dev/reconcile=paused")
    life.manifest["spec"]["tiers"]["dispatcher"] = {"memory": "1408Mi"}
    life.apply()
    life.until_said("Progressing", "False", "ReconciliationPaused", SAID_S)
    life.flow.over(5)
    assert life.drivers() == before
    life.annotate("biclique.dev/reconcile-")
    began = time.monotonic()
    life.flow.until(lambda: life.drivers().get("dispatcher") not in (before["dispatcher"], None), 90, life.kube.story)
    life.until_said("Progressing", "False", "Stable", READY_S)
    life.until_said("Ready", "True", "Running", SAID_S)
    after = life.drivers()
    assert {name for name, uid in after.items() if before[name] != uid} == {"dispatcher"}
    return {"rolled": time.monotonic() - began}


def what_cannot_be_followed_touches_nothing(life: Life) -> None:
    """Refused by the server, by the operator as another query, and by `biclique validate`."""
    spec, before = life.manifest["spec"], life.owned()
    good = spec["sql"]
    refused = life.kube.tried(
        "patch", f"joinquery/{life.name}", "--type=merge", "--patch", '{"spec": {"topics": {"partitions": 3}}}'
    )
    assert refused.returncode != 0
    assert "spec.topics.partitions has changed since this query began" in refused.stderr
    spec["sql"] = good.replace("r.k = s.k", "r.k = s.k AND r.v < s.v")
    life.apply()
    life.until_said("Degraded", "True", "ChangeRefused", SAID_S)
    assert "restore it, or give the query a new name" in life.kube.condition(life.name, "Degraded")[2]
    spec["sql"] = good.replace("s.v AS sv", "s.w AS sv")
    life.apply()
    life.until_said("Degraded", "True", "InvalidManifest", SAID_S)
    assert life.kube.condition(life.name, "Degraded")[2] in validated(life), life.kube.story()
    life.flow.over(3)
    assert life.owned() == before
    spec["sql"] = good
    life.apply()
    life.until_said("Degraded", "False", "NothingAmiss", SAID_S)
    assert life.owned() == before


def validated(life: Life) -> str:
    """What `biclique validate` says of the manifest."""
    path = life.query.folder / "validated.yaml"
    path.write_text(yaml.safe_dump(life.manifest))
    done = subprocess.run([BICLIQUE, "validate", path], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2, done.stdout
    return done.stderr


def is_followed_through_every_tier(life: Life, collector: Collector) -> None:
    """One row, as whoever produces it and traces himself does it, and the spans that came of it: each tier's, and of
    whom they are."""
    trace = secrets.token_hex(16)
    key = 1_000_000  # nobody else's
    followed: dict[str, str | bytes | None] = {"traceparent": f"00-{trace}-{secrets.token_hex(8)}-01"}
    life.flow.row("s", key)
    life.flow.row("r", key, followed)
    found: list[CollectedSpan] = []

    def arrived() -> bool:
        found[:] = [span for span in collector.spans if span.trace == trace]
        who = {(span.resource["biclique.tier"], span.name, span.resource["biclique.unit"]) for span in found}
        return {(tier, name) for tier, name, _ in who} >= TOLD and {one[1:] for one in who} >= JOINED

    life.flow.until(arrived, SAID_S, lambda: f"{[span.name for span in found]}\n{life.kube.story()}")
    pods = {pod["metadata"]["name"] for pod in life.kube.objects("pods", "--selector=biclique.dev/role=driver")}
    for span in found:
        about = span.resource
        assert about["biclique.query"] == life.name, span
        assert about["k8s.namespace.name"] == life.kube.namespace, span
        assert about["k8s.pod.name"] in pods and about["biclique.tier"] in about["k8s.pod.name"], span
        assert about["biclique.unit"], span


def its_reconciles_are_told(life: Life, collector: Collector) -> None:
    """Each linked to its generation, with what it changed inside."""
    mine = [span for span in collector.spans if span.attributes.get("biclique.query") == life.name]
    generations = {span.span: span for span in mine if span.name.startswith("generation ")}
    reconciles = [span for span in mine if span.name == "reconcile"]
    assert generations and reconciles
    linked = [(generations[link], span) for span in reconciles for link in span.links if link in generations]
    for generation, span in linked:
        assert generation.name == f"generation {span.attributes['biclique.query.generation']} of {life.name}"
    assert {generation.name for generation, _ in linked} == {span.name for span in generations.values()}
    inside = {span.name for span in collector.spans if span.parent in {one.span for one in reconciles}}
    assert {"create Pod", "remove Pod", "apply ConfigMap", "status JoinQuery"} <= inside
    assert {span.resource["service.name"] for span in reconciles} == {"biclique-operator"}


def is_deleted_with_kafka_and_redis_gone(life: Life, servers: Servers) -> dict[str, float]:
    """Within a minute, pods and all; and when both are back, what it left there goes, and nothing else."""
    prefix = life.kube.object(f"joinquery/{life.name}")["status"]["id"]
    assert keys_of(servers.redis.url, prefix), "what is stored has been kept"
    del life.query.producer  # it would say twice a second who is gone
    servers.go()
    began = time.monotonic()
    life.kube.said("delete", f"joinquery/{life.name}", f"--timeout={DELETED_S:.0f}s")
    while objects_of_queries(life.kube):
        assert time.monotonic() - began < DELETED_S, life.kube.story()
        time.sleep(0.5)
    deleted_s = time.monotonic() - began
    servers.come_back()
    began = time.monotonic()
    while left := not_swept(servers.kafka.bootstrap, servers.redis.url, life.name, prefix):
        assert time.monotonic() - began < SWEPT_S, left
        time.sleep(1)
    return {"deleted": deleted_s, "swept": time.monotonic() - began}
