"""What a shuffler makes of records whose time is ahead of their arrival."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from biclique.core.rows import Vector
from biclique.query.used import used_fields
from biclique.tiers.messages import DeadRecord, Mark, SourceBlock
from biclique.tiers.shuffler import Arrivals, Shuffler
from tests.unit.tiers.building import query

SKEW_US = 300_000_000  # five minutes, unless a manifest says another
NOW_US = 1_790_000_000_000_000
GOOD, FILTERED, DEAD = Mark.GOOD.value, Mark.FILTERED.value, Mark.DEAD.value


def pack(times: Sequence[int], files: bool = False, where: str = "", dead: Sequence[int] = ()) -> SourceBlock:
    """Records at the offsets 0, 2, 4, ..., with k = 0, 1, 2, ...; all come at NOW_US."""
    made = query(f"SELECT r.k, s.v FROM r JOIN s ON r.k = s.k {where}")
    count = len(times)
    columns = [Vector(np.arange(count).astype(np.int32)) for _ in used_fields(made, 0)]
    arrivals = Arrivals(np.full(count, NOW_US, np.int64), [b"row %d" % n for n in range(count)])
    letters = [DeadRecord(offset, b"?", "somewhere", "unreadable") for offset in dead]
    offsets = np.arange(count, dtype=np.int64) * 2
    given = np.array(times, np.int64)
    return Shuffler(made, 0).pack(3, -1, offsets, given, columns, letters, None if files else arrivals)


def test_a_time_too_far_ahead_of_the_arrival_is_dead_with_bytes_place_and_reason() -> None:
    block = pack([NOW_US, NOW_US + SKEW_US, NOW_US + SKEW_US + 1, 0, NOW_US + 10**16])
    assert block.marks.tolist() == [GOOD, GOOD, DEAD, GOOD, DEAD]
    assert block.offsets.tolist() == [0, 2, 4, 6, 8]
    assert block.columns[0].values.tolist() == [0, 1, 3]  # type: ignore[union-attr]
    assert [(dead.offset, dead.raw) for dead in block.dead] == [(4, b"row 2"), (8, b"row 4")]
    assert block.dead[0].place == "r, partition 3, offset 4, column at"
    assert block.dead[0].reason == (
        "its time 2026-09-21 14:18:20.000001 is ahead of its arrival at 2026-09-21 14:13:20 by more than maxFutureSkew"
    )


def test_a_file_may_hold_any_time() -> None:
    assert pack([NOW_US + 10**16], files=True).marks.tolist() == [GOOD]


@pytest.mark.parametrize("dead", [(), (3,), (1, 5, 9)])
def test_it_is_dead_before_any_filter_and_stands_in_its_place_among_the_unreadable(dead: tuple[int, ...]) -> None:
    block = pack([NOW_US, NOW_US + 2 * SKEW_US, NOW_US], where="WHERE r.k > 1", dead=dead)
    marks = dict(zip(block.offsets.tolist(), block.marks.tolist(), strict=True))
    assert marks == {0: FILTERED, 2: DEAD, 4: GOOD, **dict.fromkeys(dead, DEAD)}
    assert block.offsets.tolist() == sorted(marks)
    assert [letter.offset for letter in block.dead] == sorted([2, *dead])
