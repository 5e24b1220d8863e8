"""The warm-up on made-up rows: it goes through the whole query, is small whatever the condition, and fails no run."""

from __future__ import annotations

from pathlib import Path

import pytest

from biclique.hosts import warm_up as module
from biclique.hosts.local_tiers import LocalTiers
from biclique.hosts.warm_up import RESULTS_MAX, TURNS, rows_of_a_turn, run_made_up_rows, warm_up
from biclique.kernels.groups import SumOverflow
from biclique.plan.make import make_plan
from biclique.plan.model import Plan
from biclique.query.compile import compile_manifest
from biclique.tiers.messages import Record, Results, Topic
from tests.unit.hosts.local_runs import START, Given

SCHEMA = "k INT, m BIGINT, at TIMESTAMP"
OVERFLOWS = [
    "SELECT SUM(a.m * 922337203685477580) AS n FROM a JOIN b ON a.k = b.k",
    "SELECT SUM(CAST(1 AS DOUBLE) * 1e308) AS n FROM a JOIN b ON a.k = b.k",
]
ROWS = {1: 8192, 2: 64, 3: 12, 4: 5, 5: 3}


def given(folder: Path, sql: str) -> Given:
    """One row on each side, and they meet."""
    row = (1, 7, START)
    return Given(folder, sql, {"a": SCHEMA, "b": SCHEMA}, {"a": [row], "b": [row]})


def plan_of(folder: Path, sql: str) -> Plan:
    made = given(folder, sql)
    made.write()
    return make_plan(compile_manifest(made.manifest, str(folder)))


def self_join(relations: int) -> str:
    """Every tuple meets every other: the made-up numbers are between 0 and 6."""
    near = "".join(f" JOIN a r{n} ON ABS(r{n - 1}.m - r{n}.m) <= 100" for n in range(1, relations))
    return f"SELECT r0.m AS first, r{relations - 1}.m AS last FROM a r0{near} JOIN b ON b.m <= 100"


@pytest.mark.parametrize("sql", OVERFLOWS)
def test_a_sum_that_overflows_on_made_up_rows_fails_nothing(tmp_path: Path, sql: str) -> None:
    plan = plan_of(tmp_path, sql)
    with pytest.raises(SumOverflow):
        run_made_up_rows(plan)
    warm_up(plan)


@pytest.mark.parametrize("sql", OVERFLOWS)
def test_the_run_behind_it_gives_the_sum_of_the_user_s_rows(tmp_path: Path, sql: str) -> None:
    run = given(tmp_path, sql)
    run.write()
    outcome = run.run()
    assert run.found() == run.expected()
    assert sum(run.found().values()) == 1
    assert outcome.summary is not None
    assert [source.read for source in outcome.summary.sources] == [1, 1]


@pytest.mark.parametrize("relations", sorted(ROWS))
def test_rows_are_as_many_as_may_all_meet(relations: int) -> None:
    rows = rows_of_a_turn(relations)
    assert rows == ROWS[relations]
    assert (TURNS * rows) ** relations <= RESULTS_MAX < (TURNS * (rows + 1)) ** relations


@pytest.mark.parametrize("relations", [2, 3, 4])
def test_a_condition_that_holds_for_all_gives_no_more_results(
    tmp_path: Path, relations: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[Record] = []
    take = LocalTiers.take

    def kept(tiers: LocalTiers, topic: Topic):  # type: ignore[no-untyped-def]
        for record in take(tiers, topic):
            taken.append(record)
            yield record

    monkeypatch.setattr(module.LocalTiers, "take", kept)
    run_made_up_rows(plan_of(tmp_path, self_join(relations)))
    results = sum(len(record.times) for record in taken if isinstance(record, Results))
    assert results == (TURNS * ROWS[relations + 1]) ** (relations + 1)
    assert all(isinstance(record, Results) for record in taken), "a made-up row is late or dead"
