"""As many relations as the language takes: five, joined over several units, stopped and gone on
with; the oracle's answer."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from biclique.hosts import embedded
from biclique.hosts.embedded import Ending
from biclique.hosts.parsing.splitting import BlockMax
from tests.unit.hosts.local_runs import Given

pytestmark = pytest.mark.slow  # as many rows, or queries, take longer than make check has

SCHEMA = "id INT, k INT, x INT, at TIMESTAMP"
SECOND_US = 1_000_000
ITEMS = "v.id AS vid, w.id AS wid, y.id AS yid, z.id AS zid, u.id AS uid"
QUERIES = {
    "chain": (
        f"SELECT {ITEMS} FROM v JOIN w ON v.k = w.k JOIN y ON w.x = y.x JOIN z ON y.k = z.k AND w.id <= z.id"
        " JOIN u ON z.x < u.x AND u.k = v.k"
    ),
    "star within a window": (
        f"SELECT {ITEMS} FROM v JOIN w ON v.k = w.k JOIN y ON v.k = y.k AND v.x <> y.x JOIN z ON ABS(v.x - z.x) <= 1"
        " AND z.k = y.k JOIN u ON u.x + v.x > 5 AND u.k = v.k WITHIN 12 SECONDS"
    ),
    "one source five times": (
        "SELECT p.id AS pid, q.id AS qid, r.id AS rid, s.id AS sid, t.id AS tid FROM v p JOIN v q ON p.k = q.k"
        " AND p.id < q.id JOIN v r ON q.k = r.k AND q.id < r.id JOIN v s ON r.x = s.x JOIN v t ON s.k = t.k"
        " AND s.x < t.x"
    ),
    "counted": (
        "SELECT v.k, COUNT(*) AS n, SUM(u.x) AS total FROM v JOIN w ON v.k = w.k JOIN y ON w.x = y.x"
        " JOIN z ON y.k = z.k JOIN u ON z.x = u.x AND u.k = v.k GROUP BY v.k"
    ),
}
PLANS = {
    "as chosen": "  joiners: {replicas: 3}\n",
    "random": "  plan: {strategy: random}\n  joiners: {replicas: 2}\n",
    "matrix": "  plan: {strategy: matrix}\n  joiners: {replicas: 4}\n",
}


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("biclique.hosts.file_task.BLOCK_MAX", BlockMax(4))
    monkeypatch.setattr(embedded, "warm_up", lambda plan: None)


def given(folder: Path, sql: str, plan: str) -> Given:
    rng = random.Random(sql)
    names = [name for name in "vwyzu" if f" {name} " in f"{sql} "]
    rows = {
        name: [(n, rng.choice((0, 1, 2, 3, None)), rng.randrange(4), n * SECOND_US) for n in range(14)]
        for name in names
    }
    run = Given(folder, sql, dict.fromkeys(names, SCHEMA), rows, "json", end=plan)
    run.write()
    return run


def asked_often(times: int) -> Callable[[], bool]:
    asked = itertools.count(1)
    return lambda: next(asked) >= times


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("name", QUERIES)
def test_the_output_is_the_oracles_also_when_it_is_stopped(tmp_path: Path, name: str, plan: str) -> None:
    run = given(tmp_path, QUERIES[name], PLANS[plan])
    assert len(run.query.relations) == 5
    stops = 0
    while (outcome := run.run(stop=asked_often(4 + stops))).ending is Ending.STOPPED:
        stops += 1
    assert stops > 0
    assert outcome.ending is Ending.FINISHED
    expected = run.expected()
    assert sum(expected.values()) > 2
    assert run.found() == expected
