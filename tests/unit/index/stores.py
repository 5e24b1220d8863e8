"""Rows, keys and probes for tests of one store at a time."""

from __future__ import annotations

from typing import Any

import numpy as np

from biclique.core.rows import Rows, Vector
from biclique.index.build import new_store
from biclique.index.chain import ChainStore
from biclique.index.protocol import IndexKind, Matches, ProbeKeys, ProbeOrder, StoredKeys, StoreLayout
from biclique.query.types import BIGINT, Type


def ordered_store(period: int | None = None, columns: tuple[Type, ...] = (BIGINT, BIGINT), **more: Any) -> ChainStore:
    store = new_store(StoreLayout(IndexKind.ORDERED, columns, archive_period_us=period), **more)
    assert isinstance(store, ChainStore)
    return store


def rows_at(first: int, times: Any, columns: int = 2) -> Rows:
    """Rows with stamps, ids and values counted from `first`, at these times."""
    newest = np.asarray(times, np.int64)
    numbers = np.arange(first, first + len(newest))
    return Rows(
        numbers.astype(np.uint64), (numbers,), newest, newest, tuple(Vector(numbers * (k + 1)) for k in range(columns))
    )


def put(store: ChainStore, times: Any, keys: Any = None) -> int:
    """Appends rows at these times; without keys, their times are their keys."""
    rows = rows_at(store.end, times, len(store.gather(np.empty(0, np.int64)).columns))
    return store.append(rows, StoredKeys(first=rows.newest if keys is None else np.asarray(keys, np.int64)))


def order_for(count: int, time: int = 0, window: int | None = None, fresh_from: int = 1 << 40) -> ProbeOrder:
    times = np.full(count, time, np.int64)
    return ProbeOrder(np.full(count, 1 << 62, np.uint64), times, times, fresh_from, window, window)


def band(low: Any, high: Any) -> ProbeKeys:
    low, high = np.asarray(low, np.int64), np.asarray(high, np.int64)
    return ProbeKeys(len(low), first_low=low, first_high=high)


def answer(store: ChainStore, keys: ProbeKeys, order: ProbeOrder) -> set[tuple[int, int]]:
    def pairs(matches: Matches) -> list[tuple[int, int]]:
        return list(zip(matches.probe.tolist(), matches.stored.tolist(), strict=True))

    found = [pair for matches in store.probe(keys, order) for pair in pairs(matches)]
    assert len(found) == len(set(found))
    return set(found)
