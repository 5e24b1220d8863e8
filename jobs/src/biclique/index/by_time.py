"""Blocks within a window: where no condition can drive an index, the window itself does.

A pair qualifies only if max(newest) - min(oldest) <= w, w being the wider of the two windows. So the stored row's
newest time lies between the probe's newest - w and the probe's oldest + w: a band on a key that every row has. The
exact test (stamps, which window counts) follows as ever, for what the band lets through.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from biclique.core.rows import Rows
from biclique.index import ordered
from biclique.index.arrangement import Arrangement
from biclique.index.chain import ChainStore
from biclique.index.protocol import KEY_MAX, KEY_MIN, Keys, Matches, ProbeKeys, ProbeOrder, StoredKeys, StoreLayout


class ByTimeStore(ChainStore):
    """A Store for IndexKind.SCAN of a windowed side. It counts no range: what is behind the band is tested pair by
    pair."""

    def __init__(self, layout: StoreLayout, pairs_per_chunk: int) -> None:
        super().__init__(layout, Arrangement(ordered.sort_keys, ordered.bounds), False, pairs_per_chunk)

    def append(self, rows: Rows, keys: StoredKeys) -> int:
        return super().append(rows, StoredKeys(first=rows.newest, indexed=keys.indexed))

    def probe(self, keys: ProbeKeys, order: ProbeOrder) -> Iterator[Matches]:
        windows = [window for window in (order.stored_window_us, order.probe_window_us) if window is not None]
        if len(windows) < 2:  # one of them is full history
            return super().probe(ProbeKeys(keys.count, active=keys.active), order)
        low, high = _shifted(order.newest, -max(windows)), _shifted(order.oldest, max(windows))
        return super().probe(ProbeKeys(keys.count, first_low=low, first_high=high, active=keys.active), order)


def _shifted(times: Keys, by_us: int) -> Keys:
    """Saturating: a time near the ends of int64 must not wrap to the other end."""
    if by_us < 0:
        return np.where(times < KEY_MIN - by_us, KEY_MIN, times + by_us)
    return np.where(times > KEY_MAX - by_us, KEY_MAX, times + by_us)
