"""A store for a window of so many tuples answers by rank, and gives rows back with their own times.

Method: one unit's share of a relation (ranks with gaps) and probes of the other, with times that have nothing to do
with the ranks. The twin looks at every stored row.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from biclique.core.codec import decode_rows, encode_rows
from biclique.core.rows import Rows, Vector
from biclique.index.build import new_store
from biclique.index.protocol import IndexKind, ProbeKeys, ProbeOrder, StoredKeys, StoreLayout
from biclique.query.types import BIGINT, STRING

KINDS = (IndexKind.EQUALITY, IndexKind.ORDERED, IndexKind.SCAN)


def keys_of(kind: IndexKind, keys: np.ndarray) -> StoredKeys:
    match kind:
        case IndexKind.EQUALITY:
            return StoredKeys(equal=keys)
        case IndexKind.ORDERED:
            return StoredKeys(first=keys)
        case _:
            return StoredKeys()


def probe_of(kind: IndexKind, keys: np.ndarray) -> ProbeKeys:
    match kind:
        case IndexKind.EQUALITY:
            return ProbeKeys(len(keys), equal=keys)
        case IndexKind.ORDERED:
            return ProbeKeys(len(keys), first_low=keys - 1, first_high=keys + 1)
        case _:
            return ProbeKeys(len(keys))


def fits(kind: IndexKind, stored: int, probe: int) -> bool:
    return {IndexKind.EQUALITY: stored == probe, IndexKind.ORDERED: abs(stored - probe) <= 1}.get(kind, True)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.value)
def test_pairs_are_as_far_apart_as_their_ranks(kind: IndexKind, seed: int) -> None:
    rng = np.random.default_rng(seed)
    tuples = int(rng.integers(1, 12))
    layout = StoreLayout(kind, (BIGINT,), 1, max(1, tuples // 10), (), 1, by_rank=True)
    store = new_store(layout, 8)
    listed: list[tuple[int, int, int, int]] = []  # stamp, rank, key, time
    rank, needed = 0, 0
    for _ in range(12):
        count = int(rng.integers(0, 6))
        ranks = rank + np.cumsum(rng.integers(1, 3, count))
        stamps = (2 * ranks).astype(np.uint64)  # that of the rank's tuple; odd stamps are the other relation's
        keys, times = rng.integers(0, 4, count), rng.integers(-50, 50, count)
        rows = Rows(stamps, (ranks,), times, times, (Vector(keys),), (ranks,))
        fresh = store.append(rows, keys_of(kind, keys))
        listed += zip(stamps.tolist(), ranks.tolist(), keys.tolist(), times.tolist(), strict=True)
        asked = np.sort(rng.integers(rank, rank + 14, 5))
        rank = int(asked[-1])
        if count:
            rank = max(rank, int(ranks[-1]))
        probes = (2 * asked + 1).astype(np.uint64)
        wanted, ahead = rng.integers(0, 4, 5), asked + 1  # so many of the stored relation come before it
        order = ProbeOrder(probes, ahead, ahead, fresh, tuples, tuples)
        found = [
            (int(p), int(s))
            for chunk in store.probe(probe_of(kind, wanted), order)
            for p, s in zip(chunk.probe.copy().tolist(), chunk.stored.copy().tolist(), strict=True)
        ]
        due = [
            (p, n)
            for p in range(5)
            for n, (of, at, key, _) in enumerate(listed)
            if of < int(probes[p]) and int(ahead[p]) - at <= tuples and at >= needed
            if fits(kind, key, int(wanted[p]))
        ]
        older = {(p, n) for p, n in found if listed[n][1] < needed}
        assert sorted(set(found) - older) == due and len(found) == len(set(found))
        if found:
            rows = store.gather(np.array([n for _, n in found]))
            assert rows.newest.tolist() == [listed[n][3] for _, n in found]
            assert rows.ordinals[0].tolist() == [listed[n][1] for _, n in found]
        if rng.random() < 0.5:
            needed = max(needed, rank + 1 - tuples)
            store.expire(needed)


def test_ranks_survive_a_blob() -> None:
    numbers = np.arange(3)
    texts = Vector(pa.array(["a", "", "é"]))
    rows = Rows(
        numbers.astype(np.uint64), (numbers,), numbers - 5, numbers - 5, (Vector(numbers), texts), (numbers + 7,)
    )
    again = decode_rows(encode_rows(rows, (BIGINT, STRING)), (BIGINT, STRING), 1)
    assert [o.tolist() for o in again.ordinals] == [[7, 8, 9]]
    assert again.newest.tolist() == [-5, -4, -3] and again.columns[1].values.to_pylist() == ["a", "", "é"]
    assert decode_rows(encode_rows(rows.slice(0, 0), (BIGINT, STRING)), (BIGINT, STRING), 1).ordinals[0].tolist() == []
