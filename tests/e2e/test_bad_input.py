"""What is refused when it is applied, and what goes wrong around a query: named in its condition within half a minute,
with the remedy, and gone when that was done."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra import processes
from infra.cluster import network
from infra.kafka_server import KafkaServer
from infra.redis_server import RedisServer
from tests.dataplane.query import KafkaQuery
from tests.e2e.kube import Kube
from tests.e2e.test_life_of_a_query import MANIFEST

Raw = dict[str, Any]
NAMED_S, MENDED_S = 30.0, 60.0
PASSWORD = "one-that-nobody-else-has"


@pytest.fixture
def manifest(kafka: KafkaServer, redis: RedisServer, tmp_path: Path) -> Callable[..., Raw]:
    """Of a query that could run, each with topics of its own."""
    template = MANIFEST.replace("REDIS", redis.url).replace("EXECUTORS", "0")

    def one(where: KafkaServer = kafka) -> Raw:
        return dict(yaml.safe_load(KafkaQuery(where, redis, tmp_path, template=template).manifest.read_text()))

    return one


@pytest.fixture
def locked_redis(cluster: Kube, tmp_path: Path) -> Iterator[RedisServer]:
    server = RedisServer(tmp_path / "locked", processes.free_port(), host=network.ADDRESS, password=PASSWORD)
    process = server.start()
    yield server
    processes.stop(process)


@pytest.fixture
def late_kafka(cluster: Kube, tmp_path: Path) -> KafkaServer:
    """With a query's topics; for now it is not there."""
    ports = processes.free_port(), processes.free_port()
    return KafkaServer(tmp_path / "late", *ports, advertised=network.ADDRESS, heap="256m")


@pytest.mark.parametrize(
    ("path", "value", "sentence"),
    [
        (("delivery",), "exactly-once", 'supported values: "exactlyOnce", "atLeastOnce"'),
        (("state", "redis", "url"), "redis://:secret@redis:6379/0", "put it into a Secret, and name that"),
    ],
    ids=["schema", "rule"],
)
def test_what_the_server_can_tell_is_refused_when_it_is_applied(
    kube: Kube, manifest: Callable[..., Raw], path: tuple[str, ...], value: str, sentence: str
) -> None:
    bad = manifest()
    block = bad["spec"]
    for key in path[:-1]:
        block = block[key]
    block[path[-1]] = value
    refused = kube.tried("apply", "--filename", "-", given=yaml.safe_dump(bad))
    assert refused.returncode != 0
    assert sentence in refused.stderr
    assert kube.objects("joinqueries") == []


# --- what goes wrong around a query ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Trouble:
    """`says`: parts of the condition's message, what is wrong and what to do. `mend`: does that."""

    kube: Kube
    manifest: Raw
    reason: str
    says: tuple[str, ...]
    mend: Callable[[], object]

    @property
    def name(self) -> str:
        return str(self.manifest["metadata"]["name"])

    def applied(self) -> None:
        self.kube.apply(yaml.safe_dump(self.manifest))

    def degraded(self) -> tuple[str, str, str]:
        return self.kube.condition(self.name, "Degraded")

    def conditions(self) -> dict[str, tuple[str, str, str]]:
        """All of one moment: which of several drivers is named may change from one to the next."""
        said = self.kube.object(f"joinquery/{self.name}").get("status", {}).get("conditions", ())
        found = {one["type"]: (one["status"], one["reason"], one["message"]) for one in said}
        return {"Degraded": ("", "", ""), **found}

    def until(self, status: str, reason: str, within_s: float) -> float:
        began = time.monotonic()
        while self.degraded()[:2] != (status, reason):
            assert time.monotonic() - began < within_s, f"{self.reason}: {self.degraded()}\n{self.kube.story()}"
            time.sleep(0.5)
        return time.monotonic() - began


def secret_missing(kube: Kube, manifest: Raw, redis: RedisServer) -> Trouble:
    manifest["spec"]["state"]["redis"] = {"url": redis.url, "secretRef": {"name": "of-redis"}}

    def mend() -> None:
        kube.said("create", "secret", "generic", "of-redis", f"--from-literal=password={PASSWORD}")

    return Trouble(kube, manifest, "SecretMissing", ("the Secret of-redis is missing: create it",), mend)


