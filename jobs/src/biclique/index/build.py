"""A new, empty store for a layout: the one place that knows every kind of index."""

from __future__ import annotations

from dataclasses import replace

from biclique.index import dominance, equality, equality_ordered, ordered
from biclique.index.arrangement import Arrangement
from biclique.index.by_rank import ByRankStore
from biclique.index.by_time import ByTimeStore
from biclique.index.chain import ChainStore
from biclique.index.protocol import PAIRS_PER_CHUNK, IndexKind, Store, StoreLayout
from biclique.query.types import TIMESTAMP

ARRANGEMENTS: dict[IndexKind, Arrangement | None] = {
    IndexKind.EQUALITY: Arrangement(equality.sort_keys, equality.bounds),
    IndexKind.ORDERED: Arrangement(ordered.sort_keys, ordered.bounds),
    IndexKind.EQUALITY_ORDERED: Arrangement(equality_ordered.sort_keys, equality_ordered.bounds),
    IndexKind.DOMINANCE: Arrangement(dominance.sort_keys, dominance.bounds),
    IndexKind.SCAN: None,
}
SUMMABLE = frozenset((IndexKind.EQUALITY, IndexKind.ORDERED, IndexKind.EQUALITY_ORDERED))


def new_store(layout: StoreLayout, pairs_per_chunk: int = PAIRS_PER_CHUNK) -> Store:
    if layout.by_rank:
        measured = replace(layout, by_rank=False, column_types=(*layout.column_types, TIMESTAMP))
        return ByRankStore(new_store(measured, pairs_per_chunk))
    if layout.kind is IndexKind.SCAN and layout.archive_period_us is not None:
        return ByTimeStore(layout, pairs_per_chunk)
    return ChainStore(layout, ARRANGEMENTS[layout.kind], layout.kind in SUMMABLE, pairs_per_chunk)
