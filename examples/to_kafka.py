"""The rows of an example's files into the topics that its kubernetes.yaml reads, a message each, as they stand there.

    .venv/bin/python examples/shop-visits/generate.py
    .venv/bin/python examples/to_kafka.py shop-visits --bootstrap-servers kafka:9092

A line of CSV or JSON is a message as it is; a row of Parquet becomes a JSON object. Sources are sent in turns, so that
none runs far ahead of the others in time. Topics that are missing are made with one partition, which keeps the files'
order.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from pathlib import Path

import pyarrow.parquet as pq
import yaml
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

HERE = Path(__file__).parent


def messages(path: Path) -> Iterator[bytes]:
    """Of a file or a folder, whose files come in the order of their names."""
    for file in sorted(path.iterdir()) if path.is_dir() else [path]:
        if file.suffix == ".parquet":
            for row in pq.read_table(file).to_pylist():
                yield json.dumps(row, default=_as_text).encode()
        else:
            lines = file.read_bytes().splitlines()
            yield from lines[1:] if file.suffix == ".csv" else lines


def _as_text(value: object) -> object:
    match value:
        case datetime():
            return value.isoformat()
        case Decimal():
            return float(value)  # of so few digits that it is written as it was
    raise TypeError(f"no value of JSON: {value!r}")


def in_turns(sources: dict[str, list[bytes]]) -> Iterator[tuple[str, bytes]]:
    """Each source as far through its rows as the others."""
    placed = (
        (number / len(rows), topic, number, row) for topic, rows in sources.items() for number, row in enumerate(rows)
    )
    for _, topic, _, row in sorted(placed, key=lambda one: one[:3]):
        yield topic, row


def sources_of(example: Path, data: Path) -> dict[str, list[bytes]]:
    """Topic → messages, from both manifests of the example."""
    of_files, of_topics = (
        yaml.safe_load((example / name).read_text(encoding="utf-8"))["spec"]["sources"]
        for name in ("join.yaml", "kubernetes.yaml")
    )
    paths = {source["name"]: data / Path(source["files"]["path"]).name for source in of_files}
    return {source["kafka"]["topic"]: list(messages(paths[source["name"]])) for source in of_topics}


def make_topics(servers: str, topics: list[str]) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    missing = [NewTopic(topic, 1) for topic in topics if topic not in admin.list_topics(timeout=10).topics]
    for made in (admin.create_topics(missing) if missing else {}).values():
        made.result(30)


def send(servers: str, sources: dict[str, list[bytes]]) -> None:
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 20})
    for topic, row in in_turns(sources):
        while True:
            try:
                producer.produce(topic, row)
                break
            except BufferError:
                producer.poll(0.1)
    if producer.flush(60):
        raise SystemExit(f"Kafka at {servers} did not take all of it")


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("example", choices=sorted(path.parent.name for path in HERE.glob("*/kubernetes.yaml")))
    arguments.add_argument("--bootstrap-servers", required=True)
    arguments.add_argument("--data", type=Path, help="where generate.py has put them; by default beside the example")
    chosen = arguments.parse_args()
    found = sources_of(HERE / chosen.example, chosen.data or HERE / chosen.example / "data")
    try:
        make_topics(chosen.bootstrap_servers, list(found))
        send(chosen.bootstrap_servers, found)
    except KafkaException as trouble:
        raise SystemExit(f"Kafka at {chosen.bootstrap_servers}: {trouble.args[0].str()}") from None
    print(", ".join(f"{len(rows):,} rows in {topic}" for topic, rows in found.items()))
