"""What a driver pod tells Spark of its executor pods, and what it does not."""

from __future__ import annotations

import pytest

from biclique.hosts.spark_pods import Executors, Pod, executors_environment, executors_for, in_pods
from biclique.query.compile import compile_manifest
from tests.unit.tiers.on_topics import on_topics

POD = Pod("orders-1a2b3c4d-joiner-0l0-7", "shop", "10.88.0.9")


@pytest.mark.parametrize(
    ("tier", "wanted", "units", "executors"),
    [
        ("dispatcher", 1, 4, Executors(1, 4)),
        ("dispatcher", 3, 4, Executors(3, 2)),
        ("dispatcher", 9, 4, Executors(4, 1)),
        ("merger", 2, 2, Executors(2, 1)),
        ("joiner", 1, 3, Executors(3, 1)),
        ("shuffler", 2, 0, Executors(2, 2)),
        ("shuffler", 0, 0, Executors(1, 2)),
    ],
)
def test_every_unit_has_a_slot_and_every_joiner_a_pod(tier: str, wanted: int, units: int, executors: Executors) -> None:
    assert executors_for(tier, wanted, units) == executors
    assert executors.count * executors.slots >= units


def test_executors_are_their_drivers_own() -> None:
    told = in_pods("orders-joiner", "k8s://https://kubernetes.default.svc", "-Xint", POD, Executors(3, 1))
    assert told["spark.driver.host"] == told["spark.driver.bindAddress"] == POD.ip
    assert told["spark.kubernetes.driver.pod.name"] == told["spark.kubernetes.executor.podNamePrefix"] == POD.name
    assert told["spark.kubernetes.namespace"] == "shop"
    assert (told["spark.executor.instances"], told["spark.executor.cores"], told["spark.task.cpus"]) == ("3", "1", "1")
    assert told["spark.dynamicAllocation.enabled"] == "false"
    assert not [name for name in told if "image" in name or ("emory" in name and "driver" not in name)], (
        "the operator's"
    )


def test_units_on_executors_have_telemetrys_settings_but_no_password_and_no_other_pods_name() -> None:
    settings = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318",
        "OTEL_EXPORTER_OTLP_HEADERS": "authorization=secret",
        "OTEL_RESOURCE_ATTRIBUTES": "k8s.namespace.name=shop, k8s.pod.name=driver,biclique.query=orders",
        "HOME": "/root",
    }
    assert executors_environment(settings) == {
        "spark.executorEnv.OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318",
        "spark.executorEnv.OTEL_RESOURCE_ATTRIBUTES": "k8s.namespace.name=shop,biclique.query=orders",
    }
    assert executors_environment({}) == {}


def test_how_many_executors_each_tier_has_stands_in_the_manifest() -> None:
    more = "tiers: {executors: 0, dispatcher: {executors: 3}}"
    query = compile_manifest(on_topics("SELECT r.k FROM r JOIN s ON r.k = s.k", more, r="k INT", s="k INT"))
    assert dict(query.hints.executors) == {"shuffler": 0, "dispatcher": 3, "merger": 0, "joiner": 0}
