"""COUNT, SUM and AVG over a band cost a logarithm a probe, not the matches: by what a store counts, not by time.

Goal: a probe that finds half of all rows touches no more of them than a search takes, and a thousand times the rows
make it a little dearer. Method: the store's own counters, and the sums by numpy.
"""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray

from biclique.core.rows import Vector
from biclique.index.build import new_store
from biclique.index.chain import ChainStore
from biclique.index.protocol import IndexKind, ProbeKeys, ProbeOrder, StoredKeys, StoreLayout
from biclique.query.types import BIGINT, DOUBLE
from tests.unit.index.stores import band, order_for, rows_at

PROBES = 500
TOUCHED_PER_LEVEL = (
    6  # two searches, and of a DOUBLE at most 2 * 7 nodes for each level of eight, which is three of two
)
PREFIX_SUMS = 4 + 2 * 4 + 2 * 7  # of an integer column: ends of blocks and rows; the lowest level of a DOUBLE's nodes
RUNS_MAX = 12


def filled(keys: NDArray[np.int64], values: NDArray[np.float64], block: int) -> ChainStore:
    """Column 0 BIGINT (the keys), column 1 DOUBLE."""
    store = new_store(StoreLayout(IndexKind.ORDERED, (BIGINT, DOUBLE), sums=(0, 1)))
    assert isinstance(store, ChainStore)
    for start in range(0, len(keys), block):
        part = slice(start, min(start + block, len(keys)))
        rows = rows_at(store.end, np.zeros(part.stop - part.start, np.int64), 0)
        columns = (Vector(keys[part]), Vector(values[part]))
        store.append(type(rows)(rows.stamps, rows.ids, rows.newest, rows.oldest, columns), StoredKeys(first=keys[part]))
    return store


def touched_per_probe(
    store: ChainStore, keys: NDArray[np.int64], values: NDArray[np.float64], probes: ProbeKeys
) -> float:
    """After a look that the answer is right."""
    before = store.counters.comparisons
    totals = store.totals(probes, order_for(probes.count))
    assert totals is not None and probes.first_low is not None and probes.first_high is not None
    order = np.argsort(keys, kind="stable")
    first = np.searchsorted(keys[order], probes.first_low)
    last = np.maximum(np.searchsorted(keys[order], probes.first_high, side="right"), first)
    of_keys, of_values = (np.concatenate([[0], np.cumsum(column[order])]) for column in (keys, values))
    assert totals.count.tolist() == (last - first).tolist()
    (high, low), (sums, errors) = totals.sums
    assert (high.astype(object) * (1 << 32) + low).tolist() == (of_keys[last] - of_keys[first]).tolist()
    assert np.allclose(sums + errors, of_values[last] - of_values[first], rtol=1e-9, atol=1e-6)
    assert store.counters.candidates == 0, "rows were visited one by one"
    return (store.counters.comparisons - before) / probes.count


