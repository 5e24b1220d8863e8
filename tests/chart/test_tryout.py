"""What a first look starts, as processes of this machine: the rendered script and settings with a real Kafka's jars,
and the generator against it. Only folders and addresses are others.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka import Consumer, KafkaException
from confluent_kafka.admin import AdminClient

from infra import processes
from infra.jars import BROKER, NoJars, jars_of
from tests.chart.rendering import CHART, rendered

LIMIT_S = 60.0
RESULTS = [sys.executable, str(CHART / "files/tryout/results.py")]


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    found = rendered({"tryout": {"kafka": {"enabled": True}}})
    try:
        jars = jars_of(BROKER)
    except NoJars as reason:
        pytest.skip(f"needs Kafka. {reason}")
    folder = tmp_path_factory.mktemp("kafka")
    clients, controller, forwarded = (processes.free_port() for _ in range(3))

    def here(text: str) -> str:
        moved = text.replace("/etc/kafka", str(folder / "etc")).replace("/var/lib/kafka", str(folder / "data"))
        ported = moved.replace("CLIENTS://:9092", f"CLIENTS://127.0.0.1:{clients}").replace("9093", str(controller))
        ported = ported.replace("19092", str(forwarded))
        return ported.replace("biclique-kafka.biclique.svc:9092", f"127.0.0.1:{clients}")

    (folder / "etc").mkdir()
    (folder / "data").mkdir()
    for name, text in found.one("ConfigMap", "biclique-kafka")["data"].items():
        (folder / "etc" / name).write_text(here(text), encoding="utf-8")
    container = found.one("Deployment", "biclique-kafka")["spec"]["template"]["spec"]["containers"][0]
    command = ["env", f"LIBS={jars}", *container["command"], *(here(word) for word in container["args"])]
    process = processes.start(command, folder, lambda: _answers(f"127.0.0.1:{clients}"))
    yield f"127.0.0.1:{clients}"
    processes.stop(process)


def _answers(servers: str) -> bool:
    try:
        AdminClient({"bootstrap.servers": servers, "log_level": 0}).list_topics(timeout=1)
    except KafkaException:
        return False
    return True


def test_the_load_reaches_a_first_looks_kafka(kafka: str) -> None:
    command = [sys.executable, str(CHART / "files/tryout/load.py")]
    settings = {**os.environ, "BOOTSTRAP_SERVERS": kafka, "ROWS_PER_SECOND": "50"}
    with subprocess.Popen(command, env=settings, stdout=subprocess.PIPE, start_new_session=True) as load:
        consumer = Consumer({"bootstrap.servers": kafka, "group.id": "look", "auto.offset.reset": "earliest"})
        try:
            rows = list(_rows(consumer, load))
        finally:
            consumer.close()
            processes.stop(load)
    assert {topic for topic, _ in rows} == {"orders", "offers"}
    shown = subprocess.run([*RESULTS, "orders", "--rows", "3"], env=settings, capture_output=True, text=True)
    columns = [sorted(json.loads(line)) for line in shown.stdout.splitlines()]
    assert columns == [["at", "id", "price", "qty"]] * 3, shown.stderr
    short = subprocess.run([*RESULTS, "pairs", "--seconds", "1"], env=settings, capture_output=True, text=True)
    assert short.stderr == "pairs has no more; so many were wanted still: 5\n"
    assert all(row["low"] < row["high"] for topic, row in rows if topic == "offers")
    assert all(row["price"] > 0 for topic, row in rows if topic == "orders")


def _rows(consumer: Consumer, load: subprocess.Popen[bytes]) -> Iterator[tuple[str, dict[str, Any]]]:
    assert load.stdout is not None
    assert b"50 orders and as many offers a second" in load.stdout.readline()
    consumer.subscribe(["orders", "offers"])
    limit, seen = time.monotonic() + LIMIT_S, dict.fromkeys(("orders", "offers"), 0)
    while min(seen.values()) < 20:
        assert time.monotonic() < limit and load.poll() is None
        message = consumer.poll(1.0)
        if message is not None and not message.error():
            seen[message.topic()] += 1
            yield message.topic(), json.loads(message.value())


@pytest.mark.spark
@pytest.mark.parametrize("name", ["shop-visits", "bids-asks"])
def test_an_example_of_topics_finds_what_it_finds_in_files(kafka: str, name: str, tmp_path: Path) -> None:
    """As `biclique run` does it, which reads topics too; the tiers have tests of their own."""
    example = CHART.parents[1] / "examples" / name
    rows = ["--rows", "300", "--seed", "3", "--into", str(tmp_path / "data")]
    subprocess.run([sys.executable, example / "generate.py", *rows], check=True, capture_output=True)
    to_kafka = [sys.executable, example.parent / "to_kafka.py", name, "--data", str(tmp_path / "data")]
    subprocess.run([*to_kafka, "--bootstrap-servers", kafka], check=True, capture_output=True)
    found = []
    for manifest in ("join.yaml", "kubernetes.yaml"):
        text = (example / manifest).read_text(encoding="utf-8").replace("biclique-kafka.biclique.svc:9092", kafka)
        query = yaml.safe_load(text)
        query["spec"]["output"] = {"files": {"path": f"out-{manifest}", "format": "json"}}
        (tmp_path / manifest).write_text(json.dumps(query), encoding="utf-8")
        run = [Path(sys.executable).with_name("biclique"), "run", tmp_path / manifest]
        done = subprocess.run(run, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        lines = [path.read_text().splitlines() for path in (tmp_path / f"out-{manifest}").glob("part-*.json")]
        results = (json.loads(line) for part in lines for line in part)
        found.append(sorted(json.dumps({k: v for k, v in each.items() if k != "_result_id"}) for each in results))
    assert len(found[0]) >= 5
    assert found[0] == found[1]
