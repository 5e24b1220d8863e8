"""From probing rows to matches, in bounded batches and canonical order.

The matches of a step are those of every probing row with the stored rows of smaller stamp. They are handed on in
*batches* that each fit one transaction: whole stamps in ascending order, or, where one stamp alone has too many
matches, slices of it ordered by (probe's ids, stored stamp, stored ids). A cursor names the end of a batch, so a
restart goes on behind it: the order depends on the rows alone, never on how they were read or stored.

Memory is bounded whatever the number of matches, those of one tuple too. A chunk of candidates is cut where its texts,
or those that the query makes of them, would be too many bytes at once; and each slice of a stamp is selected by a pass
of its own over all matches of that stamp, which keeps the least ones behind the slice before. That is as many passes as
slices: a tuple that matches everything costs time, not memory.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from biclique.core.rows import Rows, Vector, text_bytes
from biclique.core.stamps import Stamps
from biclique.index.protocol import ProbeOrder, RangeTotals, Store
from biclique.kernels.evaluate import compile_predicate
from biclique.plan.model import PAYLOAD_BYTES, Stage
from biclique.query.expression import Column
from biclique.tiers.found import Found, Least, PairSize, Sizes, pieces
from biclique.tiers.progress import Cursor
from biclique.tiers.state import SideState

BEYOND_ALL_IDS = (int(np.iinfo(np.int64).max),)
PAIR_ALONE = PairSize()
END_OF_STAMPS = int(np.iinfo(np.uint64).max)


def end_of_stamp(stamp: int) -> Cursor:
    """The cursor behind every match of a probe with this stamp."""
    return Cursor(stamp, BEYOND_ALL_IDS, 0, ())


def pair_positions(stage: Stage, stored_side: int) -> dict[Column, int]:
    """Where a pair's columns are: first the probing row's, then the stored row's."""
    probing, stored = stage.sides[1 - stored_side].columns, stage.sides[stored_side].columns
    return {column: i for i, column in enumerate((*probing, *stored))}


@dataclass(frozen=True, slots=True)
class BatchMax:
    """Of one transaction: its matches, and the bytes of the rows they pair and of what is made of them, counted for
    each match. One match alone may have more bytes."""

    matches: int = 1 << 20
    bytes: int = 1 << 28


BATCH_MAX = BatchMax()


@dataclass(frozen=True, slots=True)
class Batch:
    """`found`: by the number of the stored side. `cursor`: where a restart goes on; None: the step is complete with
    this."""

    found: Mapping[int, list[Found]]
    cursor: Cursor | None


