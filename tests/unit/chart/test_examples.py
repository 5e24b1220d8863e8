"""Each kubernetes.yaml asks what the join.yaml beside it asks, and what to_kafka.py sends fits its schemas."""

from __future__ import annotations

import csv
import importlib.util
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from biclique.query.compile import compile_manifest
from biclique.query.model import Format, Kafka

EXAMPLES = Path(__file__).parents[3] / "examples"
FOLDERS = sorted(path.parent for path in EXAMPLES.glob("*/join.yaml"))
ROWS = 60


def to_kafka() -> Any:
    spec = importlib.util.spec_from_file_location("to_kafka", EXAMPLES / "to_kafka.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("example", FOLDERS, ids=lambda path: path.name)
def test_both_manifests_ask_the_same(example: Path) -> None:
    of_files, of_topics = (
        compile_manifest((example / name).read_text(encoding="utf-8")) for name in ("join.yaml", "kubernetes.yaml")
    )
    asked = [
        (
            query.name,
            query.relations,
            query.filters,
            query.predicates,
            query.items,
            query.group_by,
            query.tumble_us,
            [replace(source, input=of_topics.sources[0].input) for source in query.sources],
        )
        for query in (of_files, of_topics)
    ]
    assert asked[0] == asked[1]
    assert all(isinstance(source.input, Kafka) for source in of_topics.sources)


@pytest.mark.parametrize("example", FOLDERS, ids=lambda path: path.name)
def test_what_is_sent_fits_the_schemas(example: Path, tmp_path: Path) -> None:
    generate = [sys.executable, example / "generate.py", "--rows", str(ROWS), "--seed", "3", "--into", tmp_path]
    subprocess.run(generate, check=True, capture_output=True)
    query = compile_manifest((example / "kubernetes.yaml").read_text(encoding="utf-8"))
    sent = to_kafka().sources_of(example, tmp_path)
    for source in query.sources:
        assert isinstance(source.input, Kafka)
        rows, names = sent[source.input.topic], [field.name for field in source.fields]
        assert len(rows) >= 10
        if source.input.format is Format.CSV:
            header = next(path for path in sorted((tmp_path / source.name).iterdir())).read_text().splitlines()[0]
            assert header.split(",") == names, "a message has no header: its fields are in the order of the schema"
            assert {len(row) for row in csv.reader(line.decode() for line in rows)} == {len(names)}
        else:
            assert all(json.loads(row).keys() <= set(names) for row in rows)


def test_sources_are_sent_in_turns_and_each_in_its_order() -> None:
    rows = {"a": [b"1", b"2", b"3", b"4"], "b": [b"x", b"y"]}
    sent = list(to_kafka().in_turns(rows))
    assert [row for topic, row in sent if topic == "a"] == rows["a"]
    assert [topic for topic, _ in sent] == ["a", "b", "a", "a", "b", "a"]
