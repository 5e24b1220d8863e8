"""The real API server, for the tests that want it: etcd and itself alone, without a node. Skipped where their programs
are not built."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from biclique_operator.cluster import Cluster, Refused, Unreachable, connect
from biclique_operator.crd.definitions import definitions
from biclique_operator.telemetry import silent
from infra.cluster.binaries import NotBuilt
from infra.cluster.control_plane import api_server
from tests.operator.stage import Clock, Stage

Raw = dict[str, Any]
CRD = "apis/apiextensions.k8s.io/v1/customresourcedefinitions"


class WatchedCluster(Cluster):
    """The real one. `before_write`: called before each call that changes something."""

    def __init__(self, kubeconfig: Path) -> None:
        super().__init__(connect(str(kubeconfig)), silent())
        self.before_write: Callable[[str, str, str], None] = lambda verb, kind, name: None

    def _write(self, verb: str, kind: str, *about: Any, **more: Any) -> Raw:
        self.before_write(verb, kind, "")
        return super()._write(verb, kind, *about, **more)

    def define(self, definition: Raw) -> None:
        self._call("POST", CRD, (), definition)

    def is_served(self, kind: str) -> bool:
        try:
            self.list(kind, "default")
        except (Refused, Unreachable):  # not yet, or its storage is being made
            return False
        return True

    def limit_pods(self, namespace: str, count: int) -> str:
        """As if so many were there. Returns where the quota is."""
        place = f"api/v1/namespaces/{namespace}/resourcequotas"
        named, hard = {"metadata": {"name": "few"}}, {"hard": {"pods": str(count)}}
        made = self._call("POST", place, (), {**named, "spec": hard})
        self._call("PUT", f"{place}/few/status", (), {**made, "status": {**hard, "used": {"pods": str(count)}}})
        return f"{place}/few"

    def lift(self, quota: str) -> None:
        self._call("DELETE", quota)

    def make_namespace(self, name: str) -> None:
        self._call("POST", "api/v1/namespaces", (), {"metadata": {"name": name}})


@pytest.fixture(scope="session")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Of a server that knows JoinQuery and JoinSubgroup."""
    try:
        with api_server(tmp_path_factory.mktemp("api")) as path:
            cluster = WatchedCluster(path)
            for definition in definitions().values():
                cluster.define(without_rules(definition))
            deadline = time.monotonic() + 30
            while not (cluster.is_served("JoinQuery") and cluster.is_served("JoinSubgroup")):
                assert time.monotonic() < deadline, "the definitions are not served"
                time.sleep(0.2)
            cluster.make_namespace("biclique-system")
            yield path
    except NotBuilt as reason:
        pytest.skip(f"needs Kubernetes' API server. {reason}")


def without_rules(definition: Any) -> Any:
    """What the server refuses by rules in the definitions is tested beside those. Here the operator judges alone."""
    if isinstance(definition, dict):
        return {k: without_rules(v) for k, v in definition.items() if k != "x-kubernetes-validations"}
    return [without_rules(one) for one in definition] if isinstance(definition, list) else definition


NUMBERS = itertools.count(1)


@pytest.fixture
def cluster(kubeconfig: Path) -> WatchedCluster:
    return WatchedCluster(kubeconfig)


@pytest.fixture
def namespace(cluster: WatchedCluster) -> str:
    name = f"test-{next(NUMBERS)}"
    cluster.make_namespace(name)
    return name


@pytest.fixture
def new_stage(kubeconfig: Path) -> Callable[[], Stage]:
    """Each in a namespace of its own."""

    def made() -> Stage:
        cluster, name = WatchedCluster(kubeconfig), f"stage-{next(NUMBERS)}"
        cluster.make_namespace(name)
        return Stage(cluster, Clock(time.time), name)

    return made
