"""State at every moment, merges under way and range sums included: the rows, and their index at most twice."""

from __future__ import annotations

import numpy as np
import pytest

from biclique.core.rows import Vector
from biclique.index.build import new_store
from biclique.index.protocol import IndexKind, ProbeKeys, StoredKeys, StoreLayout
from biclique.plan.cost import Sums, index_bytes
from biclique.query.types import INT
from tests.unit.index.stores import order_for, rows_at

BLOCK, BLOCKS, SLACK = 20_000, 40, 1.06  # a directory of keys, and buffers that grow by pages


@pytest.mark.parametrize(
    ("kind", "sums", "nulls", "most"),
    [
        (IndexKind.ORDERED, (), False, 2.0),
        (IndexKind.ORDERED, (1, 2, 3), False, 2.0),
        (IndexKind.ORDERED, (1, 2, 3), True, 2.1),
        (IndexKind.EQUALITY_ORDERED, (), False, 2.3),
        (IndexKind.DOMINANCE, (), False, 2.4),
    ],
)
def test_a_merge_under_way_holds_the_index_of_its_rows_twice(
    kind: IndexKind, sums: tuple[int, ...], nulls: bool, most: float
) -> None:
    columns = 4 if sums else 2
    store, rng = new_store(StoreLayout(kind, (INT,) * columns, sums=sums)), np.random.default_rng(1)
    two, equal = kind is IndexKind.DOMINANCE, kind is IndexKind.EQUALITY_ORDERED
    tuple_bytes, greatest = 24 + 4 * columns + len(sums) * nulls, 0.0
    per_row = index_bytes(kind, equal, False) + Sums(len(sums), 0).row_bytes + len(sums) * nulls
    for number in range(BLOCKS):
        rows = rows_at(number * BLOCK, range(number * BLOCK, (number + 1) * BLOCK))
        key = rng.integers(0, 1 << 30, BLOCK)
        valid = rng.random(BLOCK) < 0.9
        held = tuple(Vector(key.astype(np.int32), valid if nulls and n in sums else None) for n in range(columns))
        rows = type(rows)(rows.stamps, rows.ids, rows.newest, rows.oldest, held)
        store.append(rows, StoredKeys(key if equal else None, key, key if two else None))
        one = key[:1]
        asked = ProbeKeys(1, one if equal else None, one, one, one if two else None, one if two else None)
        if sums:
            assert store.totals(asked, order_for(1)) is not None
        assert sum(len(found.probe) for found in store.probe(asked, order_for(1))) >= 1  # makes what a probe needs
        if number >= BLOCKS // 4:
            assert store.bytes <= store.rows * (tuple_bytes + 2 * per_row) * SLACK
            greatest = max(greatest, store.bytes / (store.rows * (24 + 4 * columns)))
    assert greatest <= most
