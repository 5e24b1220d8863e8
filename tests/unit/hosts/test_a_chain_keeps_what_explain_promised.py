"""A join of three relations, a cascade of two stages, counts what `explain` promised of each stage."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from biclique.core.rows import Vector
from biclique.hosts.local_tiers import LocalTiers
from biclique.hosts.perform import Performer
from biclique.plan.estimate import estimate
from biclique.plan.make import make_plan
from biclique.plan.statistics import RelationStatistics, Selectivities, Statistics
from biclique.ports.memory import MemoryStore
from biclique.query.compile import compile_manifest
from biclique.query.used import used_fields
from biclique.tiers.effects import Commit, Effect
from biclique.tiers.inbox import joiner_producer
from biclique.tiers.messages import Block
from biclique.tiers.shuffler import Shuffler
from tests.unit.hosts.test_run_keeps_what_explain_promised import StillClock

ROWS, BLOCK, DOMAIN = 40_000, 5_000, 20_000

MANIFEST = """
apiVersion: biclique.dev/v1alpha1
kind: JoinQuery
metadata: {{name: promised}}
spec:
  sources:
    - {{name: a, schema: "n BIGINT, x BIGINT", files: {{path: a, format: parquet}}}}
    - {{name: b, schema: "n BIGINT, x BIGINT", files: {{path: b, format: parquet}}}}
    - {{name: c, schema: "n BIGINT, x BIGINT", files: {{path: c, format: parquet}}}}
  sql: "SELECT a.x AS ax, b.x AS bx, c.x AS cx FROM a JOIN b ON a.n = b.n JOIN c ON b.x = c.x"
  joiners: {{replicas: {units}}}
  output: {{files: {{path: out, format: parquet}}}}
"""
STATISTICS = Statistics(
    tuple(RelationStatistics(1_000, ROWS) for _ in range(3)),
    Selectivities(equality=1 / DOMAIN),
    delay_s=BLOCK / 1_000,
)


@pytest.mark.parametrize("units", [1, 2])
def test_every_stage_counts_within_a_fifth(units: int, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = make_plan(compile_manifest(MANIFEST.format(units=units)), STATISTICS)
    sent: Counter[tuple[int, int]] = Counter()  # rows sent to units, by stage and side
    perform = Performer.__call__

    def counted(self: Performer, effect: Effect) -> object:
        if isinstance(effect, Commit):
            for _, record in effect.sends:
                if isinstance(record, Block):
                    sent[record.stage, record.side] += len(record.rows)
        return perform(self, effect)

    monkeypatch.setattr(Performer, "__call__", counted)
    tiers = LocalTiers(plan, MemoryStore(), 1, None, StillClock(), hold=False)
    rng = np.random.default_rng(5)
    for start in range(0, ROWS, BLOCK):
        for source in range(3):
            columns = [Vector(rng.integers(0, DOMAIN, BLOCK)) for _ in used_fields(plan.query, source)]
            offsets = np.arange(start, start + BLOCK, dtype=np.int64)
            tiers.feed(Shuffler(plan.query, source).pack(0, start - 1, offsets, offsets, columns))
        tiers.reach_end()

    expected = estimate(plan, STATISTICS)
    assert len(expected) == 2
    for number, stage in enumerate(expected):
        units_of = [unit for unit in tiers.table.units() if unit.subgroup.stage == number]
        joiners = [joiner for unit in units_of if (joiner := tiers.watches[joiner_producer(unit)].joiner) is not None]
        for side in (0, 1):
            numbers = stage.sides[side]
            states = [joiner.states[side] for joiner in joiners if side in joiner.states]
            stored = sum(state.rows for state in states)
            assert len(states) == numbers.units
            assert stored / len(states) == pytest.approx(numbers.rows_per_unit, rel=0.2)
            rows = stored / numbers.stores_per_tuple
            other = stage.sides[1 - side]
            probes = sum(store.counters.probes for state in states for store in state.stores)
            assert probes == pytest.approx(other.rows * other.probes_per_tuple, rel=0.2)
            assert sent[number, side] / rows == pytest.approx(numbers.messages_per_tuple, rel=0.2)
        assert sum(joiner.counters.matches for joiner in joiners) == pytest.approx(stage.results_rows, rel=0.2)
