"""Records cut by bytes where they are made, so that each is one message of a log that bounds its messages.

    a tuple          its texts have at most TUPLE_BYTES_MAX, or a shuffler sets it aside as dead
    a record         at most RECORD_BYTES_MAX of rows, or one row: of five relations at most, so some 5 MiB
    a message        8 MiB (ports/kafka_topics.py), which leaves room for what encoding adds

Cutting changes nothing else: rows keep their order, a block's epoch is that of its first row, and a group may stand in
any number of shares.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from biclique.core.rows import Indexes, Rows, Vector, text_lengths
from biclique.core.stamps import epoch_of
from biclique.kernels.text_growth import stretches_of
from biclique.tiers.messages import Block, Partials

TUPLE_BYTES_MAX = 1 << 20
RECORD_BYTES_MAX = 4 << 20
RAW_BYTES_MAX = 1 << 20  # of a dead record: more of it is where it came from


def cut_block(block: Block, bytes_max: int) -> Iterator[Block]:
    rows = block.rows
    columns = (*map(Vector, _arrays_of(rows)), *rows.columns)
    for start, stop in row_stretches(columns, len(rows), bytes_max):
        if stop - start == len(rows):
            yield block
        else:
            part = rows.slice(start, stop)
            yield replace(block, epoch=epoch_of(int(part.stamps[0])), rows=part)


def cut_partials(partials: Partials, bytes_max: int) -> Iterator[Partials]:
    count = len(partials.newest)
    columns = (*partials.keys, *(column for state in partials.states for column in state), Vector(partials.newest))
    for start, stop in row_stretches(columns, count, bytes_max):
        if stop - start == count:
            yield partials
        else:
            yield replace(
                partials,
                keys=tuple(key.slice(start, stop) for key in partials.keys),
                states=tuple(tuple(column.slice(start, stop) for column in state) for state in partials.states),
                newest=partials.newest[start:stop],
            )


def _arrays_of(rows: Rows) -> tuple[np.typing.NDArray[np.generic], ...]:
    own_oldest = () if rows.oldest is rows.newest else (rows.oldest,)
    return (rows.stamps, *rows.ids, rows.newest, *own_oldest, *rows.ordinals)


def row_stretches(columns: tuple[Vector, ...], count: int, bytes_max: int) -> Iterator[tuple[int, int]]:
    """Of rows that have no more bytes together, or one row."""
    if sum(column.nbytes for column in columns) <= bytes_max:  # as nearly always
        yield 0, count
        return
    yield from stretches_of(_row_sizes(columns, count), bytes_max)


def _row_sizes(columns: tuple[Vector, ...], count: int) -> Indexes:
    sizes = np.zeros(count, np.int64)
    for column in columns:
        lengths = text_lengths(column)
        fixed = 0 if lengths is not None else column.values.nbytes // max(count, 1)
        sizes += fixed + (column.valid is not None)
        if lengths is not None:
            sizes += lengths + 4  # and its place
    return sizes


def too_large(columns: tuple[Vector, ...], count: int) -> np.typing.NDArray[np.bool_] | None:
    """The tuples whose texts are more than any message takes; None: there is none."""
    sizes = np.zeros(count, np.int64)
    for column in columns:
        lengths = text_lengths(column)
        if lengths is not None and column.nbytes > 0:
            sizes += lengths
    large = sizes > TUPLE_BYTES_MAX
    return large if large.any() else None


def kept_raw(raw: bytes, reason: str) -> tuple[bytes, str]:
    """The bytes of a dead record and why it is dead, as they travel."""
    if len(raw) <= RAW_BYTES_MAX:
        return raw, reason
    return raw[:RAW_BYTES_MAX], f"{reason} (the first {RAW_BYTES_MAX} of its {len(raw)} bytes are here)"
