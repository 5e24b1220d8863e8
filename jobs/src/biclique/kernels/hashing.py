"""Hashes of values and of ids: the same in every process, on every machine, in every run.

`hash_rows` is one 64-bit hash of each row over some columns. Values that SQL calls equal hash alike: an integer by
its number whatever its width, -0.0 as 0.0, every NaN as one, a string by its bytes. Columns of different types must
be cast to one type before their hashes are compared. A null takes a fixed hash of its own, so that nulls fall into
one group; the mask says which rows hold one, for uses in which null equals nothing. Routing, equality keys and groups
use it: changing it moves stored tuples to other units, so its values are pinned by a test.

`value_ids` are 128 bits over the same values: the id of a DISTINCT row or of a group. `result_ids` are 128 bits over
the ids that a pair was made from; the order of the parts counts. Two halves with different multipliers make both
collide only by chance of 2**-128.

The mixing is that of multiply and shift-xor rounds, with a round for every 8 bytes; all arithmetic is modulo 2**64.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numba import njit
from numpy.typing import NDArray

from biclique.core.rows import Mask, Vector
from biclique.core.stamps import Ids
from biclique.kernels.text_buffers import Bytes, Offsets, buffers_of

Hashes = NDArray[np.uint64]

# Odd numbers with about as many ones as zeros: the fractions of the golden ratio and of small square roots.
FIRST = np.uint64(0x9E3779B97F4A7C15)
SECOND = np.uint64(0xD1B54A32D192ED03)
THIRD = np.uint64(0x6A09E667F3BCC909)
FOURTH = np.uint64(0xBB67AE8584CAA73B)
NULL = np.uint64(0x3C6EF372FE94F82B)
SHIFT = np.uint64(32)
BYTE = np.uint64(8)
NAN_BITS = np.uint64(0x7FF8000000000000)


@njit(cache=True, nogil=True, inline="always")
def _mix(value: np.uint64, first: np.uint64, second: np.uint64) -> np.uint64:
    """A bijection in which every bit of the input reaches every bit of the output."""
    value = (value ^ (value >> SHIFT)) * first
    value = (value ^ (value >> np.uint64(29))) * second
    return value ^ (value >> SHIFT)


@njit(cache=True, nogil=True)
def _hash_numbers(values: Hashes, seed: np.uint64, hashes: Hashes) -> None:
    """`hashes` go in as those of the columns before and come out with this column's in them."""
    for i in range(len(values)):
        hashes[i] = _mix((hashes[i] + seed) ^ _mix(values[i] + FIRST, THIRD, FOURTH), FIRST, SECOND)


@njit(cache=True, nogil=True)
def _hash_strings(offsets: Offsets, data: Bytes, seed: np.uint64, hashes: Hashes) -> None:
    for i in range(len(offsets) - 1):
        state = hashes[i] + seed
        word, filled = np.uint64(0), 0
        for at in range(offsets[i], offsets[i + 1]):
            word = (word << BYTE) | np.uint64(data[at])
            filled += 1
            if filled == 8:
                state = _mix(state ^ word, THIRD, FOURTH) + FIRST
                word, filled = np.uint64(0), 0
        # The length keeps a string apart from itself with zero bytes in front of its last word.
        length = np.uint64(offsets[i + 1] - offsets[i])
        hashes[i] = _mix(state ^ _mix(word + length * FIRST, THIRD, FOURTH), FIRST, SECOND)


@njit(cache=True, nogil=True)
def _hash_nulls(valid: Mask, before: Hashes, seed: np.uint64, hashes: Hashes) -> None:
    for i in range(len(valid)):
        if not valid[i]:
            hashes[i] = _mix((before[i] + seed) ^ NULL, FIRST, SECOND)


@njit(cache=True, nogil=True)
def _join_id(ids: Hashes, high: Hashes, low: Hashes) -> None:
    for i in range(len(ids)):
        high[i] = _mix(high[i] ^ ids[i], THIRD, FOURTH)
        low[i] = _mix(low[i] ^ ids[i], FIRST, SECOND)


@njit(cache=True, nogil=True)
def _two_ids(
    left: Hashes, right: Hashes, high_start: np.uint64, low_start: np.uint64, high: Hashes, low: Hashes
) -> None:
    """`_join_id` of two parts in one pass: a pair is by far the most common result."""
    for i in range(len(left)):
        high[i] = _mix(_mix(high_start ^ left[i], THIRD, FOURTH) ^ right[i], THIRD, FOURTH)
        low[i] = _mix(_mix(low_start ^ left[i], FIRST, SECOND) ^ right[i], FIRST, SECOND)


def number_bits(vector: Vector) -> Hashes:
    """64 bits for each number, equal exactly where SQL calls the numbers equal."""
    values: NDArray[Any] = vector.values
    if values.dtype != np.float64:
        return values.astype(np.int64, copy=False).view(np.uint64)
    bits = (values + 0.0).view(np.uint64)  # -0.0 + 0.0 is 0.0
    nan = np.isnan(values)
    return np.where(nan, NAN_BITS, bits) if nan.any() else bits


def hash_rows(vectors: Sequence[Vector], count: int | None = None, seed: int = 0) -> tuple[Hashes, Mask | None]:
    """(one hash for each row, which rows hold a null; None: none does). `count` is needed without any column."""
    rows = len(vectors[0]) if count is None else count
    hashes, nulls = np.full(rows, THIRD, np.uint64), None
    start = np.uint64(seed)
    for vector in vectors:
        before = hashes if vector.valid is None else hashes.copy()
        if isinstance(vector.values, pa.Array):
            _hash_strings(*buffers_of(vector.values), start, hashes)
        else:
            _hash_numbers(np.ascontiguousarray(number_bits(vector)), start, hashes)
        if vector.valid is not None:
            _hash_nulls(vector.valid, before, start, hashes)
            nulls = ~vector.valid if nulls is None else nulls | ~vector.valid
    return hashes, nulls


def value_ids(vectors: Sequence[Vector], count: int | None = None) -> tuple[Hashes, Hashes]:
    """(high, low) for each row; null equals null here."""
    return hash_rows(vectors, count, seed=1)[0], hash_rows(vectors, count, seed=2)[0]


def result_ids(ids: tuple[Ids, ...]) -> tuple[Hashes, Hashes]:
    """(high, low) for each result made of the tuples with these ids."""
    count, parts = len(ids[0]), [np.ascontiguousarray(part).view(np.uint64) for part in ids]
    with np.errstate(over="ignore"):
        high_start, low_start = SECOND + np.uint64(len(ids)), FOURTH + np.uint64(len(ids))
    if len(ids) == 2:
        high, low = np.empty(count, np.uint64), np.empty(count, np.uint64)
        _two_ids(parts[0], parts[1], high_start, low_start, high, low)
        return high, low
    high, low = np.full(count, high_start), np.full(count, low_start)
    for part in parts:
        _join_id(part, high, low)
    return high, low