class Probing:
    """One side's rows look into the state of the other. `made`: what will be made of each match."""

    def __init__(self, stage: Stage, state: SideState, made: PairSize = PAIR_ALONE) -> None:
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
        # Values, and the ids and times of both rows.
        self._pair_bytes = 8 * (self._probing_columns + len(state.side.columns) + 6) + made.fixed
        self._made = made
        self._probing_leaves = bool(stage.sides[1 - state.number].payload)
        self._left_behind_at = len(state.side.types) + PAYLOAD_BYTES if state.side.payload else None
        self.failures = 0

    def find(self, probes: Rows, first: int, fresh_from: int, bytes_max: int) -> Iterator[Found]:
        """Piece by piece, none with more bytes if it has more matches than one; `first` is added to the positions,
        `fresh_from` is of the unit's own store."""
        keys = self.state.probe_keys(probes)
        texts = self._texts(probes)
        for store in self.state.stores:
            if not store.rows:
                continue
            order = self._order(probes, store, fresh_from)
            for chunk in store.probe(keys, order):
                sizes = self._sizes(store, texts, chunk.probe, chunk.stored)
                for start, end in pieces(sizes, len(chunk.probe), bytes_max):
                    probe, stored = chunk.probe[start:end], chunk.stored[start:end]
                    size = sizes * len(probe) if isinstance(sizes, int) else int(sizes[start:end].sum())
                    if not self._exact and len(probe):
                        mask, failed = self._residual.run(self._pair_columns(probes, store, probe, stored), len(probe))
                        self.failures += failed
                        if not mask.all():
                            probe, stored = probe[mask], stored[mask]
                            size = sizes * len(probe) if isinstance(sizes, int) else int(sizes[start:end][mask].sum())
                    if len(probe):
                        yield Found(store, probe.astype(np.int64) + first, stored.copy(), size)

    def sizes(self, store: Store, probes: Rows, probe: NDArray[np.int64], stored: NDArray[np.int64]) -> Sizes:
        """Bytes of each match."""
        sizes = self._sizes(store, self._texts(probes), probe, stored)
        return np.full(len(probe), sizes, np.int64) if isinstance(sizes, int) else sizes

    def _texts(self, probes: Rows) -> Sizes | None:
        """Also of those that stayed behind: they will be there when something is made of a match."""
        texts = text_bytes(probes)
        if texts is not None and self._probing_leaves:
            texts += np.asarray(probes.columns[PAYLOAD_BYTES].values)
        return texts

    def _sizes(
        self, store: Store, texts: Sizes | None, probe: NDArray[np.integer], stored: NDArray[np.int64]
    ) -> Sizes | int:
        """A number: that of all."""
        stored_texts = store.text_bytes(stored)
        if texts is None and stored_texts is None:
            return self._pair_bytes
        sizes = np.full(len(probe), self._pair_bytes, np.int64)
        if texts is not None:
            sizes += self._made.probe * texts[probe]
        if stored_texts is not None:
            if self._left_behind_at is not None:
                stored_texts = stored_texts + np.asarray(store.column(self._left_behind_at, stored).values)
            sizes += self._made.stored * stored_texts
        return sizes

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
    most: BatchMax,
) -> Iterator[Batch]:
    """All maps are by the number of the *stored* side. `resume`: a cursor of an earlier incarnation; go on behind it.

    Ends with the batch whose cursor is None; there is one even if nothing matches.
    """
    if resume is None:
        found = _collect(probings, probes, fresh_from, 0, END_OF_STAMPS, most)
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
        last = at + take == len(stamps)
        behind = resume if resume is not None and resume.probe_stamp == low else None
        found = None if behind is not None else _collect(probings, probes, fresh_from, low, high, most)
        if found is not None:
            count = sum(len(chunk.probe) for chunks in found.values() for chunk in chunks)
            yield Batch(found, None if last else end_of_stamp(high))
        elif take > 1:
            width = take // 2
            continue
        else:
            count = yield from _slices(probings, probes, fresh_from, low, behind, most, last)
        at += take
        width = take * 2 if count * 2 <= most.matches else take
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
    most: BatchMax,
) -> dict[int, list[Found]] | None:
    """The matches of the probes with stamps in [low, high]; None if they are too many for one batch."""
    collected: dict[int, list[Found]] = {}
    count = size = 0
    failures_before = [probing.failures for probing in probings.values()]
    for stored_side, rows in probes.items():
        part, first = _of_stamps(rows, low, high)
        found: list[Found] = []
        for chunk in probings[stored_side].find(part, first, fresh_from[stored_side], most.bytes) if len(part) else ():
            found.append(chunk)
            count, size = count + len(chunk.probe), size + chunk.size
            if count > most.matches or (size > most.bytes and count > 1):
                for probing, failures in zip(probings.values(), failures_before, strict=True):
                    probing.failures = failures  # they are counted when the rows are probed again
                return None
        if found:
            collected[stored_side] = found
    return collected


def _of_stamps(rows: Rows, low: int, high: int) -> tuple[Rows, int]:
    """The rows with stamps in [low, high], and the position of the first."""
    first = int(rows.stamps.searchsorted(np.uint64(low)))
    end = int(rows.stamps.searchsorted(np.uint64(high), side="right"))
    return (rows if end - first == len(rows) else rows.slice(first, end)), first


def _slices(
    probings: Mapping[int, Probing],
    probes: Mapping[int, Rows],
    fresh_from: Mapping[int, int],
    stamp: int,
    behind: Cursor | None,
    most: BatchMax,
    last: bool,
) -> Generator[Batch, None, int]:
    """The matches of one stamp, cut into transactions; returns how many it has in all. One side only: a stamp belongs
    to one tuple of one relation."""
    ((side, rows, first),) = (
        (side, part, first) for side in probes for part, first in [_of_stamps(probes[side], stamp, stamp)] if len(part)
    )
    bound = None if behind is None else (*behind.probe_ids, behind.stored_stamp, *behind.stored_ids)
    parts = len(rows.ids)
    total: int | None = None
    while True:
        failures = probings[side].failures
        least = Least(rows, most.matches, bound)
        for chunk in probings[side].find(rows, 0, fresh_from[side], most.bytes):
            least.take(chunk)
        first_pass = total is None
        if total is None:
            total = least.seen
        if behind is not None or not first_pass:
            probings[
                side
            ].failures = failures  # counted by the first pass, if need be by that of an earlier incarnation
        selected = least.close()
        if selected is None:
            yield Batch({}, None if last else end_of_stamp(stamp))
            return total
        sizes = np.empty(len(selected), np.int64)
        for store, at, probe, stored in selected.by_store():
            sizes[at] = probings[side].sizes(store, rows, probe, stored)
        for start, end in pieces(sizes, len(selected), most.bytes):
            bound = selected.key(end - 1)
            cursor: Cursor | None = Cursor(stamp, bound[:parts], bound[parts], bound[parts + 1 :])
            if end == len(selected) and not least.more:
                cursor = None if last else end_of_stamp(stamp)
            yield Batch({side: selected.stretch(start, end, first, sizes)}, cursor)
        if not least.more:
            return total
