"""Progress as JSON: what one incarnation writes, the next one reads, also where the first was of an older make."""

from __future__ import annotations

import json

import pytest

from biclique.ports.progress_json import decode_progress, encode_progress
from biclique.tiers.messages import TIME_NEVER
from biclique.tiers.progress import MergerCursor, MergerProgress

PLACE = (30, 1 << 63, 7)


@pytest.mark.parametrize("cursor", [None, MergerCursor(9, PLACE, 40), MergerCursor(9, PLACE)])
def test_what_is_written_of_a_mergers_progress_is_read(cursor: MergerCursor | None) -> None:
    progress = MergerProgress(5, 8, 20, (), cursor, 17, 2)
    assert decode_progress(json.loads(json.dumps(encode_progress(progress)))) == progress


def test_a_cursor_that_was_written_without_a_watermark_is_read() -> None:
    values = encode_progress(MergerProgress(cursor=MergerCursor(9, PLACE, 40)))
    values["cursor"] = [9, *PLACE]
    assert decode_progress(values) == MergerProgress(cursor=MergerCursor(9, PLACE, TIME_NEVER))
