"""Equal rows get equal numbers: the groups of a chunk, dense from 0 in order of first appearance.

Equality is that of GROUP BY: null equals null, NaN equals NaN, -0.0 equals 0.0. Hashes find the groups and a
comparison with each group's first row proves them; should two different rows share a hash, the chunk is grouped again
by its values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numba import njit
from numpy.typing import NDArray

from biclique.core.rows import Indexes, Mask, Vector
from biclique.kernels import comparison
from biclique.kernels.hashing import Hashes, hash_rows
from biclique.query.expression import Op

Key = tuple[Any, ...]
NAN = float("nan")  # one object, so that keys which hold it are equal


@dataclass(frozen=True, slots=True)
class Grouping:
    """`group_of`: the group of each row. `first`: the first row of each group."""

    group_of: Indexes
    first: Indexes


@njit(cache=True, nogil=True)
def _number(hashes: Hashes, slots: Indexes, group_of: Indexes, first: Indexes) -> int:
    """Open addressing in a table of a power of two, at most half full, of group numbers (-1: free)."""
    mask, groups = np.uint64(len(slots) - 1), 0
    for i in range(len(hashes)):
        slot = np.int64(hashes[i] & mask)
        while slots[slot] >= 0 and hashes[first[slots[slot]]] != hashes[i]:
            slot = np.int64(np.uint64(slot + 1) & mask)
        if slots[slot] < 0:
            slots[slot] = groups
            first[groups] = i
            groups += 1
        group_of[i] = slots[slot]
    return groups


def grouped(keys: Sequence[Vector], count: int) -> Grouping:
    """`count` rows; without keys they are one group (none, if there are no rows)."""
    return grouped_by(hash_rows(keys, count)[0], keys)


def grouped_by(hashes: Hashes, keys: Sequence[Vector]) -> Grouping:
    """By hashes of the keys, however weak."""
    count = len(hashes)
    slots = np.full(1 << max(2 * count - 1, 1).bit_length(), -1, np.int64)
    group_of, first = np.empty(count, np.int64), np.empty(count, np.int64)
    groups = _number(hashes, slots, group_of, first)
    found = Grouping(group_of, first[:groups])
    return found if all(_proved(key, found) for key in keys) else by_value(keys, count)


def _proved(key: Vector, grouping: Grouping) -> bool:
    """Whether every row equals the first of its group."""
    heads = key.take(grouping.first[grouping.group_of])
    same: Mask
    if isinstance(key.values, pa.Array):
        same = comparison.strings(Op.EQ, key.values, heads.values)
    elif key.values.dtype == np.float64:
        same = comparison.doubles(Op.EQ, key.values, heads.values)
    else:
        same = key.values == heads.values
    if key.valid is not None and heads.valid is not None:
        same = (same & key.valid & heads.valid) | (~key.valid & ~heads.valid)
    return bool(same.all())


def by_value(keys: Sequence[Vector], count: int) -> Grouping:
    """Slow and without hashes of ours: for chunks in which two of them collide."""
    numbers: dict[Key, int] = {}
    group_of = np.empty(count, np.int64)
    first: list[int] = []
    for i, key in enumerate(key_rows(keys, count)):
        group_of[i] = numbers.setdefault(key, len(numbers))
        if len(numbers) > len(first):
            first.append(i)
    return Grouping(group_of, np.array(first, np.int64))


def scalars(vector: Vector) -> list[Any]:
    """Plain values with None for nulls, one NaN object and no -0.0: equal ones are equal as dictionary keys."""
    values: list[Any]
    if isinstance(vector.values, pa.Array):
        values = vector.values.to_pylist()
    elif vector.values.dtype == np.float64:
        values = [NAN if v != v else v + 0.0 for v in vector.values.tolist()]
    else:
        values = vector.values.tolist()
    if vector.valid is None:
        return values
    return [v if there else None for v, there in zip(values, vector.valid.tolist(), strict=True)]


def key_rows(keys: Sequence[Vector], count: int) -> list[Key]:
    return list(zip(*(scalars(key) for key in keys), strict=True)) if keys else [()] * count


@njit(cache=True, nogil=True)
def _best(group_of: Indexes, order: NDArray[np.int64], valid: Mask, greatest: bool, best: Indexes) -> None:
    for i in range(len(group_of)):
        if valid[i]:
            held = best[group_of[i]]
            if held < 0 or (order[i] > order[held] if greatest else order[i] < order[held]):
                best[group_of[i]] = i


def best_rows(grouping: Grouping, vector: Vector, greatest: bool) -> Indexes:
    """The row of each group that holds its least or greatest value; -1 where all are null."""
    best = np.full(len(grouping.first), -1, np.int64)
    valid = np.ones(len(vector), np.bool_) if vector.valid is None else vector.valid
    _best(grouping.group_of, orderable(vector), valid, greatest, best)
    return best


def orderable(vector: Vector) -> NDArray[np.int64]:
    """Numbers in the order of the values, equal for equal ones."""
    values: Any = vector.values
    if isinstance(values, pa.Array):
        ranks = pa.compute.rank(values, sort_keys="ascending", tiebreaker="dense")
        return np.asarray(ranks.to_numpy(zero_copy_only=False)).astype(np.int64)
    if values.dtype != np.float64:
        return np.asarray(values.astype(np.int64, copy=False))
    bits = np.where(np.isnan(values), NAN, values + 0.0).view(np.int64)
    # The bits of a double order as its size does: those of negative ones are turned round below the sign.
    return np.asarray(bits ^ ((bits >> 63) & np.int64((1 << 63) - 1)))
