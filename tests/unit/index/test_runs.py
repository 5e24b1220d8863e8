"""Runs stay few, and no append waits for the merge of big ones."""

from __future__ import annotations

import numpy as np
import pytest

from biclique.index import runs
from biclique.index.runs import Run, Runs


def block(first: int, count: int) -> Run:
    keys = np.random.default_rng(first).permutation(count).astype(np.int64)
    keys.sort()
    return Run(keys, None, None, np.arange(first, first + count, dtype=np.int32), first + count - 1)


@pytest.fixture(autouse=True)
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "SMALL_ROWS", 8)
    monkeypatch.setattr(runs, "MERGE_ROWS_AT_ONCE", 64)
    monkeypatch.setattr(runs, "MERGE_PACE", 4)


def test_big_merges_go_on_at_the_pace_of_what_is_appended() -> None:
    kept, merged_big = Runs(), 0
    for number in range(1000):
        known = {id(run): run for run in kept.all}
        under_way = {id(merge.merged): (merge, merge._done) for merge in kept._big}
        kept.add(block(number * 8, 8))
        for run in kept.all:
            assert len(run) <= 64 or id(run) in known or id(run) in under_way
            merged_big += len(run) > 64 and id(run) not in known
        for merge, before in under_way.values():
            assert 0 < merge._done - before <= 4 * 8
        assert len(kept._big) <= 3
        assert sum(map(len, kept.all)) == 8 * (number + 1)
        assert len(kept.all) <= 12
    assert merged_big > 5


def test_the_newest_append_stands_by_itself() -> None:
    """Its rows are the ones held against the stamp: in a bigger run, every row would be."""
    kept = Runs()
    for number in range(50):
        kept.add(block(number * 4, 4))
        assert len(kept.all[-1]) == 4


def test_a_sealed_segment_comes_to_one_run() -> None:
    kept = Runs()
    for number in range(100):
        kept.add(block(number * 8, 8))
    kept.seal()
    steps = 0
    while not kept.settled:
        kept.settle(8)
        steps += 1
    assert len(kept.all) == 1 and steps > 1
    assert sorted(kept.all[0].rows.tolist()) == list(range(800))
    assert (np.diff(kept.all[0].major) >= 0).all()


def test_runs_of_any_sizes_are_few_after_a_while() -> None:
    rng, kept, first = np.random.default_rng(3), Runs(), 0
    for _ in range(1500):
        count = int(rng.choice([1, 2, 30, 200]))
        kept.add(block(first, count))
        first += count
        assert len(kept.all) <= 14
    assert sum(map(len, kept.all)) == first


def merged(keys: np.ndarray) -> Run:
    halves = [Run(part, None, None, np.arange(len(part), dtype=np.int32), len(part) - 1) for part in (keys, keys)]
    merge = runs.Merge(*halves)
    while not merge.finished:
        merge.go_on(7)
    return merge.merged


def test_a_big_run_has_a_directory_where_its_keys_are_spread_evenly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "DIRECTED_ROWS_MIN", 1000)
    spread, crowded = np.arange(0, 50_000, 100), np.append(np.arange(499), 1 << 62)
    assert merged(spread).directory is not None
    assert merged(crowded).directory is None
    assert merged(spread[:-1]).directory is None


def test_no_second_big_run_stands_beside_a_plain_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "BIG_ROWS_MIN", 256)
    monkeypatch.setattr(runs, "MERGE_PACE", 64)
    settled = {}
    for summed in (False, True):
        kept, beside = Runs(), []
        for number in range(1000):
            kept.add(block(number * 8, 8))
            for run in kept.all:
                run.sums = (1,) if summed else ()
            beside.append(sum(len(run) >= 256 for run in kept.all[1:]))
        settled[summed] = np.mean(beside)
        assert sum(map(len, kept.all)) == 8000
    assert settled[False] < settled[True] / 2
