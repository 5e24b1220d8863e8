"""Ranks: the place of a tuple among all tuples of its relation, by stamp. A window of n tuples is a window over ranks.

    rank(stamp) = how many tuples of the relation have a smaller stamp, over all dispatchers

No dispatcher knows it when it stamps. It gives each row its *ordinal*, how many of the relation's tuples it has itself
stamped before, over its whole life; and each signal its *totals* by epoch, how many those were with stamps at or below
the epoch. Stamps are ordered by epoch, dispatcher, position, so for a row of dispatcher d in epoch e

    rank = its ordinal + totals of all d' < d through e + totals of all d' > d before e

and all of these are known once every dispatcher has signalled e: at the frontier. They are numbers of the log, the same
in every partition, so a row keeps its rank wherever it is moved.

A signal's totals begin with those at the dispatcher's signal before, which is what makes one signal enough to read on
from: they hold from that epoch on, whatever was read before. Where the log does not tell a total any more (the row lies
below all that the log was kept for, see tiers/trimming.py), it is taken as the last that was told, or as none. So a
rank may come out too low, for a row that no window holds any more, and never too high.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from biclique.core.rows import Rows
from biclique.core.stamps import DISPATCHER_BITS, DISPATCHERS_MAX, POSITION_BITS

Counts = tuple[int, ...]  # of each counted relation


class EpochTotals(NamedTuple):
    """How many tuples of each counted relation a dispatcher has stamped at or below the epoch."""

    epoch: int
    counts: Counts


class _Told(NamedTuple):
    epoch: int
    counts: Counts
    offset: int  # of the signal that told it


class Totals:
    """What the dispatchers' signals in one partition tell. `base`: of each dispatcher, at an epoch from which on every
    signal will be read (a manifest's); none: the partition is read from its start."""

    def __init__(self, dispatchers: int, relations: int, base_epoch: int = -1, base: Sequence[Counts] = ()) -> None:
        self._nothing: Counts = (0,) * relations
        self._told: list[list[_Told]] = [[] for _ in range(dispatchers)]
        for told, counts in zip(self._told, base, strict=False):
            told.append(_Told(base_epoch, counts, 0))

    def take(self, dispatcher: int, totals: Sequence[EpochTotals], offset: int) -> None:
        told = self._told[dispatcher]
        told += [_Told(*total, offset) for total in totals if not told or total.epoch > told[-1].epoch]

    def at(self, epoch: int) -> tuple[Counts, ...]:
        """Of each dispatcher, through the epoch."""
        return tuple(
            next((told.counts for told in reversed(tolds) if told.epoch <= epoch), self._nothing)
            for tolds in self._told
        )

    def sum_at(self, epoch: int) -> Counts:
        """The rank of whatever comes next after the epoch, in each counted relation."""
        return tuple(map(sum, zip(*self.at(epoch), strict=True)))

    def ranked(self, rows: Rows, place: int) -> Rows:
        """Rows of a block with their rank among the tuples of one counted relation, instead of all their ordinals."""
        shift, mask = np.uint64(POSITION_BITS), np.uint64(DISPATCHERS_MAX - 1)
        heads = rows.stamps >> shift
        first = np.ones(len(heads), np.bool_)
        np.not_equal(heads[1:], heads[:-1], out=first[1:])
        starts = np.flatnonzero(first)
        heads = heads[starts]
        epochs = (heads >> np.uint64(DISPATCHER_BITS)).astype(np.int64)
        dispatchers = (heads & mask).astype(np.int64)
        before = np.zeros(len(heads), np.int64)
        for number, tolds in enumerate(self._told):
            if not tolds:
                continue
            through = epochs - (number > dispatchers)
            known = np.array([told.epoch for told in tolds], np.int64)
            counts = np.array([0, *(told.counts[place] for told in tolds)], np.int64)
            found = counts[np.searchsorted(known, through, side="right")]
            before += np.where(dispatchers == number, 0, found)
        lengths = np.diff(np.append(starts, len(rows)))
        return replace(rows, ordinals=(rows.ordinals[place] + np.repeat(before, lengths),))

    def earliest_above(self, epoch: int) -> int | None:
        """The first offset of a signal that tells of a later epoch; whoever goes on at the epoch must read it again."""
        return min((told.offset for tolds in self._told for told in tolds if told.epoch > epoch), default=None)

    def forget(self, epoch: int) -> None:
        """No rank at or below the epoch will be asked for; what is told of the epoch itself stays."""
        for number, tolds in enumerate(self._told):
            keep = max((i for i, told in enumerate(tolds) if told.epoch <= epoch), default=0)
            self._told[number] = tolds[keep:]