def made(rows: int, seed: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    rng = np.random.default_rng(seed)
    return rng.integers(0, rows, rows), rng.random(rows)


@pytest.mark.parametrize("share", [0.0, 0.001, 0.5, 1.0])
def test_a_probe_costs_a_logarithm_whatever_it_finds(share: float) -> None:
    costs = []
    for rows in (1_000, 30_000, 1_000_000):
        keys, values = made(rows, rows)
        store = filled(keys, values, rows)
        low = np.random.default_rng(1).integers(0, max(1, int(rows * (1 - share))), PROBES)
        costs.append(touched_per_probe(store, keys, values, band(low, low + int(rows * share))))
        assert store.runs == 1
        assert costs[-1] <= TOUCHED_PER_LEVEL * math.log2(rows) + PREFIX_SUMS
    for (smaller, more), (fewer, rows) in pairwise(zip(costs, (1_000, 30_000, 1_000_000), strict=True)):
        assert fewer - smaller <= TOUCHED_PER_LEVEL * math.log2(rows / more)


@pytest.mark.parametrize("seed", range(30))
def test_a_store_built_block_by_block_pays_so_much_for_each_run(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = int(rng.integers(1, 40_000))
    keys, values = made(rows, seed)
    store = filled(keys, values, int(rng.integers(max(1, rows // 40), rows + 1)))
    low = rng.integers(-2, rows + 2, PROBES)
    cost = touched_per_probe(store, keys, values, band(low, low + rng.integers(-1, rows, PROBES)))
    assert store.runs <= RUNS_MAX
    assert cost <= store.runs * (TOUCHED_PER_LEVEL * math.log2(rows + 2) + PREFIX_SUMS)


# --- where rows must be tested ---------------------------------------------------------------------------------------

WINDOW, ARCHIVES, SEGMENT_ROWS = 100_000, 10, 500


def timed(period: int | None) -> ChainStore:
    layout = StoreLayout(
        IndexKind.ORDERED, (BIGINT,), archive_period_us=period, sums=(0,), segment_rows_min=SEGMENT_ROWS
    )
    store = new_store(layout)
    assert isinstance(store, ChainStore)
    return store


def put_timed(store: ChainStore, times: NDArray[np.int64], keys: NDArray[np.int64]) -> int:
    rows = rows_at(store.end, times, 0)
    rows = type(rows)(rows.stamps, rows.ids, rows.newest, rows.oldest, (Vector(keys),))
    return store.append(rows, StoredKeys(first=keys))


@pytest.mark.parametrize("seed", range(20))
def test_with_a_window_only_the_rows_of_segments_that_straddle_it_are_tested(seed: int) -> None:
    """Of probes of one instant, those are the rows about the window's edge: at most two archive periods of ten."""
    rng = np.random.default_rng(seed)
    per_period = int(rng.integers(SEGMENT_ROWS, 4 * SEGMENT_ROWS))
    rows, period = per_period * 3 * ARCHIVES, WINDOW // ARCHIVES
    times = np.sort(rng.integers(0, 3 * WINDOW, rows))
    keys, block = rng.integers(0, 10_000, rows), int(rng.integers(20, per_period))
    store = timed(period)
    for start in range(0, rows, block):
        put_timed(store, times[start : start + block], keys[start : start + block])
    low = rng.integers(-2, 10_000, PROBES)
    high = low + rng.integers(-1, 10_000, PROBES)
    newest = int(times[-1])
    totals = store.totals(band(low, high), order_for(PROBES, newest, WINDOW))
    assert totals is not None
    kept = keys[times >= newest - WINDOW]
    found = [kept[(kept >= one) & (kept <= other)] for one, other in zip(low, high, strict=True)]
    assert totals.count.tolist() == [len(some) for some in found]
    high_sums, low_sums = totals.sums[0]
    assert (high_sums * (1 << 32) + low_sums).tolist() == [int(some.sum()) for some in found]

    edge = newest - WINDOW
    straddling = [s for s in store._segments if s.newest_min < edge <= s.newest_max]
    assert len(straddling) <= 1
    assert 0 < store.counters.candidates <= PROBES * sum(map(len, straddling))
    assert store.counters.candidates <= PROBES * 2 * max(per_period, SEGMENT_ROWS)
    searched = store.runs * (TOUCHED_PER_LEVEL * math.log2(rows) + PREFIX_SUMS)
    assert store.counters.comparisons - store.counters.candidates <= PROBES * searched


@pytest.mark.parametrize("period", [None, WINDOW // ARCHIVES], ids=["full", "windowed"])
@pytest.mark.parametrize("seed", range(10))
def test_of_the_rows_of_a_step_no_more_are_tested_than_it_has(seed: int, period: int | None) -> None:
    """Also in the step that ends a segment: its last rows are merged with the others only when the next come."""
    rng = np.random.default_rng(seed)
    store, step = timed(period), int(rng.integers(20, 400))
    ended = 0
    kept = np.empty(0, np.int64)
    for number in range(60):
        times = np.sort(rng.integers(number * 1_000, (number + 1) * 1_000, step))
        keys = rng.integers(0, 10_000, step)
        before, segments = store.counters.candidates, sum(s.sealed for s in store._segments)
        fresh_from = put_timed(store, times, keys)
        kept = np.append(kept, keys)
        ended += sum(s.sealed for s in store._segments) > segments
        # Each probe came in the middle of the step: it must not see the rows after it.
        stamps = rng.integers(fresh_from, store.end + 1, 50).astype(np.uint64)
        newest = np.full(50, int(times[-1]), np.int64)
        low = rng.integers(0, 5_000, 50)
        order = ProbeOrder(stamps, newest, newest, fresh_from, None, None)
        totals = store.totals(band(low, low + 5_000), order)
        assert totals is not None
        seen = [kept[: int(stamp)] for stamp in stamps]
        inside = [some[(some >= one) & (some <= one + 5_000)] for some, one in zip(seen, low, strict=True)]
        assert totals.count.tolist() == [len(some) for some in inside]
        assert store.counters.candidates - before <= 50 * step
    assert ended > 0 or period is None
