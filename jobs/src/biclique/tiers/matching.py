"""From probing rows to matches, in bounded batches and canonical order.

The matches of a step are those of every probing row with the stored rows of smaller stamp. They are handed on in
*batches* that each fit one transaction: whole stamps in ascending order, or, where one stamp alone has too many
matches, slices of it ordered by (probe's ids, stored stamp, stored ids). A cursor names the end of a batch, so a
restart goes on behind it: the order depends on the rows alone, never on how they were read or stored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from biclique.core.rows import Rows, Vector
from biclique.core.stamps import Stamps
from biclique.index.protocol import ProbeOrder, RangeTotals, Store
from biclique.kernels.evaluate import compile_predicate
from biclique.plan.model import Stage
from biclique.query.expression import Column
from biclique.tiers.progress import Cursor
from biclique.tiers.state import SideState

BEYOND_ALL_IDS = (int(np.iinfo(np.int64).max),)
END_OF_STAMPS = int(np.iinfo(np.uint64).max)


def end_of_stamp(stamp: int) -> Cursor:
    """The cursor behind every match of a probe with this stamp."""
    return Cursor(stamp, BEYOND_ALL_IDS, 0, ())


def pair_positions(stage: Stage, stored_side: int) -> dict[Column, int]:
    """Where a pair's columns are: first the probing row's, then the stored row's."""
    probing, stored = stage.sides[1 - stored_side].columns, stage.sides[stored_side].columns
    return {column: i for i, column in enumerate((*probing, *stored))}


@dataclass(frozen=True, slots=True)
class Found:
    """Matches of one store: positions in the probing rows, references of stored ones."""

    store: Store
    probe: NDArray[np.int64]
    stored: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Batch:
    """`found`: by the number of the stored side. `cursor`: where a restart goes on; None: the step is complete with
    this."""

    found: Mapping[int, list[Found]]
    cursor: Cursor | None


class Probing:
    """One side's rows look into the state of the other."""

    def __init__(self, stage: Stage, state: SideState) -> None:
        self.state = state
        self._residual = compile_predicate(state.side.access.residual, pair_positions(stage, state.number))
        self._exact = not state.side.access.residual
        self._probing_columns = len(stage.sides[1 - state.number].columns)
        window = state.side.count_window
        self._counts = window is not None
        # Of so many tuples, the window of the older counts: the stored one, whichever time is earlier.
        self._windows = (
            (state.side.window_us, stage.sides[1 - state.number].window_us)
            if window is None
            else (window.tuples, window.tuples)
        )
        self.failures = 0

    def find(self, probes: Rows, first: int, fresh_from: int) -> Iterator[Found]:
        """Chunk by chunk; `first` is added to the positions, `fresh_from` is of the unit's own store."""
        keys = self.state.probe_keys(probes)
        for store in self.state.stores:
            if not store.rows:
                continue
            order = self._order(probes, store, fresh_from)
            for chunk in store.probe(keys, order):
                probe, stored = chunk.probe, chunk.stored
                if not self._exact and len(probe):
                    mask, failed = self._residual.run(self._pair_columns(probes, store, probe, stored), len(probe))
                    self.failures += failed
                    if not mask.all():
                        probe, stored = probe[mask], stored[mask]
                if len(probe):
                    yield Found(store, probe.astype(np.int64) + first, stored.copy())

    def totals(self, probes: Rows, fresh_from: int) -> list[RangeTotals] | None:
        """Counts and sums of matches without finding them; None where only finding them can tell."""
        if not self._exact:
            return None
        keys = self.state.probe_keys(probes)
        found: list[RangeTotals] = []
        for store in self.state.stores:
            if not store.rows:
                continue
            totals = store.totals(keys, self._order(probes, store, fresh_from))
            if totals is None:
                return None
            found.append(totals)
        return found

    def _order(self, probes: Rows, store: Store, fresh_from: int) -> ProbeOrder:
        fresh = fresh_from if store is self.state.own else store.end
        return ProbeOrder(probes.stamps, *self._times(probes), fresh, *self._windows)

    def _times(self, probes: Rows) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """What the window measures, newest and oldest: event times, or the rank among the stored side's tuples."""
        if self._counts:
            return probes.ordinals[0], probes.ordinals[0]
        return probes.newest, probes.oldest

    def _pair_columns(
        self, probes: Rows, store: Store, probe: NDArray[np.int32], stored: NDArray[np.int64]
    ) -> list[Vector | None]:
        columns: list[Vector | None] = [None] * (self._probing_columns + len(self.state.side.columns))
        for place in self._residual.columns:
            if place < self._probing_columns:
                columns[place] = probes.columns[place].take(probe)
            else:
                columns[place] = store.column(place - self._probing_columns, stored)
        return columns


