"""Batches: whatever the bound, together they are the step's matches in canonical order; behind any cursor comes the
rest."""

from __future__ import annotations

import numpy as np
import pytest

from biclique.core.rows import Rows
from biclique.plan.model import Plan
from biclique.tiers.matching import Batch, Probing, batches
from biclique.tiers.progress import Cursor
from biclique.tiers.state import SideState
from tests.unit.tiers.building import plan, rows

SQLS = (
    "SELECT r.k, s.v FROM r JOIN s ON r.k = s.k",
    "SELECT r.k, s.v FROM r JOIN s ON r.k >= s.k AND r.v % 2 = 0",
    "SELECT r.k, s.v FROM r JOIN s ON r.k < s.k AND r.v > s.v",
)
Match = tuple[int, tuple[int, ...], int, tuple[int, ...]]


def keyed(batch: Batch, probes: dict[int, Rows]) -> list[Match]:
    found: list[Match] = []
    for side, chunks in batch.found.items():
        for chunk in chunks:
            stored = chunk.store.gather(chunk.stored)
            for i, probe in enumerate(chunk.probe.tolist()):
                row = probes[side]
                found.append(
                    (
                        int(row.stamps[probe]),
                        tuple(int(ids[probe]) for ids in row.ids),
                        int(stored.stamps[i]),
                        tuple(int(ids[i]) for ids in stored.ids),
                    )
                )
    return found


def columns_of(made: Plan, side: int) -> int:
    return len(made.stages[0].sides[side].columns)


@pytest.mark.parametrize("sql", SQLS)
@pytest.mark.parametrize("seed", range(6))
def test_batches_of_any_size_are_the_same_matches_and_a_cursor_resumes_behind_them(sql: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    made = plan(sql)
    stage = made.stages[0]
    state = SideState(stage, 0)
    epochs = np.sort(rng.integers(1, 9, 30)).tolist()
    state.append(rows(epochs, [0] * 30, *(rng.integers(0, 4, 30).tolist() for _ in range(columns_of(made, 0)))))
    fresh = state.own.end
    later = np.sort(rng.integers(9, 12, 10)).tolist()
    state.append(rows(later, [0] * 10, *(rng.integers(0, 4, 10).tolist() for _ in range(columns_of(made, 0)))))
    asking = np.sort(rng.integers(9, 13, 12)).tolist()
    given = rows(asking, [0] * 12, *(rng.integers(0, 4, 12).tolist() for _ in range(columns_of(made, 1))))
    # Dispatcher 1, so that no stamp is both stored and probing.
    probes = {0: Rows(given.stamps + np.uint64(1 << 16), given.ids, given.newest, given.oldest, given.columns)}
    probings = {0: Probing(stage, state)}

    def run(bound: int, resume: Cursor | None = None) -> list[Batch]:
        return list(batches(probings, probes, {0: fresh}, resume, bound))

    (whole,) = run(1 << 20)
    expected = sorted(keyed(whole, probes))
    assert expected, "a test without matches shows nothing"
    for bound in (1, 2, 7, 50):
        parts = run(bound)
        assert [part.cursor is None for part in parts] == [False] * (len(parts) - 1) + [True]
        assert all(len(keyed(part, probes)) <= bound for part in parts)
        assert sorted(match for part in parts for match in keyed(part, probes)) == expected
        done: list[Match] = []
        for number, part in enumerate(parts):
            done += keyed(part, probes)
            if part.cursor is None or number % 7 != seed:  # every cursor in some run
                continue
            assert all(match <= tuple(part.cursor) for match in keyed(part, probes))
            rest = [match for again in run(bound + 1, part.cursor) for match in keyed(again, probes)]
            assert sorted(done + rest) == expected
