"""What parsing makes of consecutive messages of one source partition: the same shape for every format."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from biclique.hosts.parsing.rows import ParsedBlock

WHOLE = -1  # in place of a row: the message as a whole


class BadRecord(NamedTuple):
    """`message`: its position among the messages; `row`: in it, from 0, or WHOLE. `raw`: None: the message's bytes."""

    message: int
    row: int
    column: str
    reason: str
    raw: bytes | None = None


@dataclass(frozen=True, slots=True, eq=False)
class ParsedMessages:
    """`messages`, `rows` (in their message, from 0) and `columns` are of the records that could be read, in order;
    `counts` has the rows of every message, also of one that is bad as a whole."""

    messages: NDArray[np.int64]
    rows: NDArray[np.int64]
    columns: tuple[pa.Array, ...]
    bad: tuple[BadRecord, ...]
    counts: NDArray[np.int64]


def one_record_each(block: ParsedBlock) -> ParsedMessages:
    bad = tuple(BadRecord(row.row, WHOLE, row.column, row.reason) for row in block.bad)
    zeros, ones = np.zeros(len(block.rows), np.int64), np.ones(block.count, np.int64)
    return ParsedMessages(block.rows, zeros, block.columns, bad, ones)
