"""Kafka's pod is killed, and Redis' with all that it holds, while 100,000 rows a side flow, and after that the joiners
that would have gone on from there: what is read is what the oracle says, each pair once, and what was late or no record
is set aside, each once, too.

Kafka is the chart's, with a claim, so that its log outlives its pod, as every Kafka's does; Redis keeps nothing.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.stage import PAIRS
from tests.e2e.conftest import CHART
from tests.e2e.forwarding import forwarded
from tests.e2e.infrastructure import Kubelet
from tests.e2e.kube import Kube
from tests.e2e.test_pods_killed import DRIVER, killed
from tests.e2e.under_fault import Servers, UnderFault

pytestmark = pytest.mark.long
USER = 185
INSTANCE, RELEASE = "tries", "tries-biclique"
SERVER = "app.kubernetes.io/name=biclique-{}"
ROWS, RATE = 100_000, 1_500  # of a side; a second and side
QUIET_S, UP_S = 5.0, 120
CLAIM = """\
apiVersion: v1
kind: PersistentVolume
metadata: {{name: {namespace}}}
spec:
  capacity: {{storage: 1Gi}}
  accessModes: [ReadWriteOnce]
  storageClassName: ""
  persistentVolumeReclaimPolicy: Retain
  claimRef: {{namespace: {namespace}, name: kafka}}
  hostPath: {{path: {folder}}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {{name: kafka}}
spec:
  accessModes: [ReadWriteOnce]
  storageClassName: ""
  volumeName: {namespace}
  resources: {{requests: {{storage: 1Gi}}}}
"""


@pytest.fixture
def volume(kube: Kube, own_kubelet: Kubelet | None, tmp_path: Path) -> Iterator[Path]:
    if own_kubelet is None:
        pytest.skip("needs a node whose folders are this machine's")
    folder = tmp_path / "kafka"
    folder.mkdir()
    os.chown(folder, USER, USER)
    kube.apply(CLAIM.format(namespace=kube.namespace, folder=folder))
    yield folder
    kube.said("delete", "persistentvolume", kube.namespace, "--wait=false")


@pytest.fixture
def servers(kube: Kube, volume: Path) -> Iterator[str]:
    """Kafka and Redis by the chart, without another operator."""
    given = {
        "replicas": 0,
        "crds.install": "false",
        "rbac.create": "false",
        "tryout.kafka.enabled": "true",
        "tryout.redis.enabled": "true",
        "tryout.kafka.claim": "kafka",
    }
    told = [f"--set={key}={value}" for key, value in given.items()]
    done = kube.tried("install", INSTANCE, str(CHART), "--wait", *told, program="helm", limit_s=UP_S)
    assert done.returncode == 0, f"{done.stderr}\n{kube.story()}"
    with forwarded(kube, f"deployment/{RELEASE}-kafka") as servers:
        yield servers
    kube.tried("uninstall", INSTANCE, "--wait", program="helm")


@pytest.fixture
def query(kube: Kube, servers: str) -> Iterator[UnderFault]:
    """Its pods know Kafka by its service, and this machine by what is forwarded."""
    here = f"{kube.namespace}.svc"
    known = Servers(servers, f"{RELEASE}-kafka.{here}:9092", f"redis://{RELEASE}-redis.{here}:6379/0")
    made = UnderFault(kube, known, PAIRS, executors=0, rate=RATE)
    yield made
    made.close()


def test_every_row_once_while_kafka_and_redis_are_killed(
    kube: Kube, query: UnderFault, capsys: pytest.CaptureFixture[str]
) -> None:
    query.begin()
    before = servers_of(kube)
    for victims in (["kafka"], ["redis"], ["kafka", "redis"]):
        time.sleep(QUIET_S)
        with query.strikes("killed", " and ".join(victims)):
            for victim in victims:
                killed(kube, SERVER.format(victim))
            for victim in victims:
                kube.said("rollout", "status", f"deployment/{RELEASE}-{victim}", f"--timeout={UP_S}s")
    with query.strikes("killed when what it would go on from has gone with Redis", "joiners"):
        killed(kube, DRIVER.format("joiner"))
    query.flows_to(max(ROWS, min(query.flow.sent.values()) + int(QUIET_S * RATE)))
    query.recovers()
    judged = query.judged()
    assert not before & servers_of(kube)
    with capsys.disabled():
        print(query.told(judged))


def servers_of(kube: Kube) -> set[str]:
    selector = f"--selector=app.kubernetes.io/instance={INSTANCE}"
    return {pod["metadata"]["name"] for pod in kube.objects("pods", selector)}
