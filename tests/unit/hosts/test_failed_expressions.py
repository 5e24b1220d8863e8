"""What failed is counted once: however often it was stopped or killed, and in however many units a tuple is stored."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest

from biclique.hosts import embedded
from biclique.hosts.embedded import Ending, Outcome
from biclique.hosts.parsing.splitting import BlockMax
from tests.unit.hosts.local_runs import Given

SCHEMA = "id INT, k INT, d INT, at TIMESTAMP"
ROWS = [(n, n % 4, n % 5, n) for n in range(40)]
PAIRS = [(a, b) for a in ROWS for b in ROWS if a[1] == b[1]]
ZEROS = sum(row[2] == 0 for row in ROWS)
CASES = {
    "key": ("SELECT a.id, b.id AS bid FROM a JOIN b ON a.id / a.d = b.id", ZEROS),
    "keys of both": ("SELECT a.id, b.id AS bid FROM a JOIN b ON a.id / a.d < b.id / b.d AND a.k = b.k", 2 * ZEROS),
    "residual": (
        "SELECT a.id, b.id AS bid FROM a JOIN b ON a.k = b.k AND 1 / (a.d * b.d - 6) < 5",
        sum(a[2] * b[2] == 6 for a, b in PAIRS),
    ),
    "select list": (
        "SELECT a.id, b.id AS bid, 1 / b.d AS inverse FROM a JOIN b ON a.k = b.k",
        sum(b[2] == 0 for _, b in PAIRS),
    ),
    "aggregate": (
        "SELECT COUNT(10 / b.d) AS whole, COUNT(*) AS n FROM a JOIN b ON a.k = b.k",
        sum(b[2] == 0 for _, b in PAIRS),
    ),
    "where": ("SELECT a.id, b.id AS bid FROM a JOIN b ON a.k = b.k WHERE 10 / a.d > 0", ZEROS),
    "where of one of two": (
        "SELECT p.id, q.id AS qid FROM a p JOIN a q ON p.k = q.k JOIN b ON b.id = q.id WHERE 10 / p.d > 0",
        ZEROS,
    ),
    "key of a partial result": (
        "SELECT a.id, b.id AS bid FROM a JOIN b ON a.k = b.k JOIN c ON a.id / b.d = c.id",
        sum(b[2] == 0 for _, b in PAIRS),
    ),
}
PLANS = {
    "as chosen": "",
    "random": "  plan: {strategy: random}\n  joiners: {replicas: 3}\n",
    "matrix": "  plan: {strategy: matrix}\n  joiners: {replicas: 3}\n",
    "matrix of four": "  plan: {strategy: matrix}\n  joiners: {replicas: 4}\n",
}


class Killed(BaseException):
    """Nothing catches it."""


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("biclique.hosts.file_task.BLOCK_MAX", BlockMax(8))
    monkeypatch.setattr(embedded, "warm_up", lambda plan: None)


def given(folder: Path, case: str, plan: str) -> tuple[Given, int]:
    sql, failing = CASES[case]
    names = [name for name in "abc" if f" {name} " in f"{sql} "]
    run = Given(folder, sql, dict.fromkeys(names, SCHEMA), dict.fromkeys(names, ROWS), end=PLANS[plan])
    run.write()
    return run, failing


def failed(run: Given, outcome: Outcome) -> int:
    assert outcome.ending is Ending.FINISHED
    assert run.found() == run.expected()
    assert outcome.summary is not None
    return outcome.summary.failed_expressions


def asked_often(times: int) -> Callable[[], bool]:
    asked = itertools.count(1)
    return lambda: next(asked) >= times


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("case", CASES)
def test_in_one_go(tmp_path: Path, case: str, plan: str) -> None:
    run, failing = given(tmp_path, case, plan)
    assert failing > 0
    assert failed(run, run.run()) == failing


@pytest.mark.parametrize("plan", ["random", "matrix"])
@pytest.mark.parametrize("case", CASES)
def test_stopped_again_and_again(tmp_path: Path, case: str, plan: str) -> None:
    run, failing = given(tmp_path, case, plan)
    for stops in itertools.count():
        outcome = run.run(stop=asked_often(7), barrier_seconds=60.0 if stops % 2 else 0.0)
        if outcome.ending is not Ending.STOPPED:
            break
    assert stops > 1
    assert failed(run, outcome) == failing


@pytest.mark.parametrize("plan", ["matrix"])
@pytest.mark.parametrize("case", CASES)
def test_killed_again_and_again(tmp_path: Path, case: str, plan: str) -> None:
    """Also what was counted after the last barrier is done again, and counted once."""
    run, failing = given(tmp_path, case, plan)
    kills = 0

    def killing(times: int) -> Callable[[], bool]:
        due = asked_often(times)

        def stop() -> bool:
            if due():
                raise Killed
            return False

        return stop

    while True:
        try:
            outcome = run.run(stop=killing(6 + kills), barrier_seconds=0.01)
            break
        except Killed:
            kills += 1
    assert kills > 1
    assert failed(run, outcome) == failing


@pytest.mark.parametrize("barrier_seconds", [60.0, 0.0])
def test_expressions_that_fail_are_counted_once_wherever_they_stand(tmp_path: Path, barrier_seconds: float) -> None:
    """In WHERE, in a key, in a residual and in the select list; over all runs that it took."""
    rows = [(n, n % 5, n) for n in range(40)]
    schema = "id INT, d INT, at TIMESTAMP"
    sql = (
        "SELECT a.id AS aid, 1 / b.d AS inverse FROM a JOIN b ON a.id = b.id AND 1 / (a.id - 3) < 5"
        " WHERE 1 / (a.id - 7) < 9"
    )
    run = Given(tmp_path, sql, {"a": schema, "b": schema}, {"a": rows, "b": rows})
    run.end = "  plan: {strategy: random}\n  joiners: {replicas: 2}\n"
    run.write()
    asked = iter([False] * 3 + [True] + [False] * 1000)
    outcome = run.run(stop=lambda: next(asked), barrier_seconds=barrier_seconds)
    while outcome.ending is Ending.STOPPED:
        outcome = run.run(barrier_seconds=barrier_seconds)
    assert run.found() == run.expected()
    assert outcome.summary is not None
    # Row 7 of a fails in WHERE, row 3 too in the condition over a alone (a filter as well); of b every fifth row that
    # meets its partner fails in the select list.
    assert outcome.summary.sources[0].filtered == 2
    assert outcome.summary.failed_expressions == 2 + len([n for n in range(0, 40, 5) if n not in (3, 7)])