def batches(
    probings: Mapping[int, Probing],
    probes: Mapping[int, Rows],
    fresh_from: Mapping[int, int],
    resume: Cursor | None,
    matches_max: int,
) -> Iterator[Batch]:
    """All maps are by the number of the *stored* side. `resume`: a cursor of an earlier incarnation; go on behind it.

    Ends with the batch whose cursor is None; there is one even if nothing matches.
    """
    if resume is None:
        found = _collect(probings, probes, fresh_from, 0, END_OF_STAMPS, matches_max)
        if found is not None:  # as nearly always
            yield Batch(found, None)
            return
    stamps = _distinct_stamps(probes, resume)
    at, width = 0, len(stamps) // 2
    if resume is not None and len(stamps) and int(stamps[0]) == resume.probe_stamp:
        width = 1  # the stamp that the earlier incarnation was in: its rest is found by sorting
    while at < len(stamps):
        take = min(max(width, 1), len(stamps) - at)
        low, high = int(stamps[at]), int(stamps[at + take - 1])
        limit = matches_max if take > 1 else None
        found = _collect(probings, probes, fresh_from, low, high, limit)
        if found is None:
            width = take // 2
            continue
        count = _count(found)
        at += take
        last = at == len(stamps)
        behind = resume if resume is not None and resume.probe_stamp == low else None
        if take == 1 and (count > matches_max or behind is not None):
            yield from _slices(found, probes, behind, matches_max, high, last)
        else:
            yield Batch(found, None if last else end_of_stamp(high))
        width = take * 2 if count * 2 <= matches_max else take
    if not len(stamps):
        yield Batch({}, None)


def _distinct_stamps(probes: Mapping[int, Rows], resume: Cursor | None) -> Stamps:
    if not probes:
        return np.empty(0, np.uint64)
    stamps = np.concatenate([rows.stamps for rows in probes.values()])
    if len(probes) > 1:
        stamps = np.sort(stamps, kind="stable")
    # They are in order by now, and np.unique, which cannot know it, is slower than all the rest of a step.
    first = np.ones(len(stamps), np.bool_)
    np.not_equal(stamps[1:], stamps[:-1], out=first[1:])
    stamps = stamps[first]
    if resume is not None:
        stamps = stamps[stamps >= np.uint64(resume.probe_stamp)]
        if len(stamps) and int(stamps[0]) == resume.probe_stamp and resume.probe_ids == BEYOND_ALL_IDS:
            stamps = stamps[1:]
    return stamps


def _collect(
    probings: Mapping[int, Probing],
    probes: Mapping[int, Rows],
    fresh_from: Mapping[int, int],
    low: int,
    high: int,
    limit: int | None,
) -> dict[int, list[Found]] | None:
    """The matches of the probes with stamps in [low, high]; None if they are more than the limit."""
    collected: dict[int, list[Found]] = {}
    count = 0
    failures_before = [probing.failures for probing in probings.values()]
    for stored_side, rows in probes.items():
        first = int(rows.stamps.searchsorted(np.uint64(low)))
        end = int(rows.stamps.searchsorted(np.uint64(high), side="right"))
        if first == end:
            continue
        part = rows if end - first == len(rows) else rows.slice(first, end)
        found: list[Found] = []
        for chunk in probings[stored_side].find(part, first, fresh_from[stored_side]):
            found.append(chunk)
            count += len(chunk.probe)
            if limit is not None and count > limit:
                for probing, failures in zip(probings.values(), failures_before, strict=True):
                    probing.failures = failures  # they are counted when the rows are probed again
                return None
        if found:
            collected[stored_side] = found
    return collected


def _count(found: Mapping[int, list[Found]]) -> int:
    return sum(len(chunk.probe) for chunks in found.values() for chunk in chunks)


def _slices(
    found: Mapping[int, list[Found]],
    probes: Mapping[int, Rows],
    behind: Cursor | None,
    matches_max: int,
    stamp: int,
    last: bool,
) -> Iterator[Batch]:
    """The matches of one stamp, cut into transactions. One side only: a stamp belongs to one tuple of one relation."""
    if not found:
        yield Batch({}, None if last else end_of_stamp(stamp))
        return
    ((stored_side, chunks),) = found.items()
    rows = probes[stored_side]
    stored = [chunk.store.gather(chunk.stored) for chunk in chunks]
    columns = [
        *(np.concatenate([ids[chunk.probe] for chunk in chunks]) for ids in rows.ids),
        np.concatenate([part.stamps for part in stored]),
        *(np.concatenate([part.ids[i] for part in stored]) for i in range(len(stored[0].ids))),
    ]
    order = np.lexsort(columns[::-1])
    if behind is not None:
        order = order[_beyond(columns, (*behind.probe_ids, behind.stored_stamp, *behind.stored_ids))[order]]
    number = np.repeat(np.arange(len(chunks)), [len(chunk.probe) for chunk in chunks])
    probe = np.concatenate([chunk.probe for chunk in chunks])
    reference = np.concatenate([chunk.stored for chunk in chunks])
    parts = len(rows.ids)
    for start in range(0, max(len(order), 1), matches_max):
        part = order[start : start + matches_max]
        picked = [
            Found(chunk.store, probe[chosen], reference[chosen])
            for n, chunk in enumerate(chunks)
            if len(chosen := part[number[part] == n])
        ]
        if start + matches_max >= len(order):
            cursor = None if last else end_of_stamp(stamp)
        else:
            end = [int(column[part[-1]]) for column in columns]
            cursor = Cursor(stamp, tuple(end[:parts]), end[parts], tuple(end[parts + 1 :]))
        yield Batch({stored_side: picked} if picked else {}, cursor)


def _beyond(columns: list[NDArray[Any]], bound: tuple[int, ...]) -> NDArray[np.bool_]:
    """Where (columns…) > bound, lexicographically."""
    beyond = np.zeros(len(columns[0]), np.bool_)
    for column, value in zip(reversed(columns), reversed(bound), strict=True):
        limit = column.dtype.type(value)
        beyond = (column > limit) | ((column == limit) & beyond)
    return beyond
