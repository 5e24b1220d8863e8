"""Values of Kafka records → lines, so that the parsers of files read them: one record a line.

A JSON object may stand on several lines in one record. Its line ends are white space, so they become blanks; but only
where the record is JSON without them, since inside a string a line end is an error.
"""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from biclique.hosts.parsing.splitting import TextBlock


def lines_of(values: pa.BinaryArray) -> TextBlock:
    """`values`: not null; see `Packer`, which has set the others aside."""
    if pc.any(pc.match_substring(values.view(pa.binary()), b"\n")).as_py():
        values = pa.array([_on_one_line(value) for value in values.to_pylist()], pa.binary())
    ended = pc.binary_join_element_wise(values, pa.scalar(b"\n", pa.binary()), pa.scalar(b"", pa.binary()))
    ended = ended.combine_chunks() if isinstance(ended, pa.ChunkedArray) else ended
    ends = np.frombuffer(ended.buffers()[1], np.int32)[ended.offset : ended.offset + len(ended) + 1]
    begin, end = int(ends[0]), int(ends[-1])
    data = ended.buffers()[2].slice(begin, end - begin).to_pybytes()
    return TextBlock(0, data, ends[1:].astype(np.int64) - begin, {}, len(data))


def _on_one_line(value: bytes) -> bytes:
    if b"\n" not in value:
        return value
    try:
        json.loads(value)
    except ValueError:
        # No JSON; without its line ends it must not become some.
        return b"\x00" + value.replace(b"\n", b"\x00")
    return value.replace(b"\r\n", b"  ").replace(b"\n", b" ")
