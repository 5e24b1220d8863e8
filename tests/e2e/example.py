"""One of examples/ on a cluster: its generator's rows in its topics, and what the oracle says of them.

The rows are read a second time by plain Python and joined by the nested loop, as tests/spark/test_examples.py does it
with what the embedded engine writes. Which rows are late depends on how far the tiers had read, so they are taken from
where the query says that it put them; all others must be joined.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from pathlib import Path

from confluent_kafka import Message

from biclique.query.compile import compile_manifest
from biclique.query.model import Query
from tests.model.files import Record, memory_form, records
from tests.model.oracle import Row, Tuple, expected, normal
from tests.spark.test_examples import tuple_of

Place = tuple[str, int]  # source, offset: topics have one partition


@dataclass(frozen=True)
class Example:
    """`home`: its folder in examples/. `folder`: where its rows are put."""

    home: Path
    folder: Path

    def generate(self, rows: int) -> None:
        shutil.copy(self.home / "join.yaml", self.folder)
        words = ["--rows", str(rows), "--seed", "3", "--into", str(self.data)]
        subprocess.run([sys.executable, self.home / "generate.py", *words], check=True, capture_output=True)

    def send(self, servers: str) -> None:
        words = [self.home.name, "--data", str(self.data), "--bootstrap-servers", servers]
        done = subprocess.run(
            [sys.executable, self.home.parent / "to_kafka.py", *words], capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @cached_property
    def query(self) -> Query:
        return compile_manifest((self.folder / "join.yaml").read_text(encoding="utf-8"), str(self.folder))

    @cached_property
    def records(self) -> dict[str, list[Record]]:
        """Of each source, in the order in which they were sent."""
        return {source.name: list(records(source)) for source in self.query.sources}

    @cached_property
    def unfit(self) -> set[Place]:
        """Which must be dead."""
        return {
            (source, offset)
            for source, read in self.records.items()
            for offset, record in enumerate(read)
            if record.values is None
        }

    def expected(self, late: set[Place]) -> Counter[Row]:
        """By values alone: a reader of the topic knows no tuples."""
        accepted: list[list[Tuple]] = []
        for number, (name, read) in enumerate(self.records.items()):
            fit = [record for offset, record in enumerate(read) if not {(name, offset)} & (late | self.unfit)]
            accepted.append([tuple_of(self.query, number, record) for record in fit])
        found = expected(self.query, [accepted[relation.source] for relation in self.query.relations])
        return Counter(normal(self.query, ((), values)) for _, values in found.elements())

    def found(self, messages: Iterable[Message]) -> Counter[Row]:
        rows = [json.loads(message.value(), parse_float=Decimal) for message in messages]
        ids = [row["_result_id"] for row in rows]
        assert len(set(ids)) == len(ids), "a result id is there twice"
        values = (tuple(memory_form(row[item.name], item.type) for item in self.query.items) for row in rows)
        return Counter(normal(self.query, ((), each)) for each in values)
