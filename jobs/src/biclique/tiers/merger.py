"""The merger's logic: shares of groups in, rows of the output out. Merging is exact and in any order; writing is once.

* Running aggregates: every group that a step changed is written again; the newest row of a group stands. A bounded run
  (`hold`) writes each group once, at its end.
* TUMBLE: a group is written once, when the watermark at the frontier has passed the end of its window, and forgotten.
* DISTINCT in full history: a row is written when it is first seen. With a window: in the order of result times, once
  the watermark has passed its time, unless an equal row was written less than one window before.

State is a function of the shares at or below the frontier. After a restart those up to the committed frontier are
merged again silently, and what the committed watermark had closed is forgotten without being written.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from biclique.kernels.grouping import Key, key_rows
from biclique.kernels.groups import Groups, column_of
from biclique.kernels.hashing import value_ids
from biclique.kernels.partials import Shares
from biclique.plan.model import Plan
from biclique.query.model import Aggregate, GroupKey
from biclique.query.types import Type
from biclique.routing.table import RoutingTable
from biclique.tiers.aggregation import distinct_window_us, key_types
from biclique.tiers.inbox import Inbox
from biclique.tiers.messages import Address, Partials, Producer, Record, Results, Signal, Topic
from biclique.tiers.progress import BlobRef, Manifest, MergerProgress
from biclique.tiers.shares_codec import decode_shares, encode_shares

GROUPS, WRITTEN = 0, 1  # what a blob of a merger's manifest holds, as BlobRef.side


def merger_producer(number: int) -> Producer:
    return Producer("merger", str(number))


@dataclass(frozen=True, slots=True)
class MergerTurn:
    sends: tuple[tuple[Address, Record], ...]
    progress: MergerProgress


class Merger:
    """One incarnation. `hold`: running aggregates are written by `finish` only."""

    def __init__(
        self, plan: Plan, number: int, progress: MergerProgress, manifest: Manifest | None, hold: bool
    ) -> None:
        query = plan.query
        self._query, self._number, self._hold = query, number, hold
        self._values = tuple(i.value for i in query.items if isinstance(i.value, Aggregate | GroupKey))
        self.progress = progress
        self._silent_to = progress.frontier
        self._sealed = manifest.sealed if manifest else -1
        self.next_offset = manifest.offset if manifest else 0
        self.inbox = Inbox(len(plan.stages), (), progress.senders, progress.frontier)
        self._pending: list[tuple[int, Partials]] = []
        self._types: tuple[Type, ...] = key_types(query)
        self.groups = Groups(query.items if query.aggregating else (), self._types)
        self._window_us = distinct_window_us(query)
        self._written: dict[Key, int] = {}  # DISTINCT with a window: when each row was written last
        self._changed: dict[Key, None] = {}

    # Reading.

    def load(self, ref: BlobRef, data: bytes) -> None:
        """A blob of the manifest that is being restored. Raises DamagedBlob."""
        if ref.side == GROUPS:
            self.groups.merge(decode_shares(data, self._values, self._types))
            return
        shares = decode_shares(data, (), self._types[:-1])
        for key, time in zip(key_rows(shares.keys, len(shares)), shares.newest.tolist(), strict=True):
            self._written[key] = time

    def read_to(self, next_offset: int) -> None:
        self.next_offset = next_offset

    def take(self, offset: int, record: Record) -> None:
        if isinstance(record, Signal):
            self.inbox.take_signal(offset, record)
            return
        assert isinstance(record, Partials)
        if record.epoch > self._silent_to:
            self._pending.append((offset, record))
        elif record.epoch > self._sealed:
            self.groups.merge(_shares(record))

    # Acting.

    def reach(self, table: RoutingTable) -> int | None:
        self.inbox.learn(table)
        frontier = self.inbox.frontier(table)
        return frontier if frontier is not None and frontier > self.progress.frontier else None

    def step(self, frontier: int) -> MergerTurn:
        self._forget_what_was_closed()
        watermark = max(self.progress.watermark, self.inbox.watermark_at(frontier))
        fresh: dict[Key, None] = {}
        changed: dict[Key, None] = {}
        for _, partials in (p for p in self._pending if p[1].epoch <= frontier):
            shares = _shares(partials)
            fresh.update((key, None) for key in key_rows(shares.keys, len(shares)) if key not in self.groups)
            changed.update((key, None) for key in self.groups.merge(shares))
        self._pending = [p for p in self._pending if p[1].epoch > frontier]
        self.inbox.advance(frontier)
        if self._query.tumble_us is not None:
            results = self._closed(watermark)
        elif self._window_us is not None:
            results = self._distinct_up_to(watermark)
        elif self._query.distinct:
            results = self._as_results(list(fresh))
        elif self._hold:
            results = None
        else:
            results = self._as_results(list(changed))
        offset = self._earliest()
        return self._turn(results, MergerProgress(offset, frontier, watermark, self.inbox.senders_from(offset)))

    def finish(self) -> MergerTurn:
        """The input has ended: write what is held back. Asked for once, when everything has been merged."""
        self._forget_what_was_closed()
        if self._window_us is not None:
            results = self._distinct_up_to(None)
        elif self._query.tumble_us is not None:
            results = self._closed(None)
        elif self._hold and self._query.aggregating:
            self._one_group_of_nothing()
            results = self._as_results(self.groups.keys)
        else:
            results = None
        return self._turn(results, self.progress)

    def committed(self, turn: MergerTurn) -> None:
        self.progress = turn.progress

    def _turn(self, results: Results | None, progress: MergerProgress) -> MergerTurn:
        output = Address(Topic.OUTPUT, f"merger-{self._number}")
        return MergerTurn(() if results is None else ((output, results),), progress)

    def _earliest(self) -> int:
        return min((offset for offset, _ in self._pending), default=self.next_offset)

    def _one_group_of_nothing(self) -> None:
        """Without GROUP BY there is one row, also when nothing matched."""
        if not self._types and not len(self.groups):
            self.groups.begin(())

    def _as_results(self, keys: list[Key]) -> Results | None:
        if not keys:
            return None
        named = self.groups.key_columns(keys)
        columns = self.groups.rows(keys) if self._query.aggregating else named
        times = np.array([self.groups.newest(key) for key in keys], np.int64)
        return Results(columns, *value_ids(named, len(keys)), times)

    # TUMBLE.

    def _closed(self, watermark: int | None) -> Results | None:
        """The groups whose window has ended by the watermark (None: all), written and forgotten."""
        closed = sorted(self._ended(watermark), key=lambda key: int(key[-1]))
        results = self._as_results(closed)
        self.groups.drop(closed)
        return results

    def _ended(self, watermark: int | None) -> Iterable[Key]:
        size = self._query.tumble_us
        assert size is not None
        return (key for key in self.groups.keys if watermark is None or int(key[-1]) + size <= watermark)

    # DISTINCT with a window.

    def _distinct_up_to(self, watermark: int | None) -> Results | None:
        """Rows with times below the watermark (None: all), in the order of their times."""
        assert self._window_us is not None
        ready = self._below(watermark)
        kept = [key for key in ready if self._is_news(key)]
        results = None
        if kept:
            columns = self.groups.key_columns(kept)
            times = np.array([int(key[-1]) for key in kept], np.int64)
            results = Results(columns[:-1], *value_ids(columns[:-1], len(kept)), times)
        self.groups.drop(ready)
        if watermark is not None:
            bound = watermark - self._window_us
            self._written = {key: time for key, time in self._written.items() if time > bound}
        return results

    def _below(self, watermark: int | None) -> list[Key]:
        ready = (key for key in self.groups.keys if watermark is None or int(key[-1]) < watermark)
        return sorted(ready, key=lambda key: int(key[-1]))

    def _is_news(self, key: Key) -> bool:
        row, time = key[:-1], int(key[-1])
        last = self._written.get(row)
        assert self._window_us is not None
        if last is not None and time - last < self._window_us:
            return False
        self._written[row] = time
        return True

    # Restart and checkpoints.

    def _forget_what_was_closed(self) -> None:
        """Once, before the first step: the silent replay is over, and the committed watermark had closed some of it."""
        if self._silent_to < 0:
            return
        self._silent_to = -1
        watermark = self.progress.watermark
        if self._query.tumble_us is not None:
            self.groups.drop(list(self._ended(watermark)))
        elif self._window_us is not None:
            self._distinct_up_to(watermark)

    @property
    def replaying(self) -> bool:
        return self.inbox.behind(self.progress.frontier)

    def seal(self) -> tuple[list[tuple[int, int, bytes]], int]:
        """((what it holds, rows, bytes) of each blob, the earliest offset to read again). Between two steps."""
        assert not self.replaying
        self._forget_what_was_closed()
        groups = self.groups.snapshot()
        blobs = [(GROUPS, len(groups), encode_shares(groups, self._values, self._types))]
        if self._written:
            blobs.append((WRITTEN, len(self._written), encode_shares(self._written_shares(), (), self._types[:-1])))
        # Not what has been read since the last commit: the progress still waits for what that may have said.
        return blobs, self.progress.offset

    def _written_shares(self) -> Shares:
        columns = zip(*self._written, strict=True)
        keys = tuple(column_of(type_, list(values)) for type_, values in zip(self._types, columns, strict=False))
        return Shares(keys, (), np.array(list(self._written.values()), np.int64))


def _shares(partials: Partials) -> Shares:
    return Shares(partials.keys, partials.states, partials.newest)
