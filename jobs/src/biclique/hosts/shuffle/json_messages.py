"""One JSON object a message: as lines, one a message, so that the parser of files reads them.

An object may stand on several lines. Its line ends are white space, so they become blanks; but only where the message
is JSON without them, since inside a string a line end is an error.
"""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.compute as pc

from biclique.hosts.parsing.json_rows import parse_json_block
from biclique.hosts.parsing.rows import Wanted
from biclique.hosts.parsing.splitting import TextBlock
from biclique.hosts.shuffle.parsed import ParsedMessages, one_record_each
from biclique.hosts.shuffle.texts import text_block

_LINE_END, _NOTHING = pa.scalar(b"\n", pa.binary()), pa.scalar(b"", pa.binary())


def parse_json_messages(values: pa.BinaryArray, wanted: Wanted) -> ParsedMessages:
    return one_record_each(parse_json_block(_lines_of(values), wanted))


def _lines_of(values: pa.BinaryArray) -> TextBlock:
    if pc.any(pc.match_substring(values.view(pa.binary()), b"\n")).as_py():
        values = pa.array([_on_one_line(value) for value in values.to_pylist()], pa.binary())
    return text_block(pc.binary_join_element_wise(values, _LINE_END, _NOTHING))


def _on_one_line(value: bytes) -> bytes:
    value = value.rstrip(b" \t\r\n") or value  # what most producers of several lines end with
    if b"\n" not in value:
        return value
    try:
        json.loads(value)
    except RecursionError:
        pass  # nested too deep, with line ends or without: who reads lines says so
    except ValueError:
        # No JSON; without its line ends it must not become some.
        return b"\x00" + value.replace(b"\n", b"\x00")
    return value.replace(b"\r\n", b"  ").replace(b"\n", b" ")
