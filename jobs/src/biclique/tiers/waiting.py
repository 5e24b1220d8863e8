"""Shares that a merger has read and may not merge yet, for they are above its frontier.

One sender that lags holds the frontier while all others go on, so they are bounded: beyond `bytes_max` those that are
needed last give way, and only their offsets are kept. The log still has them: nothing is trimmed behind the earliest
offset here. `missing` are the ones to be read again before a step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby

from biclique.tiers.inbox import HELD_MAX
from biclique.tiers.messages import Partials

SHARES_MAX = HELD_MAX.bytes
RECORD_BYTES = 2_000  # of a record beside its values: its arrays and objects


@dataclass(slots=True)
class _Waiting:
    offset: int
    epoch: int
    size: int
    partials: Partials | None  # None: given way


class Waiting:
    """In the order of the log."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._all: list[_Waiting] = []
        self.held = 0  # bytes

    def append(self, record: tuple[int, Partials]) -> None:
        offset, partials = record
        self._all.append(_Waiting(offset, partials.epoch, _size(partials), partials))
        self.held += self._all[-1].size
        if self.held > self._bytes_max:
            self._give_way(self._bytes_max // 2)  # by half, so that the next record does not bring the same again

    def _give_way(self, bytes_max: int) -> None:
        for waiting in sorted(self._all, key=lambda w: w.epoch, reverse=True):
            if self.held <= bytes_max:
                return
            if waiting.partials is not None:
                self.held -= waiting.size
                waiting.partials = None

    def shed(self, frontier: int) -> None:
        """Memory presses: of all that comes after this frontier, the offsets only."""
        for waiting in self._all:
            if waiting.partials is not None and waiting.epoch > frontier:
                self.held -= waiting.size
                waiting.partials = None

    def growing_steps(self, frontier: int, growth: Callable[[Partials, int], int]) -> Iterator[tuple[int, int]]:
        """Steps to just before each epoch whose shares make what is held greater, then to the frontier; and by how many
        bytes each does. `growth`: of shares of so many bytes; those that have given way count with all of theirs."""
        due = sorted((waiting for waiting in self._all if waiting.epoch <= frontier), key=lambda waiting: waiting.epoch)
        size = 0
        for epoch, together in groupby(due, key=lambda waiting: waiting.epoch):
            more = sum(w.size if w.partials is None else growth(w.partials, w.size) for w in together)
            if more:
                yield epoch - 1, size
            size += more
        yield frontier, size

    def missing(self, frontier: int) -> tuple[int, ...]:
        """Offsets of what is needed now and has given way."""
        return tuple(w.offset for w in self._all if w.partials is None and w.epoch <= frontier)

    def take(self, frontier: int) -> Iterator[Partials]:
        """Those at or below the frontier that are held. None is needed again."""
        due = [waiting for waiting in self._all if waiting.epoch <= frontier]
        self._all = [waiting for waiting in self._all if waiting.epoch > frontier]
        for waiting in due:
            if waiting.partials is not None:
                self.held -= waiting.size
                yield waiting.partials

    def earliest(self, next_offset: int) -> int:
        return min((waiting.offset for waiting in self._all), default=next_offset)


def _size(partials: Partials) -> int:
    columns = (*partials.keys, *(column for state in partials.states for column in state))
    return RECORD_BYTES + int(partials.newest.nbytes) + sum(column.nbytes for column in columns)
