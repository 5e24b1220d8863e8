"""From values to int64 keys that compare as the values do.

| type                                          | key                                                       | exact |
|-----------------------------------------------|-----------------------------------------------------------|-------|
| INTEGER DATE TIMESTAMP INTERVAL DECIMAL       | the number                                                | yes   |
| BOOLEAN                                       | 0, 1                                                      | yes   |
| DOUBLE                                        | its bits, negative ones mirrored; -0.0 as 0.0, one NaN,   | yes   |
|                                               | which is the greatest                                     |       |
| STRING                                        | its first 8 bytes as a big-endian number, sign bit turned | no    |

*Exact* means that equal keys stand for equal values. A key that is not exact still never orders two values the other
way round, so a range of keys holds every match and perhaps more: strict bounds are then taken as inclusive ones, and
the plan keeps the predicate in the residual. UTF-8 orders by code point, and a short string's missing bytes count as
0.

Bounds are inclusive. A strict bound moves to the next key; past the last key nothing is left, and the range is empty.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numba import njit
from numpy.typing import NDArray

from biclique.core.rows import Mask, Vector
from biclique.index.protocol import KEY_MAX, KEY_MIN, Keys
from biclique.kernels.hashing import hash_rows
from biclique.kernels.text_buffers import buffers_of
from biclique.query.types import Kind, Type

TEXT_PREFIX_BYTES = 8
EPSILON = 2.0**-52
NEARLY_GREATEST = float(np.finfo(np.float64).max) * (1 - 2.0**-48)


def order_keys(vector: Vector, type_: Type) -> tuple[Keys, bool]:
    """(keys, exact). Under a null the key is any number."""
    if type_.kind is Kind.STRING:
        return text_keys(vector.values), False
    if type_.kind is Kind.DOUBLE:
        return double_keys(vector.values), True
    return vector.values.astype(np.int64), True


def equality_keys(vectors: Sequence[Vector], types: Sequence[Type]) -> tuple[Keys, bool]:
    """(keys, exact): one number or DOUBLE as its order key, anything else as a 64-bit hash of all its parts."""
    if len(vectors) == 1 and types[0].kind is not Kind.STRING:
        return order_keys(vectors[0], types[0])
    hashes, _ = hash_rows(vectors)
    return hashes.view(np.int64), False


def double_keys(values: NDArray[Any]) -> Keys:
    with np.errstate(invalid="ignore"):  # a signalling NaN is a NaN
        numbers = np.asarray(values, np.float64) + 0.0  # -0.0 + 0.0 is 0.0
    numbers[np.isnan(numbers)] = np.nan
    bits: Keys = numbers.view(np.int64)
    # Negative doubles ascend as their bits descend: all but the sign bit are turned. NaN has a positive sign here.
    return bits ^ ((bits >> 63) & KEY_MAX)


def text_keys(values: pa.StringArray) -> Keys:
    offsets, data = buffers_of(values)
    keys = np.empty(len(offsets) - 1, np.int64)
    _text_prefixes(offsets.astype(np.int64), data, keys)
    return keys


@njit(cache=True, nogil=True)
def _text_prefixes(offsets: NDArray[np.int64], data: NDArray[np.uint8], keys: Keys) -> None:
    for k in range(len(keys)):
        start, stop = offsets[k], offsets[k + 1]
        number = np.uint64(0)
        for place in range(TEXT_PREFIX_BYTES):
            number <<= np.uint64(8)
            if start + place < stop:
                number |= np.uint64(data[start + place])
        keys[k] = np.int64(number ^ np.uint64(1 << 63))


def low_bounds(vector: Vector, type_: Type, shift: int | float, strict: bool) -> tuple[Keys, Mask | None]:
    """Least keys of `stored >= value + shift` (`>` where strict), and which probes can match at all (None: all).

    Shifts are exact on numbers: beyond the greatest key nothing matches, below the least everything does.
    """
    if type_.kind is Kind.DOUBLE and shift:
        vector, strict = Vector(_shifted_outward(vector.values, float(shift), -np.inf)), False
        shift = 0
    keys, exact = order_keys(vector, type_)
    return _moved(keys, int(shift) + (1 if strict and exact else 0), KEY_MIN)


def high_bounds(vector: Vector, type_: Type, shift: int | float, strict: bool) -> tuple[Keys, Mask | None]:
    """Greatest keys of `stored <= value + shift` (`<` where strict), and which probes can match at all (None: all)."""
    if type_.kind is Kind.DOUBLE and shift:
        vector, strict = Vector(_shifted_outward(vector.values, float(shift), np.inf)), False
        shift = 0
    keys, exact = order_keys(vector, type_)
    return _moved(keys, int(shift) - (1 if strict and exact else 0), KEY_MAX)


def _moved(keys: Keys, by: int, open_end: int) -> tuple[Keys, Mask | None]:
    """keys + by in unbounded numbers: past the end on the open side it is that end, past the other nothing matches."""
    if by == 0:
        return keys, None
    fits = keys <= KEY_MAX - by if by > 0 else keys >= KEY_MIN - by
    half = by // 2  # `by` itself may be one beyond int64
    if fits.all():
        return keys + half + (by - half), None
    moved = np.where(fits, keys, 0) + half + (by - half if fits.any() else 0)
    moved[~fits] = open_end
    all_match_beyond = (by > 0) == (open_end == KEY_MAX)
    return moved, None if all_match_beyond else fits


def _shifted_outward(values: NDArray[Any], shift: float, outward: float) -> NDArray[np.float64]:
    """value + shift, moved outward by more than any rounding of the written predicate can be.

    The predicate may compute stored - shift and compare it with value. What that rounds off is at most half a unit in
    the last place of value, and value + shift may be far smaller than either (they cancel), so the margin is taken
    from the two of them and not from their sum: EPSILON * (|value| + |shift|), and one step for the rounding of the
    margin itself.
    """
    values = np.asarray(values, np.float64)
    with np.errstate(all="ignore"):
        margin = EPSILON * (np.abs(values) + abs(shift))
        bounds = values + shift
        moved = np.nextafter(bounds + np.copysign(margin, outward), outward)
        # A sum that overflowed on the inner side may have been the greatest numbers themselves.
        overflowed = np.isinf(bounds) & (np.sign(bounds) != np.sign(outward))
        moved = np.where(overflowed, np.copysign(NEARLY_GREATEST, bounds), moved)
    # An infinity plus a shift is itself; a NaN stays one.
    return np.where(np.isfinite(values), moved, bounds)
