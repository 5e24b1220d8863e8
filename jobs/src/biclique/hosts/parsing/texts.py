"""Records of text → the ones that can be read at all, as bytes to hand to a parser, and their positions."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from biclique.hosts.parsing.rows import Verdict
from biclique.hosts.parsing.splitting import TextBlock


def undecodable(block: TextBlock) -> dict[int, Verdict]:
    if block.data.isascii() or _is_utf8(block.data):
        return {}
    bad = (record for record in range(len(block)) if not _is_utf8(block.raw(record)))
    return {record: Verdict("", "not UTF-8") for record in bad}


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def readable(block: TextBlock, bad: dict[int, Verdict]) -> tuple[bytes, NDArray[np.int64]]:
    """The bytes of the records that are not bad, and which records these are."""
    if not bad:
        return block.data, np.arange(len(block))
    pieces: list[bytes] = []
    starts, at = block.starts, 0
    for record in sorted(bad):
        pieces.append(block.data[at : int(starts[record])])
        at = int(block.ends[record])
    pieces.append(block.data[at:])
    kept = np.ones(len(block), np.bool_)
    kept[list(bad)] = False
    return b"".join(pieces), np.flatnonzero(kept)
