"""The order that sorts keys: a radix sort, as runs are made and probes arranged for every block.

Digits of 11 bits, least first, over keys minus their least: a block of keys that lie close together takes two or three
passes, whatever their type. Every pass is stable, so keys of two parts are sorted by passes over the minor one and then
over the major one. Passes of nearly equal cost make a sort of 10,000 keys several times as fast as comparing them.
Short arrays are left to the library, whose start-up is cheaper.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

Keys = NDArray[np.int64]
Order = NDArray[np.int32]

DIGIT_BITS = 11
DIGITS = 1 << DIGIT_BITS
LIBRARY_BELOW = 256


def sort_order(major: Keys, minor: Keys | None = None) -> Order:
    """Ascending by major, then by minor; equal keys keep their places."""
    count = len(major)
    if count < LIBRARY_BELOW:
        order = np.argsort(major, kind="stable") if minor is None else np.lexsort((minor, major))
        return order.astype(np.int32)
    first, second = np.arange(count, dtype=np.int32), np.empty(count, np.int32)
    places = np.empty(DIGITS, np.int64)
    for keys in (major,) if minor is None else (minor, major):
        least = int(keys.min())
        passes = -(-(int(keys.max()) - least).bit_length() // DIGIT_BITS)
        if radix_passes(np.ascontiguousarray(keys), least, passes, first, second, places):
            first, second = second, first
    return first


@njit(cache=True, nogil=True)
def radix_passes(keys: Keys, least: int, passes: int, order: Order, other: Order, places: NDArray[np.int64]) -> bool:
    """Sorts `order` by so many digits of its keys, to and fro between two arrays; True: the result is in `other`."""
    count = np.uint64(len(keys))
    mask = np.uint64(DIGITS - 1)
    source, target = order, other
    for number in range(passes):
        shift = np.uint64(DIGIT_BITS * number)
        places[:] = 0
        for i in range(count):
            places[(np.uint64(keys[i] - least) >> shift) & mask] += 1
        total = 0
        for digit in range(DIGITS):
            total, places[digit] = total + places[digit], total
        for i in range(count):
            row = source[i]
            digit_of_row = (np.uint64(keys[np.uint64(row)] - least) >> shift) & mask
            place = places[digit_of_row]
            places[digit_of_row] = place + 1
            target[np.uint64(place)] = row
        source, target = target, source
    return passes & 1 == 1
