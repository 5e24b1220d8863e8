"""Bounds of what a shuffler handles at once: messages are parsed by portions of so many bytes, and a source block is
cut until it has no more rows and bytes than it may. Where it is cut decides nothing: a block names its predecessor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from biclique.core.rows import Vector
from biclique.plan.semijoin import BLOCK_BYTES
from biclique.ports.wire import Message
from biclique.tiers.cutting import RECORD_BYTES_MAX
from biclique.tiers.messages import Mark, SourceBlock

PORTION_BYTES = 4 << 20  # of messages, but for one that has more alone
BLOCK_ROWS = 16_384
FETCHED_BYTES = BLOCK_BYTES  # of a block that units may read again for a few of its rows
NARROW_BYTES = (
    96  # a row of no more is hardly worth leaving behind, and thousands of small blocks cost their dispatcher
)


def bytes_max_of(block: SourceBlock, fetched: bool) -> int:
    """`fetched`: units may read it again. Of the texts and numbers of its rows alone, as they are in memory."""
    rows = len(block.columns[0]) if block.columns else 0
    wide = rows > 0 and sum(column.nbytes for column in block.columns) > NARROW_BYTES * rows
    return FETCHED_BYTES if fetched and wide else RECORD_BYTES_MAX


def sizes_as_they_came(values: pa.BinaryArray) -> NDArray[np.int64]:
    found: NDArray[np.int64] = pc.fill_null(pc.binary_length(values), 0).to_numpy().astype(np.int64)
    return found


def portions(records: pa.RecordBatch, sizes: NDArray[np.int64], most: int = PORTION_BYTES) -> Iterator[pa.RecordBatch]:
    """`sizes`: of the messages, in bytes that parsing them takes."""
    total, start = np.cumsum(sizes), 0
    while start < len(records):
        before = int(total[start - 1]) if start else 0
        stop = max(start + 1, int(total.searchsorted(before + most, side="right")))
        yield records.slice(start, stop - start)
        start = stop


def cut(
    block: SourceBlock,
    encode: Callable[[SourceBlock], Message],
    rows_max: int = BLOCK_ROWS,
    bytes_max: int = RECORD_BYTES_MAX,
) -> Iterator[tuple[SourceBlock, Message]]:
    """Blocks with their messages; one record may have more bytes (tiers/cutting.py bounds those of a tuple)."""
    count = len(block.offsets)
    if not count:
        return
    # What is certainly too large is halved before it is encoded in vain.
    message = encode(block) if count <= rows_max and (count == 1 or block.nbytes <= 2 * bytes_max) else None
    if message is not None and (count == 1 or len(message.value) <= bytes_max):
        yield block, message
        return
    for half in _halves(block):
        yield from cut(half, encode, rows_max, bytes_max)


def cut_rows(block: SourceBlock, rows_max: int = BLOCK_ROWS) -> Iterator[SourceBlock]:
    """Where no message bounds bytes."""
    if len(block.offsets) > rows_max:
        for half in _halves(block):
            yield from cut_rows(half, rows_max)
    elif len(block.offsets):
        yield block


def _halves(block: SourceBlock) -> tuple[SourceBlock, SourceBlock]:
    half = len(block.offsets) // 2
    good = int(np.count_nonzero(block.marks[:half] == Mark.GOOD.value))
    last = int(block.offsets[half - 1])

    def columns(begin: int, end: int | None) -> tuple[Vector, ...]:
        return tuple(column.slice(begin, len(column) if end is None else end) for column in block.columns)

    first = replace(
        block,
        offsets=block.offsets[:half],
        marks=block.marks[:half],
        times=block.times[:half],
        columns=columns(0, good),
        dead=tuple(record for record in block.dead if record.offset <= last),
    )
    second = replace(
        block,
        predecessor=last,
        offsets=block.offsets[half:],
        marks=block.marks[half:],
        times=block.times[half:],
        columns=columns(good, None),
        dead=tuple(record for record in block.dead if record.offset > last),
    )
    return first, second
