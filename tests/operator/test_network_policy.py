"""Who may speak to a query's pods, as a network that enforces policies would judge it: all that its pods and the
operator have to, at the ports that are listened on, and nobody else. The operator's own policy is the chart's."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from biclique.hosts.spark_pods import Executors, Pod, in_pods
from biclique.query.manifest import TopicsSpec
from biclique.query.pod import METRICS_PORT, METRICS_PORTS, STATUS_PORT
from tests.operator.manifests import WITH_EXECUTORS, joinquery
from tests.operator.stage import Stage

Raw = dict[str, Any]
OPERATOR = {"app.kubernetes.io/name": "biclique-operator"}
STRANGER = {"app": "shop"}


def selects(selector: Raw, labels: dict[str, str]) -> bool:
    assert selector.keys() <= {"matchLabels"}
    return (selector.get("matchLabels") or {}).items() <= labels.items()


def lets_in(policy: Raw, source: dict[str, str], namespace: str, target: dict[str, str], port: int) -> bool:
    """Whether TCP from a pod with these labels, in that namespace, comes to a port of a pod in the policy's own."""
    spec = policy["spec"]
    if not selects(spec["podSelector"], target):
        return True  # nobody bounds it
    for rule in spec["ingress"]:
        ports = [(one["port"], one.get("endPort", one["port"])) for one in rule["ports"] if one["protocol"] == "TCP"]
        if any(first <= port <= last for first, last in ports) and (
            "from" not in rule or any(_is_peer(peer, source, namespace, policy) for peer in rule["from"])
        ):
            return True
    return False


def _is_peer(peer: Raw, source: dict[str, str], namespace: str, policy: Raw) -> bool:
    anywhere = peer.get("namespaceSelector") == {}
    assert anywhere or "namespaceSelector" not in peer
    return (anywhere or namespace == policy["metadata"]["namespace"]) and selects(peer["podSelector"], source)


class Query:
    def __init__(self) -> None:
        stage = Stage()
        stage.cluster.create(joinquery(**WITH_EXECUTORS))
        stage.settle()
        (self.policy,) = stage.cluster.list("NetworkPolicy", "default")
        self.drivers = list(stage.pods().values())
        told = stage.cluster.get("ConfigMap", "default", f"{stage.id}-spark-joiner")["data"]["executor.yaml"]
        self.driver: dict[str, str] = self.drivers[0]["metadata"]["labels"]
        self.executor: dict[str, str] = yaml.safe_load(told)["metadata"]["labels"]
        (self.service,) = stage.cluster.list("Service", "default")

    def lets(self, source: dict[str, str], target: dict[str, str], port: int, namespace: str = "default") -> bool:
        return lets_in(self.policy, source, namespace, target, port)


@pytest.fixture(scope="module")
def query() -> Query:
    return Query()


def spark_ports() -> list[int]:
    """Where Spark listens, as a driver tells it."""
    told = in_pods("joins", "k8s://x", "", Pod("driver", "default", "10.0.0.1"), Executors(1, 1))
    assert told["spark.ui.enabled"] == "false", "it would listen, too"
    return sorted({int(value) for name, value in told.items() if name.lower().endswith("port")})


def declared(pod: Raw) -> set[int]:
    return {one["containerPort"] for container in pod["spec"]["containers"] for one in container["ports"]}


def test_a_querys_own_pods_reach_each_other_where_they_listen(query: Query) -> None:
    assert len(spark_ports()) == 2
    for port in (STATUS_PORT, *spark_ports()):
        assert query.lets(query.executor, query.driver, port)
    for port in spark_ports():
        assert query.lets(query.driver, query.executor, port)
        assert query.lets(query.executor, query.executor, port)


def test_the_operator_reaches_what_it_and_the_probes_ask_and_no_more(query: Query) -> None:
    asked = {
        probe["httpGet"]["port"]
        for pod in query.drivers
        for container in pod["spec"]["containers"]
        for name, probe in container.items()
        if name.endswith("Probe")
    }
    assert asked == {STATUS_PORT}
    assert query.lets(OPERATOR, query.driver, STATUS_PORT, "biclique")
    assert not any(query.lets(OPERATOR, query.driver, port, "biclique") for port in spark_ports())


def test_whoever_fetches_metrics_reaches_those_of_every_unit(query: Query) -> None:
    for target in (query.driver, query.executor):
        for unit in (0, 1, METRICS_PORTS - 1):
            assert query.lets(STRANGER, target, METRICS_PORT + unit, "monitoring")
        assert not query.lets(STRANGER, target, METRICS_PORT + METRICS_PORTS, "monitoring")
    (most,) = [one.le for one in TopicsSpec.model_fields["partitions"].metadata if hasattr(one, "le")]
    assert most <= METRICS_PORTS, "each dispatcher of a pod takes a port"


@pytest.mark.parametrize("namespace", ["default", "monitoring"])
def test_nobody_else_reaches_anything_else(query: Query, namespace: str) -> None:
    of_another = {**query.executor, "app.kubernetes.io/instance": "other-00000000"}
    for source in (STRANGER, of_another, {}):
        for target in (query.driver, query.executor):
            assert not any(query.lets(source, target, port, namespace) for port in (STATUS_PORT, *spark_ports(), 22))
    if namespace != "default":
        assert not query.lets(query.executor, query.driver, STATUS_PORT, namespace), "labels are for anybody to take"


def test_what_pods_and_the_service_say_is_what_is_let_in(query: Query) -> None:
    for pod in query.drivers:
        assert declared(pod) == {STATUS_PORT, METRICS_PORT}
    for one in query.service["spec"]["ports"]:
        assert one["targetPort"] in declared(query.drivers[0])
        assert lets_in(query.policy, STRANGER, "default", query.driver, one["targetPort"])
    assert selects({"matchLabels": query.service["spec"]["selector"]}, query.driver)
    assert not lets_in(query.policy, STRANGER, "default", query.driver, STATUS_PORT)
    assert lets_in(query.policy, STRANGER, "default", {"app": "another"}, STATUS_PORT), "it is of its own pods alone"
