"""Stamps for the tuples of one turn of a dispatcher, and with them what windows of so many tuples count.

A tuple takes the next position of the turn's epoch; when all are taken, a new epoch begins. A source that is several
relations gives each of its records one stamp for each of them: relation by relation within a block, or, where windows
count tuples, record by record. There the order is the result: "the last ten before it" must not depend on how many
records came in one block.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from biclique.core.ranks import Counts, EpochTotals
from biclique.core.rows import Indexes
from biclique.core.stamps import POSITIONS_PER_EPOCH, Stamps, stamp_base


class Run(NamedTuple):
    """Tuples `start` to `stop` of one relation, of those that were given to be stamped; all of one epoch."""

    relation: int
    start: int
    stop: int
    stamps: Stamps
    ordinals: tuple[NDArray[np.int64], ...]  # of each counted relation: how many this dispatcher stamped before


class Stamping:
    """`epoch`: the turn's first, and then the one it has come to. `counted`: the relations whose windows count tuples;
    `before`: this dispatcher's totals of them at its last signal."""

    def __init__(self, dispatcher: int, epoch: int, counted: Sequence[int], before: EpochTotals) -> None:
        self._dispatcher, self.epoch, self._used = dispatcher, epoch, 0
        self._counted, self._counts = tuple(counted), list(before.counts or (0,) * len(counted))
        self._told = [EpochTotals(before.epoch, self.counts)]

    @property
    def counts(self) -> Counts:
        return tuple(self._counts)

    @property
    def totals(self) -> tuple[EpochTotals, ...]:
        """For the signal: at the one before, then at the end of each epoch of this turn."""
        return (*self._told, EpochTotals(self.epoch, self.counts)) if self._counted else ()

    def give(self, records: Mapping[int, Indexes]) -> Iterator[Run]:
        """`records`: of each relation made of a source, the records of a block that enter it, in ascending order."""
        places = self._places(records)
        total = sum(map(len, records.values()))
        later = range(POSITIONS_PER_EPOCH - self._used, total, POSITIONS_PER_EPOCH)
        for number, (low, high) in enumerate(pairwise((0, *later, total))):
            if number:
                self._told.append(EpochTotals(self.epoch, self.counts))
                self.epoch, self._used = self.epoch + 1, 0
            first = np.uint64(stamp_base(self.epoch, self._dispatcher) + self._used)
            for relation, taken in places.items():
                start, stop = np.searchsorted(taken, (low, high)).tolist()
                if start < stop:
                    own = taken[start:stop]
                    stamps = first + (own - low).astype(np.uint64)
                    yield Run(relation, start, stop, stamps, self._ordinals(own, low, places))
            self._used += high - low
            for place, relation in enumerate(self._counted):
                if relation in places:
                    self._counts[place] += _between(places[relation], low, high)

    def _ordinals(self, own: Indexes, low: int, places: Mapping[int, Indexes]) -> tuple[NDArray[np.int64], ...]:
        found: list[NDArray[np.int64]] = []
        for count, relation in zip(self._counts, self._counted, strict=True):
            taken = places.get(relation)
            if taken is None:
                found.append(np.full(len(own), count))
            else:
                found.append(np.searchsorted(taken, own) + (count - int(np.searchsorted(taken, low))))
        return tuple(found)

    def _places(self, records: Mapping[int, Indexes]) -> dict[int, Indexes]:
        """Where the tuples of each relation come among all that are given, ascending."""
        ends = np.cumsum([len(entering) for entering in records.values()])
        if len(records) > 1 and self._counted:
            turns = [entering * len(records) + turn for turn, entering in enumerate(records.values())]
            order = np.argsort(np.concatenate(turns))
            place = np.empty(len(order), np.int64)
            place[order] = np.arange(len(order))
        else:
            place = np.arange(int(ends[-1]))
        return dict(zip(records, np.split(place, ends[:-1]), strict=True))


def _between(places: Indexes, low: int, high: int) -> int:
    start, stop = np.searchsorted(places, (low, high)).tolist()
    return int(stop - start)
