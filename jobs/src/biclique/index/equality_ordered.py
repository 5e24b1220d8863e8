"""Equality and order: rows sorted by the equality key and, within it, by the first key; a range lies within one key."""

from __future__ import annotations

from biclique.index.arrangement import Bounds
from biclique.index.protocol import ProbeKeys, StoredKeys
from biclique.index.runs import SortKeys


def sort_keys(keys: StoredKeys) -> SortKeys:
    assert keys.equal is not None and keys.first is not None
    return SortKeys(keys.equal, keys.first)


def bounds(keys: ProbeKeys) -> Bounds:
    assert keys.equal is not None
    return Bounds(equal=keys.equal, low=keys.first_low, high=keys.first_high)
