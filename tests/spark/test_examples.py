"""Every folder of examples/ is an end-to-end test: generated small, run by the command, compared with the oracle.

Goal: what a reader tries first works, and its output is right. Method: the input is read a second time by plain Python
(tests/model/files.py) and joined by the nested loop (tests/model/oracle.py). Dead must be exactly the records that do
not fit the schema. Late depends on how far the engine had read, so late tuples are taken from what it set aside, after
a look that each of them was below the watermark; all others must be joined.

A new folder with a join.yaml and a generate.py is tested without another word.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from biclique.query.compile import compile_manifest
from biclique.query.model import Files, Query
from tests.model.files import Record, records, results, set_aside
from tests.model.oracle import Tuple, differences, expected, normal

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = sorted(path.parent for path in ROOT.glob("examples/*/join.yaml"))
BICLIQUE = Path(sys.executable).with_name("biclique")
ROWS = 300

Place = tuple[str, str, int]  # source, file, row


@dataclass(frozen=True)
class Run:
    query: Query
    out: Path
    summary: dict[str, Any]


@pytest.fixture(scope="module", params=EXAMPLES, ids=lambda path: path.name)
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    example: Path = request.param
    folder = tmp_path_factory.mktemp(example.name)
    shutil.copy(example / "join.yaml", folder)
    arguments = ["--rows", str(ROWS), "--seed", "3", "--into", str(folder / "data")]
    subprocess.run([sys.executable, example / "generate.py", *arguments], check=True, capture_output=True)
    done = subprocess.run(
        [BICLIQUE, "run", "--json", folder / "join.yaml"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    query = compile_manifest((folder / "join.yaml").read_text(encoding="utf-8"), str(folder))
    assert isinstance(query.output, Files)
    return Run(query, Path(query.output.path), json.loads(done.stdout))


@pytest.mark.spark
def test_the_output_is_the_oracle_s(run: Run) -> None:
    assert isinstance(run.query.output, Files)
    found = list(results(run.out, run.query.output.format, run.query.items))
    by_values = Counter(values for _, values in expected_rows(run).elements())
    assert sum(by_values.values()) >= 5, "an example without results shows nothing"
    wrong = differences(by_values, Counter(normal(run.query, ((), values))[1] for values, _ in found))
    assert not wrong, "\n".join(wrong)
    assert len({result_id for _, result_id in found}) == len(found), "a result id is there twice"


@pytest.mark.spark
def test_every_row_has_one_fate(run: Run) -> None:
    late, dead = late_places(run), dead_places(run)
    for source, told in zip(run.query.sources, run.summary["sources"], strict=True):
        read = list(records(source))
        unfit = {(source.name, record.file, record.row) for record in read if record.values is None}
        assert {place for place in dead if place[0] == source.name} == unfit
        assert told["name"] == source.name
        assert told["read"] == len(read)
        assert told["dead"] == len(unfit)
        assert told["late"] == sum(place[0] == source.name for place in late)
        assert told["joined"] + told["filtered"] == len(read) - told["dead"] - told["late"]


def expected_rows(run: Run) -> Counter[Any]:
    late = late_places(run)
    accepted: list[list[Tuple]] = []
    for source in run.query.sources:
        kept = [r for r in records(source) if (source.name, r.file, r.row) not in late]
        accepted.append([tuple_of(run.query, len(accepted), record) for record in kept if record.values is not None])
    return expected(run.query, [accepted[relation.source] for relation in run.query.relations])


def tuple_of(query: Query, source: int, record: Record) -> Tuple:
    column = query.sources[source].event_time.column
    assert column is not None and record.values is not None
    time = record.values[column]
    assert isinstance(time, int)
    return Tuple(0, time, record.values)


def late_places(run: Run) -> set[Place]:
    late = set_aside(run.out / "_late")
    for row in late:
        assert datetime.fromisoformat(row["_event_time"]) < datetime.fromisoformat(row["_watermark"])
    return {(row["_source"], Path(row["_file"]).name, row["_row"]) for row in late}


def dead_places(run: Run) -> set[Place]:
    return {(row["source"], Path(row["file"]).name, row["row"]) for row in set_aside(run.out / "_dead")}


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 5
