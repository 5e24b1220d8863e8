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
from biclique.index.protocol import IndexKind, ProbeKeys, StoredKeys, StoreLayout
from biclique.query.types import BIGINT, DOUBLE
from tests.unit.index.stores import band, order_for, rows_at

PROBES = 500
TOUCHED_PER_LEVEL = (
    6  # two searches, and of a DOUBLE at most 2 * 7 nodes for each level of eight, which is three of two
)
PREFIX_SUMS = 4 + 2 * 7  # of an integer column; the lowest level of a DOUBLE's nodes
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
