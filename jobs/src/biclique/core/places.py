"""Places: where the records of a source stand in one of its partitions. What blocks, progress and ids call an offset.

A source of one record a message has the message's own offset for a place. Where a message holds many rows (Arrow), a
place is the message's offset 32 bits | row 16. Rows count from 0, but the last row of every message has the greatest
number there is: so a place alone says whether all of its message has been taken, and the next record, whatever message
it is in, is at `place + 1` or above. A replay numbers the same message in the same way.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from biclique.core.stamps import OFFSET_BITS
from biclique.query.model import Format, Kafka, Source

MESSAGE_ROW_BITS = 16
ROWS_PER_MESSAGE = 1 << MESSAGE_ROW_BITS
LAST_ROW = ROWS_PER_MESSAGE - 1
LAST = "last"


def row_bits(source: Source) -> int:
    """Of a place of this source: how many say which row of its message it is. Not for files."""
    return MESSAGE_ROW_BITS if isinstance(source.input, Kafka) and source.input.format is Format.ARROW else 0


def offsets_max(bits: int) -> int:
    """So many messages of a partition have places."""
    return 1 << (OFFSET_BITS - bits)


def last_place(offset: int, bits: int) -> int:
    """Of the last record of the message at `offset`; the one below its first is that of the message before."""
    return ((offset + 1) << bits) - 1


def next_offset(place: int, bits: int) -> int:
    """The message that holds the first record behind `place`; -1 stands before all."""
    return (place + 1) >> bits


def places_of(
    offsets: NDArray[np.int64], rows: NDArray[np.int64], counts: NDArray[np.int64], bits: int
) -> NDArray[np.int64]:
    """Of records: row number `rows` of the `counts` rows of the message at `offsets`, each."""
    if not bits:
        return offsets
    return (offsets << bits) + np.where(rows == counts - 1, (1 << bits) - 1, rows)


def parts_of_place(source: Source, place: int) -> tuple[int, str]:
    """The message's offset, and which row of it, from 1: empty where a message is a row. The last row's number
    is not known from its place."""
    bits = row_bits(source)
    if not bits:
        return place, ""
    row = place & LAST_ROW
    return place >> bits, LAST if row == LAST_ROW else str(row + 1)


def place_text(source: Source, partition: int, place: int) -> str:
    """For a person."""
    offset, row = parts_of_place(source, place)
    shown = f", {row} row" if row == LAST else f", row {row}" if row else ""
    return f"{source.name}, partition {partition}, offset {offset}{shown}"
