"""A query with two inequalities is never a scan, whatever statistics are assumed: as planned, stored and probed the way
a joiner does it, where each inequality alone passes half of all pairs and both together none."""

from __future__ import annotations

import math

import numpy as np
import pytest

from biclique.core.rows import Rows, Vector
from biclique.core.stamps import tuple_ids
from biclique.plan.make import make_plan
from biclique.plan.model import LEFT, RIGHT
from biclique.query.expression import Column
from biclique.query.types import Kind
from biclique.tiers.matching import Probing
from biclique.tiers.state import SideState
from tests.unit.plan.queries import SCHEMA, query

ROWS, PROBES, BLOCKS = 40_000, 200, 10
WINDOW_US = 500_000
COMPARISONS_PER_LEVEL = 10  # of a run
RUNS_MAX = 12  # a window is kept in tenths
CASES = {
    "plain": "a.x <= b.x AND a.y < b.y",
    "with an equality": "a.n = b.n AND a.x <= b.x AND a.y < b.y",
    "within a window": "a.x <= b.x AND a.y < b.y WITHIN 500 MILLISECONDS",
    "with an equality, within a window": "a.n = b.n AND a.x <= b.x AND a.y < b.y WITHIN 500 MILLISECONDS",
    "over one key": "a.x <= b.lo AND a.x <= b.hi",
}


def values(column: Column, x: np.ndarray) -> Vector:
    """y falls as x rises; n is the same in every row; lo is above all x, and hi below."""
    ones = np.ones(len(x))
    made = {"n": 7 * ones, "x": x, "y": -x, "lo": ROWS * ones, "hi": -ones}
    name = SCHEMA.split(", ")[column.field].split()[0]
    return Vector(made.get(name, x).astype(np.float64 if column.type.kind is Kind.DOUBLE else np.int64))


def rows_of(columns: tuple[Column, ...], x: np.ndarray, first: int) -> Rows:
    numbers = np.arange(first, first + len(x), dtype=np.int64)
    times = numbers * (WINDOW_US - 1) // (ROWS + PROBES)  # all of them within one window
    return Rows(
        numbers.astype(np.uint64) + np.uint64(1 << 40),
        (tuple_ids(0, 0, numbers),),
        times,
        times,
        tuple(values(column, x) for column in columns),
    )


@pytest.mark.parametrize("stored", [LEFT, RIGHT])
@pytest.mark.parametrize("case", CASES)
def test_a_probe_costs_a_logarithm(case: str, stored: int) -> None:
    stage = make_plan(query(f"SELECT a.id FROM a JOIN b ON {CASES[case]}")).stages[0]
    assert not stage.sides[stored].access.residual
    state = SideState(stage, stored)
    rng = np.random.default_rng(stored)
    for number, x in enumerate(np.array_split(rng.permutation(ROWS), BLOCKS)):
        state.append(rows_of(stage.sides[stored].columns, x, number * len(x)))
    probes = rows_of(stage.sides[1 - stored].columns, rng.integers(0, ROWS, PROBES), ROWS)
    found = list(Probing(stage, state).find(probes, 0, state.own.end, 1 << 28))
    assert not found
    counters = state.own.counters
    runs = counters.lookups / PROBES
    assert 1 <= runs <= RUNS_MAX
    assert 0 < counters.comparisons <= COMPARISONS_PER_LEVEL * math.log2(ROWS) * runs * PROBES
