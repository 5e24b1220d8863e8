"""CSV with a header → blocks of typed rows. Only an empty unquoted field is null; columns are found by their names."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
from numpy.typing import NDArray

from biclique.hosts.parsing.columns import typed_column
from biclique.hosts.parsing.csv_split import split_csv
from biclique.hosts.parsing.rows import BadRow, ParsedBlock, Verdict, Wanted, absent_values, first_faults, without
from biclique.hosts.parsing.splitting import (
    BLOCK_MAX,
    BOM,
    READ_BYTES,
    BlockMax,
    TextBlock,
    UnreadableFile,
    text_blocks,
)
from biclique.hosts.parsing.texts import readable, undecodable

HEADER_REMEDY = "correct the header or the schema: upper and lower case and spaces count, and commas separate"


@dataclass(frozen=True, slots=True)
class CsvLayout:
    """Fields of a record, and where the wanted ones stand among them. `said_by`: who says how many there are."""

    fields: int
    wanted: tuple[int, ...]
    said_by: str = "the header"


class CsvHeader:
    """Where the wanted columns stand. `bytes`: how many the header takes, its line end included."""

    def __init__(self, stream: BinaryIO, wanted: Wanted) -> None:
        data = stream.read(READ_BYTES)
        mark = len(BOM) if data.startswith(BOM) else 0
        found = split_csv(data[mark:], final=len(data) < READ_BYTES)
        if not len(found.ends):
            if data[mark:]:
                raise UnreadableFile("the header does not end")
            self.bytes, self.names = mark, []  # an empty file has no rows and needs no header
            self.wanted: tuple[int, ...] = ()
            return
        if 0 in found.malformed:
            raise UnreadableFile(f"the header is malformed: {found.malformed[0]}")
        self.bytes = mark + int(found.ends[0])
        try:
            text = data[mark : self.bytes].decode()
        except UnicodeDecodeError:
            raise UnreadableFile("the header is not UTF-8") from None
        self.names = next(csv.reader(io.StringIO(text, newline=""), strict=True), [""])
        self.wanted = tuple(self._position(field.name) for field in wanted.fields)

    @property
    def layout(self) -> CsvLayout:
        return CsvLayout(len(self.names), self.wanted)

    def _position(self, name: str) -> int:
        count = self.names.count(name)
        if count == 1:
            return self.names.index(name)
        shown = ", ".join(self.names[:20])
        found = "more than one column" if count else "no column"
        raise UnreadableFile(f"the header has {found} {name} (it has {shown}); {HEADER_REMEDY}")


def csv_blocks(
    stream: BinaryIO, wanted: Wanted, first_row: int, resume: int, most: BlockMax = BLOCK_MAX
) -> Iterator[ParsedBlock]:
    header = CsvHeader(stream, wanted)
    layout = header.layout
    for block in text_blocks(stream, split_csv, first_row, max(resume, header.bytes), most):
        yield parse_csv_block(block, layout, wanted)


def parse_csv_block(block: TextBlock, layout: CsvLayout, wanted: Wanted) -> ParsedBlock:
    bad = {record: Verdict("", reason) for record, reason in block.malformed.items()}
    bad |= undecodable(block)
    if layout.fields > 1:
        for record in _empty_records(block).tolist():
            bad[record] = _fields_found(1, layout)
    data, kept = readable(block, bad)
    texts, wrong = _fields(data, len(kept), layout)
    bad |= {int(kept[record]): _fields_found(found, layout) for record, found in wrong.items()}
    if wrong:
        kept = np.delete(kept, list(wrong))
    typed = [typed_column(column, field.type) for column, field in zip(texts, wanted.fields, strict=True)]
    columns = [array for array, _ in typed]
    verdicts = first_faults(wanted, (faults for _, faults in typed))
    verdicts = absent_values(wanted, columns) | verdicts  # a fault leaves a null: the fault is the reason
    good, columns_of_good = without(columns, len(kept), verdicts)
    bad |= {int(kept[row]): verdict for row, verdict in verdicts.items()}
    return ParsedBlock(
        block.first_row,
        len(block),
        kept[good] + block.first_row,
        columns_of_good,
        tuple(
            BadRow(block.first_row + record, bad[record].column, bad[record].reason, block.raw(record))
            for record in sorted(bad)
        ),
        block.next_byte,
    )


def _empty_records(block: TextBlock) -> NDArray[np.int64]:
    bytes_ = np.frombuffer(block.data, np.uint8)
    starts, lengths = block.starts, block.ends - block.starts
    ends_at = lengths <= 2
    candidates = np.flatnonzero(ends_at)
    first = bytes_[starts[candidates]]
    # "\n", "\r\n"; a record of one other byte at the file's end is none of these
    return candidates[(first == ord("\n")) | ((first == ord("\r")) & (lengths[candidates] == 2))]


def _fields_found(found: int, layout: CsvLayout) -> Verdict:
    return Verdict("", f"{found} field{'s' if found != 1 else ''} where {layout.said_by} has {layout.fields}")


def _fields(data: bytes, records: int, layout: CsvLayout) -> tuple[list[pa.StringArray], dict[int, int]]:
    """The wanted columns as texts, and the records left out of them: those with another number of fields."""
    if not records:
        return [pa.array([], pa.string()) for _ in layout.wanted], {}
    wrong: dict[int, int] = {}

    def skip(row: pa_csv.InvalidRow) -> str:
        wrong[row.number - 1 - ahead] = row.actual_columns
        return "skip"

    # Arrow takes a byte order mark off the front of whatever it is given, though ours stand inside the file.
    ahead = int(data.startswith(BOM))
    if ahead:
        data = b'""' + b"," * (layout.fields - 1) + b"\n" + data
    names = [str(position) for position in range(layout.fields)]
    wanted = [names[position] for position in layout.wanted]
    table = pa_csv.read_csv(
        pa.BufferReader(data),
        read_options=pa_csv.ReadOptions(column_names=names, use_threads=False, block_size=len(data) + 1),
        parse_options=pa_csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False, invalid_row_handler=skip),
        convert_options=pa_csv.ConvertOptions(
            check_utf8=False,  # looked at before
            column_types=dict.fromkeys(names, pa.string()),
            include_columns=wanted or names[:1],
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    ).slice(ahead)
    assert len(table) + len(wrong) == records, "Arrow's records must be ours"
    return [_whole(table[name]) for name in wanted], wrong


def _whole(column: pa.ChunkedArray) -> pa.StringArray:
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks or [pa.array([], pa.string())])
