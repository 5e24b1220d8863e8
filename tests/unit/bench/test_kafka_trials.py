"""The data plane's trials: each figure has a name of its own, and what a trial writes is what it says it writes."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import duckdb
import pytest

from bench.data import SIDES, dataset
from bench.kafka.blocks import BlockSource, blocks_of
from bench.kafka.queries import BAND, EQUALITY, TWO_INEQUALITIES, WARM_UP_SHIFT, Query, lines_of, manifest
from bench.kafka.trials import TRIALS
from bench.workloads import expected, fingerprint
from biclique.plan.make import make_plan
from biclique.ports.wire import Message, Wire
from biclique.query.compile import compile_manifest
from biclique.tiers.messages import SourceBlock

QUERIES = (EQUALITY, BAND, TWO_INEQUALITIES)


def test_trials_and_figures_have_names_of_their_own() -> None:
    trials = [trial.name for trial in TRIALS]
    figures = [figure.name for trial in TRIALS for figure in trial.figures]
    assert len(set(trials)) == len(trials) and len(set(figures)) == len(figures)
    assert all(trial.figures for trial in TRIALS)


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.name)
def test_the_warm_up_meets_itself_and_nothing_of_the_data(query: Query, tmp_path: Path) -> None:
    folder = dataset(tmp_path, query.workload.kind, 400)
    for side in SIDES:
        rows = [json.loads(line) for shift in (0, WARM_UP_SHIFT) for line in lines_of(folder, side, shift)]
        (tmp_path / f"{side}.json").write_text("\n".join(map(json.dumps, rows)))
    sides = " JOIN ".join(f"read_json('{tmp_path}/{side}.json') {side}" for side in SIDES)
    pairs = f"SELECT r.serial AS r_id, s.serial AS s_id FROM {sides} ON {query.workload.condition}"
    right = expected(query.workload, folder)
    assert fingerprint(f"SELECT * FROM ({pairs}) WHERE r_id >= 0") == right
    counts = f"SELECT count(*), sum((r_id < 0)::INT), sum((s_id < 0)::INT) FROM ({pairs})"
    warm = duckdb.connect().execute(counts).fetchone()
    assert warm == (2 * right[0], right[0], right[0])


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.name)
def test_manifests_are_taken_as_they_are(query: Query) -> None:
    plan = make_plan(compile_manifest(manifest(query, "bench", "kafka:9092")))
    assert plan.dispatchers == 2


def test_blocks_hold_the_rows_in_order_with_no_offset_left_out(tmp_path: Path) -> None:
    folder, text = dataset(tmp_path, "keys", 1000), manifest(EQUALITY, "bench", "kafka:9092")
    wire, found = Wire(make_plan(compile_manifest(text))), Counter[tuple[int, int]]()
    rows: dict[int, list[int]] = {0: [], 1: []}
    for _, value, headers in blocks_of(BlockSource(text), folder, rows=64):
        block = wire.decode(Message(value, headers))
        assert isinstance(block, SourceBlock)
        place = block.source, block.partition
        assert block.predecessor == found[place] - 1
        assert block.offsets.tolist() == list(range(found[place], found[place] + len(block.offsets)))
        found[place] += len(block.offsets)
        rows[block.source] += block.columns[0].values.tolist()
    assert rows == {0: list(range(1000)), 1: list(range(1000))}
