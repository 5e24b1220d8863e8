"""Reading again what was read before and has given way to something else, as a generator of effects (tiers/effects.py).

What is wanted lies close together, with signals and records between that are held: to read through those costs less
than to go to each place by itself. A log keeps all of it: nothing is trimmed that its owner has not handled.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any

from biclique.tiers.effects import Effect, Fetched, Read, Rest
from biclique.tiers.messages import Address, Record

GAP_MAX = 16  # offsets between two that are read in one go
RECORDS_MAX = 64  # of one read
AGAIN_MS = 10  # a fetch may bring nothing, though the record is there


def read_again(
    address: Address, offsets: Sequence[int], take: Callable[[int, Record], None]
) -> Generator[Effect, Any, bool]:
    """`offsets`: ascending. False: one has been trimmed, so a successor has handled it."""
    for stretch in _stretches(offsets):
        wanted, at, last = set(stretch), stretch[0], stretch[-1]
        while wanted:
            fetched: Fetched = yield Read(address, at, min(RECORDS_MAX, last - at + 1))
            if fetched.start > min(wanted):
                return False
            for offset, record in fetched.records:
                if offset in wanted:
                    wanted.remove(offset)
                    take(offset, record)
            if not fetched.records:
                yield Rest(AGAIN_MS)
            at = max(at, fetched.next_offset)
            assert not wanted or min(wanted) >= at, "what was committed is there"
    return True


def _stretches(offsets: Sequence[int]) -> Iterator[list[int]]:
    stretch: list[int] = []
    for offset in offsets:
        if stretch and offset - stretch[-1] > GAP_MAX:
            yield stretch
            stretch = []
        stretch.append(offset)
    if stretch:
        yield stretch
