"""README's Kubernetes quick start, done as it is written, and the other examples on what it installs: what comes out is
what the oracle says, and at the end nothing is left."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from infra.cluster.__main__ import FOLDER
from infra.cluster.node import Node
from tests.dataplane.topics import committed, header
from tests.e2e.conftest import DEFINITIONS
from tests.e2e.example import Example, Place
from tests.e2e.forwarding import forwarded
from tests.e2e.insides import compiled_by
from tests.e2e.kube import Kube
from tests.e2e.quick_start import QuickStart, Shell, quick_start

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
# That of the quick start reads what the chart makes up; these read what their generators write.
GENERATED = sorted(
    path.parent.name for path in EXAMPLES.glob("*/kubernetes.yaml") if path.parent.name != "orders-offers"
)
ROWS = 300
INSTALLED_S, LOOKED_S, LEFT_S = 240, 240, 120
JOINED_S = 120
UP_S = 60
# A span of time is closed by rows that come later; files end, topics do not.
LATER = {
    "bids-asks": {"bids": "0,ACME,1.00,1,2026-03-02T12:00:00+00:00", "asks": "0,BOLT,9.00,1,2026-03-02T12:00:00+00:00"}
}


@pytest.fixture(scope="module")
def written() -> QuickStart:
    return quick_start()


@pytest.fixture(scope="module")
def home(cluster: Kube) -> Kube:
    return cluster.within("biclique")


@pytest.fixture(scope="module")
def shell(cluster: Kube, home: Kube, written: QuickStart) -> Iterator[Shell]:
    """In which it is installed as README says, and taken away as README says; then nothing of it is there."""
    path = f"{cluster.programs}:{os.environ['PATH']}"
    shell = Shell({**os.environ, "KUBECONFIG": str(cluster.kubeconfig), "PATH": path})
    try:
        if cluster.kubeconfig == Node(FOLDER).plane.kubeconfig:
            assert [command.split()[0] for command in written.cluster] == ["make", "make", "export", "export"]
            for command in written.cluster[2:]:
                shell.run(command, LEFT_S)
            if not home.tried("list", "--all-namespaces", "--short", program="helm").stdout:
                home.tried("delete", "crd", *DEFINITIONS, "--timeout=30s")  # of a run that was broken off
        for command in written.install:
            shell.run(command, INSTALLED_S)
        yield shell
        home.tried("delete", "joinqueries", "--all", "--timeout=60s")  # of a test that failed
        for command in written.leave:
            shell.run(command, LEFT_S)
        left = cluster.said(
            "get", "customresourcedefinitions,clusterroles,clusterrolebindings,namespaces", "--output=name"
        )
        assert not [name for name in left.split() if "biclique" in name and not name.endswith("/biclique-system")]
    finally:
        shell.end()
        if home.tried("get", "namespace", home.namespace).returncode == 0:
            home.tried("uninstall", "biclique", "--wait", program="helm")
            home.tried("delete", "crd", *DEFINITIONS, "--timeout=30s")
            cluster.tried("delete", "namespace", home.namespace, "--timeout=60s")


@pytest.fixture(scope="module")
def servers(shell: Shell, home: Kube) -> Iterator[str]:
    with forwarded(home, "deployment/biclique-kafka") as servers:
        yield servers


@pytest.mark.usefixtures("cluster")
def test_the_cluster_is_up_within_a_minute(took_s: dict[str, float]) -> None:
    """Its programs and packages were there, as whoever runs this has them."""
    if not took_s:
        pytest.skip("the cluster was there already")
    print({command: f"{seconds:.1f} s" for command, seconds in took_s.items()})
    assert took_s["make cluster-up"] < UP_S


def test_what_it_shows_is_true(shell: Shell, home: Kube, written: QuickStart, servers: str) -> None:
    tested = home.tried("test", "biclique", program="helm")
    assert tested.returncode == 0 and "Phase:          Succeeded" in tested.stdout, tested.stdout + tested.stderr
    *look, delete = written.look
    said = {command.split()[3]: shell.run(command, LOOKED_S) for command in look}
    shown = [json.loads(line) for line in said["exec"].splitlines()]
    assert len(shown) == 5
    orders, offers = (rows_by_id(servers, topic) for topic in ("orders", "offers"))
    wanted = {
        (order["id"], offer["id"])
        for order in orders.values()
        for offer in offers.values()
        if offer["low"] <= order["price"] <= offer["high"] and order["qty"] <= offer["qty"]
    }
    assert {(row["order_id"], row["offer_id"]) for row in shown} <= wanted
    deadline = time.monotonic() + JOINED_S
    while True:
        rows = [json.loads(message.value()) for message in committed(servers, "pairs")]
        pairs = Counter((row["order_id"], row["offer_id"]) for row in rows)
        joined = {pair for pair in pairs if pair[0] in orders and pair[1] in offers}
        if joined == wanted or time.monotonic() > deadline:
            break
        time.sleep(1)
    assert joined == wanted and set(pairs.values()) == {1}, home.story()
    assert "orders-offers" in said["get"]
    assert compiled_by(home, "orders-offers") == {}
    shell.run(delete, LEFT_S)
    assert not home.objects("joinqueries")


def rows_by_id(servers: str, topic: str) -> dict[int, dict[str, Any]]:
    rows = [json.loads(message.value()) for message in committed(servers, topic)]
    return {row["id"]: row for row in rows}


@pytest.mark.parametrize("name", GENERATED)
def test_an_example_s_output_is_the_oracle_s(name: str, shell: Shell, home: Kube, servers: str, tmp_path: Path) -> None:
    example = Example(EXAMPLES / name, tmp_path)
    example.generate(ROWS)
    example.send(servers)
    began = time.monotonic()
    home.said("apply", "--filename", str(EXAMPLES / name / "kubernetes.yaml"))
    home.wait(f"joinquery/{name}", "condition=Ready", LOOKED_S)
    ready_s = time.monotonic() - began
    producer = Producer({"bootstrap.servers": servers})
    for topic, row in LATER.get(name, {}).items():
        producer.produce(topic, row)
    assert producer.flush(30) == 0
    made = home.object("joinquery", name)
    topic, own = made["spec"]["output"]["kafka"]["topic"], made["status"]["id"]
    deadline, late = time.monotonic() + JOINED_S, None
    while True:
        found = example.found(committed(servers, topic))
        if late != (late := places(servers, f"{own}.late")):
            wanted = example.expected(late)
        if found == wanted or time.monotonic() > deadline:
            break
        time.sleep(0.5)
    assert found == wanted, home.story()
    assert wanted.total() >= 5, "an example without results shows nothing"
    assert places(servers, f"{own}.dead") == example.unfit
    print(f"{name}: ready after {ready_s:.0f} s, {wanted.total()} rows {time.monotonic() - began:.0f} s after apply")
    assert compiled_by(home, name) == {}, "what the image has is compiled for queries such as these"
    home.said("delete", f"joinquery/{name}", "--timeout=60s")
    assert example.found(committed(servers, topic)) == wanted


def places(servers: str, topic: str) -> set[Place]:
    return {(header(message, "source"), int(header(message, "offset"))) for message in committed(servers, topic)}
