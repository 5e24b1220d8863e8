"""A merger's checkpoints: each costs what has changed since the last, few blobs hold them all, and what is restored
from them is what was there."""

from __future__ import annotations

import numpy as np
import pytest

from biclique.tiers.merger import WRITTEN_MAX, Merger, WrittenMax
from biclique.tiers.sealed_groups import GONE_MIN
from tests.unit.tiers.merging import COUNTS, DISTINCT, EVER, MS, TUMBLE, Bench

VALUES = "SELECT r.k AS k, COUNT(DISTINCT s.v) AS n, MAX(s.v) AS most FROM r JOIN s ON r.k = s.k GROUP BY r.k"


def held(merger: Merger) -> dict[object, tuple[object, ...]]:
    keys = merger.groups.keys
    rows = zip(*(column.values.tolist() for column in merger.groups.rows(keys)), strict=True)
    return dict(zip(keys, rows, strict=True)) if merger.groups.rows(keys) else dict.fromkeys(keys, ())


def merge(bench: Bench, epoch: int, keys: list[int], watermark: int = 0) -> None:
    bench.share(epoch, keys, [epoch * MS] * len(keys))
    bench.signal_all(epoch, watermark)
    bench.run()


def test_a_checkpoint_costs_what_has_changed_and_few_blobs_hold_them_all() -> None:
    bench, rng = Bench(COUNTS), np.random.default_rng(3)
    merge(bench, 1, list(range(3_000)))
    assert sum(ref.rows for ref, _ in bench.seal()) == 3_000
    assert bench.seal() == []
    written = 0
    for epoch in range(2, 200):
        merge(bench, epoch, rng.integers(0, 3_000, 10).tolist())
        put = bench.seal()
        written += sum(ref.rows for ref, _ in put)
        blobs = bench.merger.manifest(1).blobs
        assert sum(ref.rows for ref in blobs) <= 2 * 3_000 + GONE_MIN
        assert len(blobs) <= 12
    assert written < 12 * 10 * 198
    before = held(bench.merger)
    bench.restart(True)
    assert held(bench.merger) == before


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("sql", [COUNTS, VALUES, TUMBLE, DISTINCT, EVER])
def test_what_is_restored_is_what_was_there_whatever_came_between_two_slices(sql: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    most = WrittenMax(int(rng.integers(1, 6))) if rng.random() < 0.7 else WRITTEN_MAX
    whole, bench = Bench(sql, written_max=most), Bench(sql, written_max=most)
    for epoch in range(1, 60):
        keys = rng.integers(0, 30, int(rng.integers(0, 12))).tolist()
        for one in (whole, bench):
            merge(one, epoch, keys, max(0, epoch - 15) * MS)
        if rng.random() < 0.5:
            bench.seal(int(rng.integers(0, 5)))
        if rng.random() < 0.1:
            bench.merger.unseal()  # the store has lost something
        if rng.random() < 0.3:
            bench.restart(True)
            bench.run()
    for one in (whole, bench):
        one.signal_all(99, 99 * MS)
        one.run()
    assert held(bench.merger) == held(whole.merger)
    assert bench.written == whole.written and whole.written


def test_blobs_of_groups_that_are_closed_are_left_behind() -> None:
    bench = Bench(TUMBLE)
    for epoch in range(1, 400):
        merge(bench, epoch, list(range(100)), max(0, epoch - 30) * MS)
        bench.seal()
        rows = sum(ref.rows for ref in bench.merger.manifest(1).blobs)
        assert rows <= 2 * len(bench.merger.groups) + GONE_MIN + 100
    bench.restart(True)
    assert len(bench.merger.groups) <= 100 * 5
    bench.signal_all(400, 900 * MS)
    bench.run()
    assert bench.merger.manifest(1).blobs == () and bench.merger.size_bytes == 0
