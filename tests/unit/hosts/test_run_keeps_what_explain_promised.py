"""The numbers that `explain` shows against the counters of a run: the embedded engine's own tiers, full history, so
that the state is at its largest at the end."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from biclique.core.rows import Vector
from biclique.hosts.local_tiers import EngineClock, LocalTiers
from biclique.hosts.perform import Performer
from biclique.index.protocol import ProbeCounters
from biclique.plan.estimate import estimate
from biclique.plan.make import make_plan
from biclique.plan.merging import merger_estimate
from biclique.plan.statistics import RelationStatistics, Selectivities, Statistics
from biclique.ports.memory import MemoryStore
from biclique.query.compile import compile_manifest
from biclique.tiers.effects import Commit, Effect
from biclique.tiers.inbox import joiner_producer
from biclique.tiers.merger import merger_producer
from biclique.tiers.messages import Block
from biclique.tiers.shuffler import Shuffler

ROWS, BLOCK, DOMAIN, WIDTH = 160_000, 20_000, 160_000, 4

MANIFEST = """
apiVersion: biclique.dev/v1alpha1
kind: JoinQuery
metadata: {{name: promised}}
spec:
  sources:
    - {{name: a, schema: "n BIGINT, x BIGINT", files: {{path: a, format: parquet}}}}
    - {{name: b, schema: "n BIGINT, x BIGINT", files: {{path: b, format: parquet}}}}
  sql: "SELECT a.n AS an, b.n AS bn FROM a JOIN b ON {on}"
  plan: {plan}
  joiners: {{replicas: {units}}}
  output: {{files: {{path: out, format: parquet}}}}
"""
# A step is a block of each side: what arrives while one is on its way.
STATISTICS = Statistics(
    (RelationStatistics(1_000, ROWS), RelationStatistics(1_000, ROWS)),
    Selectivities(equality=1 / DOMAIN, band=(2 * WIDTH + 1) / DOMAIN, inequality=0.5),
    delay_s=BLOCK / 1_000,
)


class StillClock(EngineClock):
    """It moves only when it is told to, so that every run takes the same steps."""

    def __call__(self) -> int:
        return 1_700_000_000_000 + self._ahead_ms


CASES = [
    ("a.n = b.n", "{}", 1),
    ("a.n = b.n", "{strategy: hash}", 4),
    ("a.n = b.n", "{strategy: random}", 3),
    ("a.n = b.n", "{subgroups: {a: 2, b: 3}}", 2),
    ("a.n = b.n", "{strategy: matrix}", 4),
    ("ABS(a.n - b.n) <= 4", "{}", 1),
    ("a.n = b.n AND a.x < b.x", "{}", 1),
]


@pytest.mark.parametrize(("on", "hints", "units"), CASES)
def test_a_run_counts_within_a_fifth_of_what_explain_promised(
    on: str, hints: str, units: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = make_plan(compile_manifest(MANIFEST.format(on=on, plan=hints, units=units)), STATISTICS)
    messages: Counter[int] = Counter()  # tuples sent to units, by side
    perform = Performer.__call__

    def counted(self: Performer, effect: Effect) -> object:
        if isinstance(effect, Commit):
            for _, record in effect.sends:
                if isinstance(record, Block):
                    messages[record.side] += len(record.rows)
        return perform(self, effect)

    monkeypatch.setattr(Performer, "__call__", counted)
    tiers = LocalTiers(plan, MemoryStore(), 1, None, StillClock(), hold=False)
    rng = np.random.default_rng(5)
    before: list[ProbeCounters] = []
    for start in range(0, ROWS, BLOCK):
        if start + BLOCK == ROWS:  # comparisons are those of a probe of the state at its largest
            before = [counters_of(tiers, side) for side in (0, 1)]
        for source in (0, 1):
            columns = [Vector(rng.integers(0, DOMAIN, BLOCK)) for _ in plan.query.sources[source].fields]
            offsets = np.arange(start, start + BLOCK, dtype=np.int64)
            used = columns[: len(plan.stages[0].sides[source].columns)]
            tiers.feed(Shuffler(plan.query, source).pack(0, start - 1, offsets, offsets, used))
        tiers.reach_end()  # so that a step is a block, however fast the machine is

    (expected,) = estimate(plan, STATISTICS)
    joiners = {unit: tiers.watches[joiner_producer(unit)].joiner for unit in tiers.table.units()}
    for side in (0, 1):
        numbers = expected.sides[side]
        states = [j.states[side] for j in joiners.values() if j is not None and side in j.states]
        assert len(states) == numbers.units
        assert sum(s.rows for s in states) / len(states) == pytest.approx(numbers.rows_per_unit, rel=0.2)
        assert sum(s.rows for s in states) / ROWS == pytest.approx(numbers.stores_per_tuple, rel=0.01)
        assert messages[side] / ROWS == pytest.approx(numbers.messages_per_tuple, rel=0.2)
        probes = sum(store.counters.probes for state in states for store in state.stores)
        other = expected.sides[1 - side]
        assert probes / ROWS == pytest.approx(other.probes_per_tuple, rel=0.2)
        last = counters_of(tiers, side)
        touched = (last.comparisons - before[side].comparisons) / (last.probes - before[side].probes)
        assert touched == pytest.approx(numbers.comparisons_per_probe, rel=0.2)
    matches = sum(j.counters.matches for j in joiners.values() if j is not None)
    assert matches == pytest.approx(expected.results_rows, rel=0.2)
    if expected.sides[0].rows_per_unit * 8 < 1 << 20:
        return  # smaller arrays grow by doubling, and what they reserve is not estimated
    largest = max(size for _, size in tiers.state_sizes().values())
    assert largest == pytest.approx(expected.unit_bytes, rel=0.2)


def counters_of(tiers: LocalTiers, side: int) -> ProbeCounters:
    """Of all stores of a side together."""
    total = ProbeCounters()
    for unit in tiers.table.units():
        joiner = tiers.watches[joiner_producer(unit)].joiner
        state = None if joiner is None else joiner.states.get(side)
        for store in () if state is None else state.stores:
            total.probes += store.counters.probes
            total.comparisons += store.counters.comparisons
            total.candidates += store.counters.candidates
    return total


# --- aggregates ------------------------------------------------------------------------------------------------------

AGGREGATE = """
apiVersion: biclique.dev/v1alpha1
kind: JoinQuery
metadata: {{name: promised}}
spec:
  sources:
    - {{name: a, schema: "n BIGINT, x BIGINT, y DOUBLE", files: {{path: a, format: parquet}}}}
    - {{name: b, schema: "n BIGINT, x BIGINT, y DOUBLE", files: {{path: b, format: parquet}}}}
  sql: "SELECT {select} FROM a JOIN b ON ABS(a.n - b.n) <= 10 {group}"
  output: {{files: {{path: out, format: parquet}}}}
