"""Stamps and ids: the two 64-bit numbers that every tuple carries.

A stamp orders: epoch 41 bits | dispatcher 7 | position 16, unsigned, given once by a dispatcher and never changed. It
never measures. An id names: relation 3 bits | source partition 12 | source offset 48, signed and never negative, fixed
at the source, so that a replay gives the same id. For files the offset is file ordinal 16 bits | row 32.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

POSITION_BITS, DISPATCHER_BITS, EPOCH_BITS = 16, 7, 41
POSITIONS_PER_EPOCH = 1 << POSITION_BITS
DISPATCHERS_MAX = 1 << DISPATCHER_BITS
EPOCH_MAX = (1 << EPOCH_BITS) - 1
OFFSET_BITS, PARTITION_BITS = 48, 12
ROW_BITS = 32

Stamps = NDArray[np.uint64]
Ids = NDArray[np.int64]


def stamp_base(epoch: int, dispatcher: int) -> int:
    """The stamp of position 0; a plain int, as epochs in milliseconds reach the top bit."""
    assert 0 <= epoch <= EPOCH_MAX and 0 <= dispatcher < DISPATCHERS_MAX
    return (epoch << (DISPATCHER_BITS + POSITION_BITS)) | (dispatcher << POSITION_BITS)


def epoch_of(stamp: int) -> int:
    return int(stamp) >> (DISPATCHER_BITS + POSITION_BITS)


def first_stamp_above(epoch: int) -> int:
    """The least stamp of any later epoch: everything below it is at or below `epoch`."""
    return stamp_base(epoch + 1, 0)


def tuple_id(relation: int, partition: int, offset: int) -> int:
    assert 0 <= offset < 1 << OFFSET_BITS and 0 <= partition < 1 << PARTITION_BITS and 0 <= relation < 8
    return (relation << (PARTITION_BITS + OFFSET_BITS)) | (partition << OFFSET_BITS) | offset


def tuple_ids(relation: int, partition: int, offsets: NDArray[np.int64]) -> Ids:
    return offsets + np.int64(tuple_id(relation, partition, 0))


def parts_of_id(identity: int) -> tuple[int, int, int]:
    """(relation, partition, offset)."""
    return (
        identity >> (PARTITION_BITS + OFFSET_BITS),
        (identity >> OFFSET_BITS) & ((1 << PARTITION_BITS) - 1),
        identity & ((1 << OFFSET_BITS) - 1),
    )
