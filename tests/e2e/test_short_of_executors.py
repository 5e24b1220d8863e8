"""Executors that cannot begin are Spark's affair, which tells nobody: here a person is told why, and what to do, and
the query goes on by itself when it is done."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from infra.kafka_server import KafkaServer
from infra.redis_server import RedisServer
from tests.dataplane.query import KafkaQuery
from tests.e2e.kube import Kube
from tests.e2e.test_life_of_a_query import MANIFEST, READY_S

DRIVERS = 4
NAMED_S, BEGINS_S = 30, 90
QUOTA = """\
apiVersion: v1
kind: ResourceQuota
metadata: {{name: few}}
spec: {{hard: {{pods: "{count}"}}}}
"""


@pytest.fixture
def query(kafka: KafkaServer, redis: RedisServer, tmp_path: Path) -> KafkaQuery:
    template = MANIFEST.replace("REDIS", redis.url).replace("EXECUTORS", "1")
    return KafkaQuery(kafka, redis, tmp_path, template=template)


def named(kube: Kube, query: KafkaQuery, reason: str, within_s: float) -> str:
    """What is said of it."""
    deadline = time.monotonic() + within_s
    while (said := kube.condition(query.name, "Degraded"))[1] != reason:
        assert time.monotonic() < deadline, f"{said}\n{kube.story()}"
        time.sleep(1)
    return said[2]


def runs(kube: Kube, selector: str, count: int) -> None:
    deadline = time.monotonic() + BEGINS_S
    while len(kube.objects("pods", f"--selector={selector}", "--field-selector=status.phase=Running")) < count:
        assert time.monotonic() < deadline, kube.story()
        time.sleep(1)


def test_what_keeps_executors_from_beginning_is_named_until_it_is_mended(kube: Kube, query: KafkaQuery) -> None:
    kube.apply(QUOTA.format(count=DRIVERS))
    kube.apply(query.manifest.read_text().replace("memory: 512Mi", "memory: 900Gi"))
    runs(kube, "biclique.dev/role=driver", DRIVERS)
    said = named(kube, query, "QuotaExceeded", NAMED_S)
    assert said.startswith("an executor of ") and "exceeded quota: few" in said and "raise the quota" in said
    kube.apply(QUOTA.format(count=4 * DRIVERS))
    said = named(kube, query, "Unschedulable", BEGINS_S)
    assert "-exec-" in said and "Insufficient memory" in said and "ask for less memory" in said
    kube.apply(query.manifest.read_text())
    kube.wait(f"joinquery/{query.name}", "condition=Ready", 2 * READY_S[1])
    assert kube.condition(query.name, "Degraded")[0] == "False"
    kube.said("delete", f"joinquery/{query.name}", "--timeout=60s")
