"""A file of text → blocks of whole records, cut by records and by bytes whatever pieces the bytes come in.

A splitter is told some bytes that begin a record, and whether the file ends with them; it answers with the ends of
the records that it is sure of. What follows the last end is shown again, with more bytes behind it. Ends are a
function of the file alone, and where a block ends depends on nothing but what follows its begin: a run that resumes
where some block began cuts the same blocks from there on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

BOM = b"\xef\xbb\xbf"  # some programs begin a file with it: no part of the first record
RECORD_BYTES_MAX = 16 << 20
READ_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class BlockMax:
    """A block ends before the record with which it would have more of either; one record it has, whatever its size."""

    rows: int = 1 << 15
    bytes: int = 16 << 20  # of records as they are in the file; of a columnar one, of the values that are read


BLOCK_MAX = BlockMax()


class UnreadableFile(Exception):
    """Not one bad record but a file that cannot be read on: the sentence goes to the user."""


@dataclass(frozen=True, slots=True)
class Split:
    """`ends`: of the records, exclusive, line ends included. `malformed`: record → why it is none."""

    ends: NDArray[np.int64]
    malformed: Mapping[int, str] = field(default_factory=dict)


Splitter = Callable[[bytes, bool], Split]


@dataclass(frozen=True, slots=True)
class TextBlock:
    """Consecutive records. `first_row` counts from the file's start; `next_byte` is the offset behind the last one."""

    first_row: int
    data: bytes
    ends: NDArray[np.int64]
    malformed: Mapping[int, str]
    next_byte: int

    def __len__(self) -> int:
        return len(self.ends)

    @property
    def starts(self) -> NDArray[np.int64]:
        starts = np.empty_like(self.ends)
        starts[:1], starts[1:] = 0, self.ends[:-1]
        return starts

    def raw(self, record: int) -> bytes:
        """Without its line end."""
        start = int(self.ends[record - 1]) if record else 0
        data = self.data[start : int(self.ends[record])]
        return data.removesuffix(b"\n").removesuffix(b"\r")


def split_lines(data: bytes, final: bool) -> Split:
    ends = np.flatnonzero(np.frombuffer(data, np.uint8) == ord("\n")) + 1
    if final and len(data) > (ends[-1] if len(ends) else 0):
        ends = np.append(ends, len(data))
    return Split(ends.astype(np.int64, copy=False))


def text_blocks(
    stream: BinaryIO, split: Splitter, first_row: int, first_byte: int, most: BlockMax = BLOCK_MAX
) -> Iterator[TextBlock]:
    """From a block's begin on: `first_row` is its first record, `first_byte` where that begins."""
    stream.seek(first_byte)
    data, begin = b"", first_byte  # of data
    ends: NDArray[np.int64] = np.zeros(0, np.int64)
    malformed: dict[int, str] = {}
    row, final = first_row, False
    while not final:
        piece = stream.read(READ_BYTES)
        final = not piece
        data += piece
        scanned = int(ends[-1]) if len(ends) else 0
        found = split(data[scanned:], final)
        malformed |= {len(ends) + record: reason for record, reason in found.malformed.items()}
        ends = np.concatenate([ends, found.ends + scanned])
        # Until an end beyond the bound is known, the next record may still belong to the block.
        while len(ends) and (final or len(ends) >= most.rows or ends[-1] > most.bytes):
            count = max(1, min(most.rows, int(ends.searchsorted(most.bytes, side="right"))))
            taken = ends[:count]
            stop = int(taken[-1])
            bad = {record: reason for record, reason in malformed.items() if record < count}
            yield TextBlock(row, data[:stop], taken, bad, begin + stop)
            malformed = {record - count: reason for record, reason in malformed.items() if record >= count}
            data, begin, row, ends = data[stop:], begin + stop, row + count, ends[count:] - stop
        if len(data) - (int(ends[-1]) if len(ends) else 0) > RECORD_BYTES_MAX + READ_BYTES:
            raise UnreadableFile(f"row {row + len(ends) + 1} is longer than {RECORD_BYTES_MAX >> 20} MiB")
