"""A plan may say more than one merger, though no manifest asks for it: each group is one merger's, and the output is
the oracle's, also over a stop between any two blocks."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import pytest

from biclique.hosts import embedded
from biclique.hosts.embedded import Ending, Engine, Options, Outcome
from biclique.hosts.parsing.splitting import BlockMax
from biclique.plan.make import make_plan
from tests.unit.hosts.local_runs import SCHEMA, Given, ThreadTasks, some_rows

QUERIES = {
    "groups": "SELECT a.k, b.d, COUNT(*) AS n, SUM(b.m) AS total, COUNT(DISTINCT a.s) AS texts"
    " FROM a JOIN b ON a.k = b.k GROUP BY a.k, b.d",
    "distinct": "SELECT DISTINCT a.k, b.d FROM a JOIN b ON a.k = b.k",
    "tumble": "SELECT COUNT(*) AS n, a.k, TUMBLE(10 SECONDS) FROM a JOIN b ON a.k = b.k WITHIN 5 SECONDS"
    " GROUP BY a.k, TUMBLE(10 SECONDS)",
}


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("biclique.hosts.file_task.BLOCK_MAX", BlockMax(8))
    monkeypatch.setattr(embedded, "warm_up", lambda plan: None)


@pytest.mark.parametrize("mergers", [2, 5])
@pytest.mark.parametrize("name", QUERIES)
def test_several_mergers_write_what_one_would(tmp_path: Path, name: str, mergers: int) -> None:
    rows = {"a": some_rows(3, 50), "b": some_rows(4, 50)}
    given = Given(tmp_path, QUERIES[name], {"a": SCHEMA, "b": SCHEMA}, rows, "json")
    given.end = "  joiners: {replicas: 2}\n"
    given.write()
    plan = make_plan(given.query)
    assert plan.mergers == 1

    def life(blocks: int) -> Outcome:
        asked = itertools.count()
        options = Options(look_seconds=0.01, barrier_seconds=60.0)
        engine = Engine(
            replace(plan, mergers=mergers), options, lambda: next(asked) >= blocks, lambda facts: None, ThreadTasks
        )
        return engine.run()

    stops = 0
    while life(12 if stops < 3 else 1 << 30).ending is not Ending.FINISHED:
        stops += 1
    assert stops > 0
    assert given.found() == given.expected()
