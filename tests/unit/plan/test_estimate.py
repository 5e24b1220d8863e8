"""Estimates against the counters of routers and stores that really run: within 20 %, for every strategy and index.

Two sides flow for three windows; what is counted is the last one, when the state is as large as it gets.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from numpy.typing import NDArray

from biclique.core.rows import Rows, Vector
from biclique.core.stamps import tuple_ids
from biclique.index.access import ProbeKeysOf, StoredKeysOf
from biclique.index.build import new_store
from biclique.index.protocol import ProbeOrder, Store, StoreLayout
from biclique.kernels.hashing import hash_rows
from biclique.plan import cost
from biclique.plan.estimate import SideEstimate, estimate
from biclique.plan.make import make_plan
from biclique.plan.model import Plan
from biclique.plan.statistics import RelationStatistics, Selectivities, Statistics
from biclique.plan.table import first_table
from biclique.query.expression import Column
from biclique.routing.choose import router
from biclique.routing.protocol import Role, Strategy
from biclique.routing.table import UnitId
from tests.unit.plan.queries import query

RATE, WINDOW_S = 4_000, 2
WINDOW_US, WINDOW_ROWS = WINDOW_S * 1_000_000, RATE * WINDOW_S
BLOCK, WINDOWS = 400, 3
DOMAIN, WIDTH = 500, 10  # of the equality key; of the band, in a domain of 10,000


@dataclass
class Run:
    """Every unit's stores, and what was counted in the last window."""

    plan: Plan
    segment_rows_min: int = 1
    stores: dict[tuple[UnitId, int], Store] = field(default_factory=dict)
    stored: Counter[int] = field(default_factory=Counter)  # by side
    sent: Counter[int] = field(default_factory=Counter)
    sent_bytes: int = 0
    probes: Counter[int] = field(default_factory=Counter)  # by the side that probes
    candidates: Counter[int] = field(default_factory=Counter)  # by the side that is probed
    comparisons: Counter[int] = field(default_factory=Counter)  # the same
    matches: int = 0

    def __post_init__(self) -> None:
        self.stage = self.plan.stages[0]
        self.table, self.route = first_table(self.plan), router(self.stage.strategy, 0)
        positions = [{column: n for n, column in enumerate(side.columns)} for side in self.stage.sides]
        parts = [(s.access.equal, s.access.first, s.access.second) for s in self.stage.sides]
        self.stored_keys = [StoredKeysOf(*parts[s], positions[s]) for s in (0, 1)]
        self.probe_keys = [ProbeKeysOf(*parts[1 - s], positions[s]) for s in (0, 1)]
        self.route_by = [[positions[s][e] for e in self.stage.sides[s].route if isinstance(e, Column)] for s in (0, 1)]

    def store(self, unit: UnitId, side: int) -> Store:
        if (unit, side) not in self.stores:
            access = self.stage.sides[side].access
            types = tuple(column.type for column in self.stage.sides[side].columns)
            self.stores[unit, side] = new_store(
                StoreLayout(access.kind, types, 1, WINDOW_US // 10, segment_rows_min=self.segment_rows_min)
            )
        return self.stores[unit, side]

    def flow(self, side: int, rows: Rows, counted: bool) -> None:
        hashes: NDArray[np.uint64] | None = None
        if self.route_by[side]:
            hashes, _ = hash_rows([rows.columns[n] for n in self.route_by[side]])
        for share in self.route(self.table, side, rows.ids[0], hashes):
            part = rows if share.rows is None else rows.take(share.rows)
            self.sent[side] += len(part) * counted
            self.sent_bytes += part.nbytes * counted
            if share.role is not Role.STORE:
                self.probe(share.unit, side, part, counted)
            if share.role is not Role.PROBE:
                own = self.store(share.unit, side)
                own.append(part, self.stored_keys[side](part.columns, len(part)))
                own.expire(int(rows.newest[-1]) - WINDOW_US)
                self.stored[side] += len(part) * counted

    def probe(self, unit: UnitId, side: int, rows: Rows, counted: bool) -> None:
        other = self.store(unit, 1 - side)
        order = ProbeOrder(rows.stamps, rows.newest, rows.oldest, other.end, WINDOW_US, WINDOW_US)
        before = replace(other.counters)
        keys = self.probe_keys[side](rows.columns, len(rows))
        matches = sum(len(found.probe) for found in other.probe(keys, order))
        if counted:
            self.probes[side] += len(rows)
            self.candidates[1 - side] += other.counters.candidates - before.candidates
            self.comparisons[1 - side] += other.counters.comparisons - before.comparisons
            self.matches += matches


def rows_of(plan: Plan, side: int, start: int, rng: np.random.Generator) -> Rows:
    numbers = np.arange(start, start + BLOCK, dtype=np.int64)
    times = numbers * (1_000_000 // RATE)
    columns = []
    for column in plan.stages[0].sides[side].columns:
        name = plan.query.sources[side].fields[column.field].name
        domain = DOMAIN if name == "n" else 10_000
        values = rng.integers(0, domain, BLOCK)
        columns.append(Vector(values.astype(np.float64 if name in ("x", "y") else np.int64)))
    stamps = (2 * numbers + side).astype(np.uint64)
    return Rows(stamps, (tuple_ids(side, 0, numbers),), times, times, tuple(columns))


def run(plan: Plan, segment_rows_min: int = 1, windows: int = WINDOWS, counted_from: int = WINDOWS - 1) -> Run:
    rng, running = np.random.default_rng(11), Run(plan, segment_rows_min)
    for start in range(0, windows * WINDOW_ROWS, BLOCK):
        for side in (0, 1):
            running.flow(side, rows_of(plan, side, start, rng), start >= counted_from * WINDOW_ROWS)
    return running


EQUALITY = "SELECT a.id FROM a JOIN b ON a.n = b.n WITHIN 2 SECONDS"
BAND = f"SELECT a.id FROM a JOIN b ON ABS(a.id - b.id) <= {WIDTH} WITHIN 2 SECONDS"
TWO = "SELECT a.id FROM a JOIN b ON a.x < b.x AND a.y < b.y WITHIN 2 SECONDS"
BOTH = "SELECT a.id FROM a JOIN b ON a.n = b.n AND a.x < b.x WITHIN 2 SECONDS"
OTHER = "SELECT a.id FROM a JOIN b ON a.id <> b.id WITHIN 2 SECONDS"
SHARES = Selectivities(equality=1 / DOMAIN, band=(2 * WIDTH + 1) / 10_000, inequality=0.5, unequal=1.0)
# A step is a block: what arrives while one is on its way.
STATISTICS = Statistics(
    (RelationStatistics(RATE, WINDOW_ROWS), RelationStatistics(RATE, WINDOW_ROWS)), SHARES, delay_s=BLOCK / RATE
)
CASES = [
    (EQUALITY, {"units": 4}),
    (EQUALITY, {"units": 4, "strategy": "random"}),
    (EQUALITY, {"units": 2, "subgroups": {"a": 2, "b": 3}}),
    (EQUALITY, {"units": 3, "strategy": "matrix"}),
    (BAND, {"units": 2}),
    (BAND, {"units": 2, "strategy": "matrix"}),
    (TWO, {"units": 2}),
    (BOTH, {"units": 2}),
    (BOTH, {"units": 2, "strategy": "random"}),
    (EQUALITY, {"units": 3, "strategy": "hash"}),
    (EQUALITY, {"units": 3, "subgroups": {"a": 3, "b": 2}}),
    (EQUALITY, {"units": 8, "strategy": "matrix"}),
    (OTHER, {"units": 2, "subgroups": {"a": 2}}),
]


@pytest.mark.parametrize(("sql", "hints"), CASES)
def test_estimates_are_within_a_fifth_of_what_is_counted(
    sql: str, hints: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cost, "SEGMENT_ROWS_MIN", 1)  # as the stores here: so few rows would stay in one segment
    plan = make_plan(query(sql, **hints), STATISTICS)  # type: ignore[arg-type]
    running, (expected,) = run(plan), estimate(plan, STATISTICS)
    tuples = WINDOW_ROWS  # of each side, in the window that was counted
    for side in (0, 1):
        numbers: SideEstimate = expected.sides[side]
        stores = [store for (_, of), store in running.stores.items() if of == side]
        assert len(stores) == numbers.units
        assert sum(s.rows for s in stores) / len(stores) == pytest.approx(numbers.rows_per_unit, rel=0.2)
        assert running.stored[side] / tuples == pytest.approx(numbers.stores_per_tuple, rel=0.01)
        assert running.probes[side] / tuples == pytest.approx(numbers.probes_per_tuple, rel=0.2)
        assert running.sent[side] / tuples == pytest.approx(numbers.messages_per_tuple, rel=0.2)
        if sql != TWO:  # there, candidates are the nodes that a walk touches, which is what comparisons estimate
            per_probe = running.candidates[side] / running.probes[1 - side]
            assert per_probe == pytest.approx(numbers.candidates_per_probe, rel=0.2)
        touched = running.comparisons[side] / running.probes[1 - side]
        assert touched == pytest.approx(numbers.comparisons_per_probe, rel=0.2)
    unit_bytes: Counter[UnitId] = Counter()
    for (unit, _), store in running.stores.items():
        unit_bytes[unit] += store.bytes
    assert sum(unit_bytes.values()) / len(unit_bytes) == pytest.approx(mean_unit_bytes(plan), rel=0.2)
    assert running.sent_bytes / WINDOW_S == pytest.approx(expected.traffic_bytes_per_s, rel=0.2)
    assert running.matches / WINDOW_S == pytest.approx(expected.results_per_s, rel=0.2)


def mean_unit_bytes(plan: Plan) -> float:
    (expected,) = estimate(plan, STATISTICS)
    held = [s.units * s.rows_per_unit * (s.row_bytes + s.index_bytes) for s in expected.sides]
    units = expected.sides[0].units
    return sum(held) / (units if plan.stages[0].strategy is Strategy.MATRIX else units + expected.sides[1].units)


@pytest.mark.parametrize("sql", [EQUALITY, BAND, BOTH, OTHER])
def test_where_a_window_is_less_than_a_segment_a_probe_pays_for_what_is_kept_too_long(sql: str) -> None:
    """Segments have a least size, and go as a whole: such a store holds more than the window, half a segment on
    average; so many windows are counted that it comes and goes."""
    plan = make_plan(query(sql, units=2), STATISTICS)
    (expected,) = estimate(plan, STATISTICS)
    running = run(plan, cost.SEGMENT_ROWS_MIN, 12, 4)
    for side in (0, 1):
        touched = running.comparisons[side] / running.probes[1 - side]
        assert touched == pytest.approx(expected.sides[side].comparisons_per_probe, rel=0.2)