"""
FOUND = Statistics(STATISTICS.relations, Selectivities(band=21 / DOMAIN), delay_s=STATISTICS.delay_s)


@pytest.mark.parametrize(
    ("select", "group", "by_totals"),  # of a step's rows some are tested, of all others none
    [
        ("COUNT(*) AS c", "", (True, True)),
        ("COUNT(*) AS c, SUM(a.x) AS sa, SUM(b.x) AS sb", "", (True, True)),
        ("COUNT(*) AS c, SUM(a.x) AS sa, SUM(b.x) AS sb, AVG(a.y) AS ma, AVG(b.y) AS mb", "", (True, True)),
        ("b.x AS x, COUNT(*) AS c, SUM(a.x) AS s", "GROUP BY b.x", (True, False)),
    ],
)
def test_an_aggregating_run_counts_what_explain_promised(select: str, group: str, by_totals: tuple[bool, bool]) -> None:
    plan = make_plan(compile_manifest(AGGREGATE.format(select=select, group=group)), FOUND)
    tiers = LocalTiers(plan, MemoryStore(), 1, None, StillClock(), hold=False)
    rng = np.random.default_rng(5)
    before: list[ProbeCounters] = []
    for start in range(0, ROWS, BLOCK):
        if start + BLOCK == ROWS:
            before = [counters_of(tiers, side) for side in (0, 1)]
        for source in (0, 1):
            offsets = np.arange(start, start + BLOCK, dtype=np.int64)
            columns = {"n": rng.integers(0, DOMAIN, BLOCK), "x": offsets, "y": rng.random(BLOCK)}
            fields = plan.query.sources[source].fields
            used = [Vector(columns[fields[c.field].name]) for c in plan.stages[0].sides[source].columns]
            tiers.feed(Shuffler(plan.query, source).pack(0, start - 1, offsets, offsets, used))
        tiers.reach_end()
    (expected,) = estimate(plan, FOUND)
    for side in (0, 1):
        last, numbers = counters_of(tiers, side), expected.sides[side]
        probes = last.probes - before[side].probes
        touched = (last.comparisons - before[side].comparisons) / probes
        assert touched == pytest.approx(numbers.comparisons_per_probe, rel=0.2)
        candidates = (last.candidates - before[side].candidates) / probes
        assert candidates == pytest.approx(numbers.candidates_per_probe, rel=0.2)
        assert (candidates < 5) == by_totals[side]
    sizes = tiers.state_sizes()
    _, merger_bytes = sizes.pop(str(merger_producer(0)))
    assert max(size for _, size in sizes.values()) == pytest.approx(expected.unit_bytes, rel=0.2)
    merged = merger_estimate(plan, FOUND)
    assert merged is not None and merger_bytes == pytest.approx(merged.bytes, rel=0.2)
