"""One RFC 4180 record a message, without a header: its fields are those of the schema, in that order. A line end may
stand behind it. Only an empty unquoted field is null.

Messages are joined and split again: where every record is a message, and none is malformed, they are what they should
be; else halves are looked at, until what is doubtful is a message alone. What is said of a message depends on nothing
but its own bytes.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from biclique.hosts.parsing.csv_rows import CsvLayout, parse_csv_block
from biclique.hosts.parsing.csv_split import split_csv
from biclique.hosts.parsing.rows import Wanted
from biclique.hosts.shuffle.parsed import ParsedMessages, one_record_each
from biclique.hosts.shuffle.texts import text_block
from biclique.query.model import Field


def parse_csv_messages(values: pa.BinaryArray, wanted: Wanted, schema: tuple[Field, ...]) -> ParsedMessages:
    names = [field.name for field in schema]
    layout = CsvLayout(len(names), tuple(names.index(field.name) for field in wanted.fields), "the schema")
    ended = _ended(values)
    malformed: dict[int, str] = {}
    _judge(ended, 0, malformed)
    return one_record_each(parse_csv_block(text_block(ended, malformed), layout, wanted))


def _ended(values: pa.BinaryArray) -> pa.BinaryArray:
    line_end, nothing = pa.scalar(b"\n", pa.binary()), pa.scalar(b"", pa.binary())
    missing = pc.if_else(pc.ends_with(values, b"\n"), nothing, line_end)
    joined = pc.binary_join_element_wise(values, missing, nothing)
    return joined.combine_chunks() if isinstance(joined, pa.ChunkedArray) else joined


def _judge(ended: pa.BinaryArray, first: int, malformed: dict[int, str]) -> None:
    block = text_block(ended)
    found = split_csv(block.data, True)
    if not found.malformed and found.ends.tolist() == block.ends.tolist():
        return
    if len(ended) > 1:
        half = len(ended) // 2
        _judge(ended.slice(0, half), first, malformed)
        _judge(ended.slice(half), first + half, malformed)
        return
    records = len(found.ends)
    reason = f"{records} records where a message holds one" if records != 1 else found.malformed[0]
    malformed[first] = reason
