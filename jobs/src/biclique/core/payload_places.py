"""Where the rest of a tuple is, that travelled keys first: a row of a block of `<q>.shuffled`, as one number.

dispatcher 7 bits | offset of the block 36 | row 20. The dispatcher is the partition of shuffled. A tuple's place is
given with its stamp, from the block that was accepted, and never changed: a replay, a checkpoint and a move carry it
like any column. Not negative where the payload must be fetched from there; its complement, which is negative, where the
payload is in the row itself, so that one column tells both where and whether.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from biclique.core.rows import Indexes
from biclique.core.stamps import DISPATCHERS_MAX

ROW_BITS, OFFSET_BITS = 20, 36
ROWS_MAX, OFFSETS_MAX = 1 << ROW_BITS, 1 << OFFSET_BITS

PayloadPlaces = NDArray[np.int64]


def places_of(dispatcher: int, offset: int, rows: Indexes) -> PayloadPlaces:
    """`rows`: of the block's columns, in ascending order."""
    assert 0 <= dispatcher < DISPATCHERS_MAX and 0 <= offset < OFFSETS_MAX
    assert not len(rows) or int(rows[-1]) < ROWS_MAX, "a block has more rows than a place can name"
    return rows + np.int64(((dispatcher << OFFSET_BITS) | offset) << ROW_BITS)


def in_the_row(places: PayloadPlaces) -> PayloadPlaces:
    """The same places, of rows that bring their payload along."""
    return ~places


def known(places: PayloadPlaces) -> PayloadPlaces:
    """PayloadPlaces, whether their rows bring the payload along or not."""
    return np.where(places < 0, ~places, places)


def blocks_of(places: PayloadPlaces) -> NDArray[np.int64]:
    """One number for each block; ascending where the places are."""
    return places >> ROW_BITS


def block(number: int) -> tuple[int, int]:
    """(dispatcher, offset) of what `blocks_of` gives."""
    return number >> OFFSET_BITS, number & (OFFSETS_MAX - 1)


def rows_of(places: PayloadPlaces) -> Indexes:
    return places & (ROWS_MAX - 1)
