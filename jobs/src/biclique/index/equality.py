"""Equality: rows sorted by their equality key, a probe's range being one key wide."""

from __future__ import annotations

from biclique.index.arrangement import Bounds
from biclique.index.protocol import ProbeKeys, StoredKeys
from biclique.index.runs import SortKeys


def sort_keys(keys: StoredKeys) -> SortKeys:
    assert keys.equal is not None
    return SortKeys(keys.equal)


def bounds(keys: ProbeKeys) -> Bounds:
    assert keys.equal is not None
    return Bounds(low=keys.equal, high=keys.equal)
