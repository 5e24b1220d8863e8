"""Two inequalities cost a logarithm and the matches, never a scan: also where each alone passes half of all pairs."""

from __future__ import annotations

import math

import numpy as np
import pytest

from biclique.index.build import new_store
from biclique.index.protocol import IndexKind, ProbeKeys, Store, StoredKeys, StoreLayout
from biclique.query.types import BIGINT
from tests.unit.index.stores import order_for, rows_at

COMPARISONS_PER_LEVEL = 10


def filled(first: np.ndarray, second: np.ndarray, blocks: int = 1) -> Store:
    store = new_store(StoreLayout(IndexKind.DOMINANCE, (BIGINT,)))
    for place in np.array_split(np.arange(len(first)), blocks):
        store.append(rows_at(store.end, place, 1), StoredKeys(first=first[place], second=second[place]))
    return store


def matches(store: Store, keys: ProbeKeys) -> int:
    return sum(len(found.probe) for found in store.probe(keys, order_for(keys.count)))


@pytest.mark.parametrize("rows", [1_000, 100_000])
@pytest.mark.parametrize("direction", [1, -1])
def test_half_and_half_and_none(rows: int, direction: int) -> None:
    """second = -first: `first <= x` passes half, `second < -x` passes half, both none. And the mirror of it."""
    rng = np.random.default_rng(rows)
    first = rng.permutation(rows).astype(np.int64)
    store = filled(first, -first)
    x = rng.integers(0, rows, 500)
    if direction > 0:
        asked = ProbeKeys(500, first_high=x, second_high=-x - 1)
    else:
        asked = ProbeKeys(500, first_low=x, second_low=-x + 1)
    first_alone = first[:, None] <= x if direction > 0 else first[:, None] >= x
    second_alone = -first[:, None] < -x if direction > 0 else -first[:, None] > -x
    assert 0.4 < first_alone.mean() < 0.6 and 0.4 < second_alone.mean() < 0.6
    assert matches(store, asked) == 0
    assert store.counters.comparisons <= COMPARISONS_PER_LEVEL * math.log2(rows) * 500
    assert store.counters.lookups == 500


def test_comparisons_follow_the_matches() -> None:
    """Independent keys: a probe with k matches of 100,000 costs no more than a small multiple of k and a logarithm."""
    rng = np.random.default_rng(1)
    rows = 100_000
    store = filled(rng.permutation(rows).astype(np.int64), rng.permutation(rows).astype(np.int64))
    for share in (0.001, 0.01, 0.1):
        asked = ProbeKeys(
            200, first_low=np.full(200, int(rows * (1 - share))), second_low=np.full(200, int(rows * (1 - share)))
        )
        before = store.counters.comparisons
        found = matches(store, asked)
        spent = store.counters.comparisons - before
        log = math.log2(rows)
        assert found > 0 or share == 0.001
        assert spent <= 200 * COMPARISONS_PER_LEVEL * log + 2 * log * found


def test_a_store_built_block_by_block_pays_for_its_few_runs_only() -> None:
    rng = np.random.default_rng(2)
    first = rng.permutation(200_000).astype(np.int64)
    store = filled(first, -first, blocks=200)
    x = rng.integers(0, 200_000, 500)
    assert matches(store, ProbeKeys(500, first_high=x, second_high=-x - 1)) == 0
    runs = store.counters.lookups / 500
    assert runs <= 8
    assert store.counters.comparisons <= COMPARISONS_PER_LEVEL * math.log2(200_000) * 500 * runs
