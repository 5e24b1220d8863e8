"""What gave way is read again in few reads, and one that was trimmed is told."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from biclique.tiers.effects import Fetched, Read, Rest
from biclique.tiers.messages import Address, Heartbeat, Record, Topic
from biclique.tiers.reading_again import GAP_MAX, RECORDS_MAX, read_again

PLACE = Address(Topic.UNIT, "0L0.0")


def record(offset: int) -> Heartbeat:
    return Heartbeat(0, 0, offset, offset, 0)


def driven(
    offsets: list[int], there: Callable[[int], bool], start: int = 0, most: Callable[[], int] = lambda: 1 << 30
) -> tuple[bool, dict[int, Record], list[Read]]:
    """`there`: whether an offset is a record, and not a marker. `most`: records of an answer."""
    found: dict[int, Record] = {}
    reads: list[Read] = []
    loop = read_again(PLACE, offsets, lambda offset, record: found.update({offset: record}))
    try:
        effect = next(loop)
        while True:
            if isinstance(effect, Rest):
                effect = loop.send(None)
                continue
            assert isinstance(effect, Read) and effect.limit <= RECORDS_MAX
            reads.append(effect)
            at, records = max(effect.offset, start), list[tuple[int, Record]]()
            bound = min(effect.limit, most())
            while len(records) < bound and at < 10_000:
                records += [(at, record(at))] if there(at) else []
                at += 1
            effect = loop.send(Fetched(tuple(records), at, start, 10_000))
    except StopIteration as stop:
        return bool(stop.value), found, reads


@pytest.mark.parametrize("seed", range(30))
def test_all_that_is_wanted_is_read_whatever_lies_between_and_however_little_comes(seed: int) -> None:
    rng = random.Random(seed)
    markers = set(rng.sample(range(3000), 300))
    records = [offset for offset in range(3000) if offset not in markers]
    offsets = sorted(rng.sample(records, rng.choice((0, 1, 5, 200))))
    whole, found, _ = driven(offsets, lambda at: at not in markers, most=lambda: rng.choice((0, 1, 3, 64)))
    assert whole and found == {offset: record(offset) for offset in offsets}


def test_what_lies_close_together_is_one_read_and_what_does_not_is_not() -> None:
    close, far = list(range(100, 150, 3)), [150 + GAP_MAX * n for n in range(2, 20, 2)]
    _, found, reads = driven(close + far, lambda at: at % 3 == 1 or at > 150)
    assert len(found) == len(close) + len(far)
    assert len(reads) == 1 + len(far)


def test_one_that_was_trimmed_is_a_successors() -> None:
    assert driven([7, 9], lambda at: True, start=8)[0] is False
    assert driven([8, 9], lambda at: True, start=8)[0] is True
