"""Windows of so many tuples in the embedded engine: the output is the nested loop's, given the stamps of that run.

Which pairs qualify depends on how the sources interleave, so the stamps are written down as they are given; what a life
stamped behind its last barrier is stamped again by the next one.
"""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

from biclique.core.stamps import parts_of_id
from biclique.hosts import embedded
from biclique.hosts.embedded import Ending
from biclique.hosts.perform import Performer
from biclique.tiers.effects import Commit, Effect
from biclique.tiers.messages import Block
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
    monkeypatch.setattr("biclique.hosts.file_task.BLOCK_ROWS", 5)
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


def test_state_is_as_many_tuples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A window that is met by one tuple of the other source holds what it says, not all history."""
    stamped = Stamped(tmp_path, QUERIES["no condition"], 1, "", monkeypatch)
    stamped.run.run()
    found = stamped.run.found()
    assert found == stamped.expected()
    assert sum(found.values()) < 2 * 2 * ROWS
