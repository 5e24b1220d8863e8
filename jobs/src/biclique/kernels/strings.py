"""UPPER, LOWER, LENGTH, SUBSTRING, TRIM and CONCAT, counted in code points.

UPPER and LOWER map one code point to one (by Arrow's Unicode tables), so a string keeps its length. TRIM takes spaces
off both ends. CONCAT is null if any part is. SUBSTRING(s, start, length) is the standard's: the positions from start
to start + length - 1 that exist, the first being 1; a start below 1 uses up length before the string begins; a length
below zero fails.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numba import njit
from numpy.typing import NDArray

from biclique.core.rows import Mask
from biclique.kernels.lanes import (
    INT64_MAX,
    Lane,
    rows_of,
    spread,
    spread_strings,
    strict,
    with_failures,
    without_nulls,
)
from biclique.kernels.text_buffers import Bytes, Offsets, buffers_of, strings_from
from biclique.query.expression import Op

Int64s = NDArray[np.int64]
TEXT_MAX = 1 << 24


def mapped(op: Op, lane: Lane) -> Lane:
    bad = None if op is Op.TRIM else too_long((lane,))
    if bad is not None:
        lane = with_failures(Lane(without_nulls(lane.values, ~bad), lane.valid, lane.failed), bad)
    match op:
        case Op.UPPER:
            values = pc.utf8_upper(lane.values)
        case Op.LOWER:
            values = pc.utf8_lower(lane.values)
        case Op.TRIM:
            values = pc.utf8_trim(lane.values, characters=" ")
        case _:
            raise AssertionError(op)
    return Lane(values, lane.valid, lane.failed)


def length(lane: Lane) -> Lane:
    return Lane(pc.utf8_length(lane.values).to_numpy().astype(np.int64), lane.valid, lane.failed)


def concat(lanes: tuple[Lane, ...]) -> Lane:
    valid, failed = strict(lanes)
    bad = too_long(lanes)
    count = rows_of(*lanes)
    parts = [spread_strings(lane.values, count) for lane in lanes]
    if bad is not None:
        parts = [without_nulls(part, ~bad) for part in parts]
    return with_failures(Lane(pc.binary_join_element_wise(*parts, pa.scalar("")), valid, failed), bad)


def too_long(lanes: tuple[Lane, ...]) -> Mask | None:
    """Where the texts of a row are together more than a text may be; None: nowhere."""
    if sum(lane.values.nbytes for lane in lanes) <= TEXT_MAX:
        return None
    sizes = np.zeros(rows_of(*lanes), np.int64)
    for lane in lanes:
        sizes += np.asarray(pc.binary_length(lane.values))
    bad: Mask = sizes > TEXT_MAX
    return bad if bad.any() else None


@njit(cache=True, nogil=True)
def _ranges(offsets: Offsets, data: Bytes, start: Int64s, size: Int64s, low: Int64s, high: Int64s, bad: Mask) -> int:
    """Byte range of each substring; returns the bytes of all."""
    total = 0
    for i in range(len(low)):
        low[i] = high[i] = offsets[i]
        bad[i] = size[i] < 0
        if bad[i] or size[i] == 0:
            continue
        first = start[i]
        # The last position wanted, without overflow: a start above 0 may run past the greatest integer.
        last = np.int64(INT64_MAX) if first > 0 and size[i] > np.int64(INT64_MAX) - first else first + size[i] - 1
        position, begin, end = 0, offsets[i + 1], offsets[i + 1]
        for at in range(offsets[i], offsets[i + 1]):
            if data[at] & 0xC0 != 0x80:  # a code point starts here
                position += 1
                if position == first or (position == 1 and first < 1):
                    begin = at
                if position > last:
                    end = at
                    break
        if last >= 1 and begin < end:
            low[i], high[i] = begin, end
            total += end - begin
    return total


@njit(cache=True, nogil=True)
def _copy(data: Bytes, low: Int64s, high: Int64s, offsets: Offsets, out: Bytes) -> None:
    at = 0
    offsets[0] = 0
    for i in range(len(low)):
        for j in range(low[i], high[i]):
            out[at] = data[j]
            at += 1
        offsets[i + 1] = at


def substring(lanes: tuple[Lane, ...]) -> Lane:
    valid, failed = strict(lanes)
    count = rows_of(*lanes)
    offsets, data = buffers_of(spread_strings(lanes[0].values, count))
    start = spread(lanes[1].values.astype(np.int64), count)
    size = spread(lanes[2].values.astype(np.int64), count) if len(lanes) == 3 else np.full(count, INT64_MAX)
    if len(lanes) == 2:
        start = np.maximum(start, 1)  # without a length, a start below 1 uses up none
    low, high, bad = np.empty(count, np.int64), np.empty(count, np.int64), np.empty(count, np.bool_)
    total = _ranges(offsets, data, start, size, low, high, bad)
    made, out = np.empty(count + 1, np.int32), np.empty(total, np.uint8)
    _copy(data, low, high, made, out)
    return with_failures(Lane(strings_from(made, out), valid, failed), bad)
