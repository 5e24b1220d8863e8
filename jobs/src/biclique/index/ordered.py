"""A band or one inequality: rows sorted by the first key, a probe's range being what lies between its bounds."""

from __future__ import annotations

from biclique.index.arrangement import Bounds
from biclique.index.protocol import ProbeKeys, StoredKeys
from biclique.index.runs import SortKeys


def sort_keys(keys: StoredKeys) -> SortKeys:
    assert keys.first is not None
    return SortKeys(keys.first)


def bounds(keys: ProbeKeys) -> Bounds:
    return Bounds(low=keys.first_low, high=keys.first_high)