def kafka_away(kube: Kube, manifest: Raw, kafka: KafkaServer, started: Callable[[], object]) -> Trouble:
    says = (
        f"Kafka at {kafka.bootstrap} does not answer (",
        "Connection refused",
        "once it answers, or with a corrected",
    )
    return Trouble(kube, manifest, "DriverWaits", says, started)


def image_not_there(kube: Kube, manifest: Raw) -> Trouble:
    tiers = manifest["spec"]["tiers"]
    tiers["image"] = "localhost/nobody-made-it:none"

    def mend() -> None:
        del tiers["image"]
        kube.apply(yaml.safe_dump(manifest))

    says = ("the image localhost/nobody-made-it:none cannot be pulled: correct its name",)
    return Trouble(kube, manifest, "ImageNotFound", says, mend)


def node_too_small(kube: Kube, manifest: Raw) -> Trouble:
    spec = manifest["spec"]
    kept = spec["joiners"]["memory"]
    spec["tiers"]["memory"] = spec["joiners"]["memory"] = "900Gi"

    def mend() -> None:
        del spec["tiers"]["memory"]
        spec["joiners"]["memory"] = kept
        kube.apply(yaml.safe_dump(manifest))

    says = ("finds no node (0/1 nodes are available: 1 Insufficient memory", "make room on a node, or ask for less")
    return Trouble(kube, manifest, "Unschedulable", says, mend)


def quota_exceeded(kube: Kube, manifest: Raw) -> Trouble:
    kube.said("create", "quota", "of-the-poor", "--hard=pods=0")

    def mend() -> None:
        kube.said("patch", "quota", "of-the-poor", "--type=merge", "--patch", '{"spec": {"hard": {"pods": "20"}}}')

    return Trouble(kube, manifest, "QuotaExceeded", ("exceeded quota: of-the-poor", "raise the quota"), mend)


def test_what_goes_wrong_is_named_with_its_remedy_until_that_is_done(
    kube: Kube,
    cluster: Kube,
    manifest: Callable[..., Raw],
    locked_redis: RedisServer,
    late_kafka: KafkaServer,
) -> None:
    brokers = [late_kafka.start()]
    of_late_kafka = manifest(late_kafka)
    processes.stop(brokers[0])
    with cluster.in_its_own() as poor:
        troubles = (
            # Nobody tells when these pass, and the operator and the kubelet ask more rarely the longer they stand: the
            # latter after one minute not again for another one. They are mended first.
            quota_exceeded(poor, manifest()),
            secret_missing(kube, manifest(), locked_redis),
            kafka_away(kube, of_late_kafka, late_kafka, lambda: brokers.append(late_kafka.start())),
            image_not_there(kube, manifest()),
            node_too_small(kube, manifest()),
        )
        took: dict[str, tuple[float, float]] = {}
        try:
            began: dict[str, float] = {}
            for trouble in troubles:
                began[trouble.reason] = time.monotonic()
                trouble.applied()
            while unnamed := [trouble for trouble in troubles if trouble.reason not in took]:
                for trouble in unnamed:
                    said, at = trouble.conditions(), time.monotonic() - began[trouble.reason]
                    if said["Degraded"][:2] == ("True", trouble.reason):
                        message = said["Degraded"][2]
                        assert all(part in message for part in trouble.says), message
                        assert said["Ready"] == ("False", trouble.reason, message)
                        took[trouble.reason] = at, 0.0
                    assert at <= NAMED_S, f"{trouble.reason}: {said}\n{trouble.kube.story()}"
            for trouble in troubles:
                trouble.mend()
                mended_s = trouble.until("False", "NothingAmiss", MENDED_S)
                took[trouble.reason] = took[trouble.reason][0], mended_s
                trouble.kube.said("delete", f"joinquery/{trouble.name}", "--wait=false")
            for trouble in troubles:
                trouble.kube.said("delete", f"joinquery/{trouble.name}", "--ignore-not-found", "--timeout=60s")
        finally:
            for broker in brokers:
                processes.stop(broker)
    for reason, (named_s, mended_s) in took.items():
        print(f"{reason}: named after {named_s:.0f} s at the latest, gone {mended_s:.0f} s after it was mended")
