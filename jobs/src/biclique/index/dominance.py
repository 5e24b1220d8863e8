"""Two inequalities, with or without an equality: the first one narrows a run to a range, a hierarchy over the second
keys finds the matches in it (kernels/dominance.py) without looking at the others.

The hierarchy knows the greatest and the least of every group, so that `second >= low` and `second <= high` are served
by the same arrays.
"""

from __future__ import annotations

from biclique.index.arrangement import Bounds
from biclique.index.protocol import ProbeKeys, StoredKeys
from biclique.index.runs import SortKeys


def sort_keys(keys: StoredKeys) -> SortKeys:
    assert keys.first is not None and keys.second is not None
    if keys.equal is None:
        return SortKeys(keys.first, second=keys.second)
    return SortKeys(keys.equal, keys.first, keys.second)


def bounds(keys: ProbeKeys) -> Bounds:
    return Bounds(keys.equal, keys.first_low, keys.first_high, keys.second_low, keys.second_high)
