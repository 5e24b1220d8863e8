"""Windows of so many tuples in the embedded engine: the output is the nested loop's, given the stamps of that run.

Which pairs qualify depends on how the sources interleave, so the stamps are written down as they are given; what a life
stamped behind its last barrier is stamped again by the next one.
"""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from biclique.core.rows import Vector
from biclique.core.stamps import parts_of_id
from biclique.hosts import embedded
from biclique.hosts.embedded import Ending
from biclique.hosts.local_tiers import EngineClock, LocalTiers, Resumed
from biclique.hosts.parsing.splitting import BlockMax
from biclique.hosts.perform import Performer
from biclique.plan.estimate import estimate
from biclique.plan.make import make_plan
from biclique.plan.statistics import default_statistics
from biclique.ports.memory import MemoryStore
from biclique.query.compile import compile_manifest
from biclique.tiers.effects import Commit, Effect
from biclique.tiers.inbox import joiner_producer
from biclique.tiers.messages import Block, Heartbeat, Results, Topic
from biclique.tiers.shuffler import Shuffler
from tests.model.oracle import Tuple, expected
from tests.unit.hosts.local_runs import SCHEMA, Given, some_rows
from tests.unit.hosts.test_embedded import Killed, KillSwitch, after_a_while

ROWS = 60
QUERIES = {
    "equality": "SELECT a.id AS aid, b.id AS bid, b.at FROM a JOIN b ON a.k = b.k",
    "no condition": "SELECT a.id AS aid, b.id AS bid FROM a, b",
    "a filter and an inequality": "SELECT a.id AS aid, b.id AS bid FROM a JOIN b ON a.x < b.x WHERE a.b",
    "a self join": "SELECT p.id AS pid, q.id AS qid FROM a p JOIN a q ON p.k = q.k AND q.b",
    "groups": "SELECT a.k, COUNT(*) AS n, SUM(b.m) AS total FROM a JOIN b ON a.k = b.k GROUP BY a.k",
    "counts from ranges": "SELECT a.k, COUNT(*) AS n, SUM(b.k) AS total FROM a JOIN b ON a.k <= b.k GROUP BY a.k",
    "groups that close": "SELECT a.k, COUNT(*) AS n FROM a JOIN b ON a.k = b.k GROUP BY a.k, TUMBLE(10 SECONDS)",
    "distinct": "SELECT DISTINCT a.k, b.d FROM a JOIN b ON a.k = b.k",
}


class Stamped:
    """A run, and the stamp that it gave to each tuple last."""

    def __init__(self, folder: Path, sql: str, tuples: int, end: str, patch: pytest.MonkeyPatch) -> None:
        schemas = {name: SCHEMA for name in ("a", "b") if f" {name}" in sql}
        rows = {name: some_rows(seed, ROWS) for seed, name in enumerate(schemas)}
        self.run = Given(folder, sql, schemas, rows, "json", more=f", window: {{tuples: {tuples}}}", end=end)
        self.run.write()
        self._stamps: dict[int, int] = {}
        perform, stamps = Performer.__call__, self._stamps

        def noting(performer: Performer, effect: Effect) -> object:
            if isinstance(effect, Commit) and effect.owner.tier == "dispatcher":
                blocks = (record for _, record in effect.sends if isinstance(record, Block))
                for block in blocks:
                    stamps.update(zip(block.rows.ids[0].tolist(), block.rows.stamps.tolist(), strict=True))
            return perform(performer, effect)

        patch.setattr(Performer, "__call__", noting)

    def expected(self) -> Counter[tuple[object, ...]]:
        query = self.run.query
        relations: list[list[Tuple]] = [[] for _ in query.relations]
        for identity, stamp in self._stamps.items():
            relation, _, row = parts_of_id(identity)
            source = query.sources[query.relations[relation].source]
            values = self.run.rows[source.name][row]
            assert source.event_time.column is not None
            relations[relation].append(Tuple(row, values[source.event_time.column], values, stamp))
        found: Counter[tuple[object, ...]] = Counter()
        for (_, values), count in expected(query, relations).items():
            found[values] += count
        return found


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("biclique.hosts.file_task.BLOCK_MAX", BlockMax(5))
    monkeypatch.setattr(embedded, "warm_up", lambda plan: None)


