"""What the tests on a cluster stand upon: a cluster with the images, Kafka and Redis where its pods reach them, the
chart, and for each test a namespace of its own.

The cluster is that of KUBECONFIG, where it is set; else the test cluster, which is started, filled and ended here. One
that a person has started is used as it is, with the images that it has, and left alone.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra import processes
from infra.cluster import binaries, network
from infra.cluster.__main__ import FOLDER
from infra.cluster.binaries import NotBuilt
from infra.cluster.node import Node
from infra.jars import BROKER, jars_of
from infra.kafka_server import KafkaServer
from infra.redis_server import RedisServer
from tests.e2e.infrastructure import ROOT, Kubelet, infra
from tests.e2e.kube import Kube
from tests.e2e.quick_start import quick_start

CHART = ROOT / "charts" / "biclique"
RELEASE, HOME = "biclique", "biclique-system"
DEFINITIONS = ("joinqueries.biclique.dev", "joinsubgroups.biclique.dev")
BUILT_S = 1800  # of all images, where no layer is there yet


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The quick start comes first: it installs a release of its own, and two that look after everything would undo each
    other's work."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.cluster)
    items.sort(key=lambda item: "operator" in getattr(item, "fixturenames", ()))


@pytest.fixture(scope="session")
def took_s() -> dict[str, float]:
    """The commands that start the cluster; empty, where one was there."""
    return {}


@pytest.fixture(scope="session")
def cluster(took_s: dict[str, float]) -> Iterator[Kube]:
    """Started as README's quick start says it."""
    try:
        programs = binaries.program("kubectl").parent
    except NotBuilt as reason:
        pytest.skip(f"needs a cluster. {reason}")
    given = os.environ.get("KUBECONFIG")
    if given:
        yield Kube(Path(given), programs)
        return
    if os.geteuid() != 0:
        pytest.skip("needs a cluster: name one by KUBECONFIG, or run as root, who may start one")
    node = Node(FOLDER)
    if node.kubelet.process is not None:
        yield Kube(node.plane.kubeconfig, programs)
        return
    here = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    try:
        subprocess.run(["make", "cluster-packages"], cwd=ROOT, env=here, check=True, timeout=BUILT_S)
        for command in quick_start().cluster:
            if command.startswith("make "):
                began = time.monotonic()
                subprocess.run(command.split(), cwd=ROOT, env=here, check=True, timeout=BUILT_S)
                took_s[command] = time.monotonic() - began
        yield Kube(node.plane.kubeconfig, programs)
    finally:
        infra("infra.cluster", "down")


@pytest.fixture(scope="session")
def kafka_to_be(cluster: Kube, tmp_path_factory: pytest.TempPathFactory) -> KafkaServer:
    jars_of(BROKER)
    ports = processes.free_port(), processes.free_port()
    return KafkaServer(tmp_path_factory.mktemp("kafka"), *ports, advertised=network.ADDRESS)


@pytest.fixture(scope="session")
def broker(kafka_to_be: KafkaServer) -> Iterator[subprocess.Popen[bytes]]:
    """Its process, for whoever stops it."""
    process = kafka_to_be.start()
    yield process
    processes.stop(process)


@pytest.fixture(scope="session")
def kafka(kafka_to_be: KafkaServer, broker: subprocess.Popen[bytes]) -> KafkaServer:
    return kafka_to_be


@pytest.fixture(scope="session")
def redis(cluster: Kube, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    server = RedisServer(tmp_path_factory.mktemp("redis"), processes.free_port(), host=network.ADDRESS)
    process = server.start()
    yield server
    processes.stop(process)


def install(home: Kube, *values: str) -> None:
    """As a person does, or does again with other `values`."""
    words = ["upgrade", "--install", RELEASE, str(CHART), "--create-namespace", "--wait", "--timeout=120s"]
    words += ["--values", str(ROOT / "images" / "values.yaml")]
    for value in values:
        words += ["--set", value]
    done = home.tried(*words, program="helm", limit_s=150)
    assert done.returncode == 0, f"{done.stderr}\n{home.story()}"


@pytest.fixture(scope="session")
def operator(cluster: Kube) -> Iterator[Kube]:
    """Gone at the end, its definitions last: nobody else is to find them."""
    home = cluster.within(HOME)
    install(home)
    yield home
    home.tried("uninstall", RELEASE, "--wait", program="helm", limit_s=150)
    home.tried("delete", "crd", *DEFINITIONS, "--timeout=30s")


@pytest.fixture
def kube(cluster: Kube, operator: Kube) -> Iterator[Kube]:
    """In a namespace of the test's own."""
    with cluster.in_its_own() as here:
        yield here


@pytest.fixture
def own_kubelet(cluster: Kube) -> Kubelet | None:
    """Where the cluster is the test cluster."""
    found = Kubelet(Node(FOLDER))
    return found if cluster.kubeconfig.resolve() == found.node.plane.kubeconfig.resolve() else None


@pytest.fixture
def kubelet(own_kubelet: Kubelet | None) -> Iterator[Kubelet]:
    if own_kubelet is None:
        pytest.skip("ends a kubelet that is a process of this machine, and KUBECONFIG names another cluster")
    yield own_kubelet
    own_kubelet.start()
