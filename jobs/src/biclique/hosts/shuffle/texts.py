"""Texts that end with a line end each → the block that parsers of files read."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from biclique.hosts.parsing.splitting import TextBlock


def text_block(ended: pa.BinaryArray | pa.ChunkedArray, malformed: Mapping[int, str] | None = None) -> TextBlock:
    """A record for each; `malformed` of them are none."""
    texts = ended.combine_chunks() if isinstance(ended, pa.ChunkedArray) else ended
    ends = np.frombuffer(texts.buffers()[1], np.int32)[texts.offset : texts.offset + len(texts) + 1]
    begin, end = int(ends[0]), int(ends[-1])
    data = texts.buffers()[2].slice(begin, end - begin).to_pybytes() if end > begin else b""
    return TextBlock(0, data, ends[1:].astype(np.int64) - begin, malformed or {}, len(data))