@pytest.mark.parametrize(
    "end", ["", "  joiners: {replicas: 2}\n  plan: {strategy: matrix}", "  joiners: {replicas: 3}"]
)
@pytest.mark.parametrize("name", QUERIES)
def test_the_output_is_the_oracles_for_these_stamps(
    tmp_path: Path, name: str, end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stamped = Stamped(tmp_path, QUERIES[name], 7, end, monkeypatch)
    assert stamped.run.run().ending is Ending.FINISHED
    assert stamped.run.found() == stamped.expected()
    assert stamped.run.found()


@pytest.mark.parametrize("name", ["equality", "a self join", "groups"])
def test_killed_anywhere_and_gone_on_with(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stamped = Stamped(tmp_path, QUERIES[name], 7, "", monkeypatch)
    rng, lives = random.Random(name), 0
    while True:
        lives += 1
        with monkeypatch.context() as patch:
            KillSwitch(patch, rng.randrange(1, 40) if lives < 15 else 1 << 30)
            try:
                outcome = stamped.run.run(barrier_seconds=0.0)
                break
            except Killed:
                pass
    assert lives > 3 and outcome.ending in (Ending.FINISHED, Ending.NOTHING_TO_DO)
    assert stamped.run.found() == stamped.expected()


def test_stopped_again_and_again_and_gone_on_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stamped = Stamped(tmp_path, QUERIES["no condition"], 7, "", monkeypatch)
    stops = 0
    while stamped.run.run(stop=after_a_while()).ending is not Ending.FINISHED:
        stops += 1
    assert stops > 2
    assert stamped.run.found() == stamped.expected()


@pytest.mark.parametrize("block_rows", [1, 7, 1000])
def test_the_last_so_many_of_one_source_are_those_of_its_order(
    tmp_path: Path, block_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many rows come in one block."""
    monkeypatch.setattr("biclique.hosts.file_task.BLOCK_MAX", BlockMax(block_rows))
    sql = "SELECT x.id AS now, y.id AS other FROM a x JOIN a y ON x.k >= y.k"
    stamped = Stamped(tmp_path, sql, 3, "", monkeypatch)
    stamped.run.run()
    assert stamped.run.found() == stamped.expected()
    rows = [(row, row[schema_place("k")]) for row in stamped.run.rows["a"]]
    due = Counter(
        (x[schema_place("id")], y[schema_place("id")])
        for n, (x, key) in enumerate(rows)
        for m, (y, other) in enumerate(rows)
        if -3 <= m - n < 3 and None not in (key, other) and key >= other
    )
    assert stamped.run.found() == due


def schema_place(name: str) -> int:
    return [part.split()[0] for part in SCHEMA.split(", ")].index(name)


def test_state_is_what_explain_promised() -> None:
    """As many tuples as the window says, all units together, and the tenth that waits for its segment to end."""
    manifest = """
apiVersion: biclique.dev/v1alpha1
kind: JoinQuery
metadata: {name: promised}
spec:
  sources:
    - {name: a, schema: "k BIGINT", window: {tuples: 100000}, files: {path: a, format: parquet}}
    - {name: b, schema: "k BIGINT", window: {tuples: 40000}, files: {path: b, format: parquet}}
  sql: "SELECT a.k FROM a JOIN b ON a.k = b.k"
  joiners: {replicas: 2}
  output: {files: {path: out, format: parquet}}
"""
    plan = make_plan(compile_manifest(manifest))
    tiers = LocalTiers(plan, MemoryStore(), 1, None, EngineClock(), hold=False)
    rng, rows, block = np.random.default_rng(5), 200_000, 2_000
    for start in range(0, rows, block):
        for source in (0, 1):
            offsets = np.arange(start, start + block, dtype=np.int64)
            keys = [Vector(rng.integers(0, rows, block))]
            tiers.feed(Shuffler(plan.query, source).pack(0, start - 1, offsets, np.zeros(block, np.int64), keys))
        tiers.run_until_idle()
    tiers.reach_end()
    (promised,) = estimate(plan, default_statistics(plan.query))
    for side, (numbers, window) in enumerate(zip(promised.sides, (100_000, 40_000), strict=True)):
        joiners = [tiers.watches[joiner_producer(unit)].joiner for unit in tiers.table.units()]
        states = [j.states[side] for j in joiners if j is not None and side in j.states]
        assert len(states) == numbers.units == 2
        stored = sum(state.rows for state in states)
        assert window <= stored and stored == pytest.approx(numbers.rows, rel=0.2)
        due = numbers.rows * (numbers.row_bytes + numbers.index_bytes)
        assert sum(state.size_bytes for state in states) == pytest.approx(due, rel=0.25)


class SetClock(EngineClock):
    """Says what it was set to: a machine's clock may well jump back between two lives."""

    def __init__(self, now_ms: int) -> None:
        super().__init__()
        self._now_ms = now_ms

    def __call__(self) -> int:
        return self._now_ms

    def advance(self, milliseconds: int) -> None:
        self._now_ms += milliseconds


def test_behind_a_barrier_the_counts_go_on_though_the_log_is_gone() -> None:
    """The dispatcher of `b` has signalled beyond the barrier's frontier, and that signal is not kept. The other one,
    whose clock now lags, then stamps a tuple in between."""
    manifest = """
apiVersion: biclique.dev/v1alpha1
kind: JoinQuery
metadata: {name: barrier}
spec:
  sources:
    - {name: a, schema: "k BIGINT", window: {tuples: 2}, files: {path: a, format: parquet}}
    - {name: b, schema: "k BIGINT", window: {tuples: 2}, files: {path: b, format: parquet}}
  sql: "SELECT a.k AS ak, b.k AS bk FROM a, b"
  output: {files: {path: out, format: parquet}}
"""
    plan, store = make_plan(compile_manifest(manifest)), MemoryStore()

    def feed(tiers: LocalTiers, source: int, numbers: range) -> None:
        offsets = np.array(numbers, np.int64)
        block = Shuffler(plan.query, source).pack(0, numbers[0] - 1, offsets, 0 * offsets, [Vector(offsets)])
        tiers.feed(block)
        tiers.run_until_idle()

    first = LocalTiers(plan, store, 1, None, SetClock(5_000), hold=False)
    feed(first, 1, range(5))
    feed(first, 0, range(3))
    first.reach_end()
    first.seal()
    clock = first._clock
    clock.advance(500)
    first.feed(Heartbeat(1, 0, 4, 0, 1))  # only the dispatcher of `b` has something to say
    first.run_until_idle()
    manifests = first.seal()
    progress, ends = first.log.snapshot()
    behind, ahead = (dispatcher.epoch for dispatcher in first.dispatchers())
    assert ahead > behind + 1 and max(manifests.values()) == behind

    second = LocalTiers(plan, store, 2, Resumed(progress, ends, manifests), SetClock(1), hold=False)
    feed(second, 0, range(3, 4))
    second.reach_end()
    rows = [
        tuple(column.values.tolist())
        for record in second.take(Topic.OUTPUT)
        if isinstance(record, Results)
        for column in record.columns
    ]
    found = {pair for a, b in zip(rows[::2], rows[1::2], strict=True) for pair in zip(a, b, strict=True)}
    assert found == {(3, 3), (3, 4)}
