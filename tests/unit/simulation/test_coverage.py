"""What runs come across is counted by kind, and a kind that none came across is named."""

from __future__ import annotations

from collections import Counter

from tests.simulation.coverage import KINDS, matrix, table, unseen
from tests.simulation.focus import (
    FOCUSES,
    HALVES,
    HALVES_SHARE,
    ROOM,
    ROOM_SHARE,
    SHARE,
    WATERMARKS,
    WATERMARKS_SHARE,
    focus_of,
)
from tests.simulation.runs import STORY_HEAD, STORY_TAIL, folded, run_of


def test_a_run_counts_what_it_came_across() -> None:
    happened = run_of(7)[0].happened
    assert happened["a commit is committed"] > 10
    assert set(happened) & set(KINDS)
    assert run_of(7)[0].happened == happened


def test_a_kind_that_never_happened_is_named() -> None:
    assert unseen(Counter(dict.fromkeys(KINDS, 1))) == []
    assert unseen(Counter(dict.fromkeys(KINDS[1:], 1))) == [KINDS[0]]


def test_the_table_has_every_kind_and_its_number_once() -> None:
    counts = Counter({kind: n for n, kind in enumerate(KINDS, 1000)} | {"a surprise": 7})
    lines = f"{table(counts)}\n{matrix(counts)}"
    assert all(lines.count(f"{number:,}") == 1 for number in range(1000, 1000 + len(KINDS)))
    assert "a surprise" in lines
    assert max(map(len, lines.splitlines())) < 160


def test_a_share_of_the_seeds_has_a_focus_each() -> None:
    names = Counter(focus_of(seed).name for seed in range(3000))
    assert set(names) == {"none", *(focus.name for focus in (HALVES, ROOM, WATERMARKS, *FOCUSES))}
    left = (1 - SHARE) * (1 - HALVES_SHARE) * (1 - ROOM_SHARE) * (1 - WATERMARKS_SHARE)
    assert abs(names["none"] / 3000 - left) < 0.05


def test_a_long_story_is_folded_in_its_middle() -> None:
    story = [f"line {n}" for n in range(500)]
    told = folded(story, 3)
    assert told[:STORY_HEAD] == story[:STORY_HEAD] and told[-STORY_TAIL:] == story[-STORY_TAIL:]
    (fold,) = told[STORY_HEAD:-STORY_TAIL]
    assert f"{500 - STORY_HEAD - STORY_TAIL} more lines" in fold and "--seed 3 --all" in fold
    assert folded(story[:50], 3) == story[:50]
