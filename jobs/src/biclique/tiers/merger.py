"""The merger's logic: shares of groups in, rows of the output out. Merging is exact and in any order; writing is once.

* Running aggregates: every group that a step changed is written again; the newest row of a group stands. A bounded run
  (`hold`) writes each group once, at its end.
* TUMBLE: a group is written once, when the watermark at the frontier has passed the end of its window, and forgotten.
* DISTINCT in full history: a row is written when it is first seen. With a window: in the order of result times, once
  the watermark has passed its time, unless an equal row was written less than one window before.

State is a function of the shares at or below the frontier. After a restart those up to the committed frontier are
merged again silently, and what the committed watermark had closed is forgotten without being written.

A step costs what its shares touch and its watermark closes, however many groups are open. What it writes is cut into
transactions, the rows of each bounded in number and in bytes. Rows that are written once go out in the order of
(time, id); progress in between is that of the step before, with a cursor: the frontier and the watermark of this step,
and the last row written. A restart makes the very same step again and goes on behind the cursor. Rows that may be
written again are all written again: a smaller step would let groups fall back to what they were before.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from biclique.core.codec import checksum
from biclique.core.rows import Vector
from biclique.kernels.grouping import Key, key_rows
from biclique.kernels.groups import Groups, column_of, text_bytes
from biclique.kernels.hashing import value_ids
from biclique.kernels.partials import Shares
from biclique.plan.model import Plan
from biclique.query.model import Aggregate, GroupKey
from biclique.query.types import Type
from biclique.routing.table import RoutingTable
from biclique.tiers.aggregation import distinct_window_us, key_types, taken
from biclique.tiers.inbox import Inbox
from biclique.tiers.messages import TIME_NEVER, Address, Partials, Producer, Record, Results, Signal, Topic
from biclique.tiers.open_groups import OpenGroups
from biclique.tiers.pressure import MemoryBudget, Pressed, Pressure
from biclique.tiers.progress import BlobRef, Manifest, MergerCursor, MergerProgress, Place
from biclique.tiers.sealed_groups import SealedGroups
from biclique.tiers.shares_codec import decode_shares, encode_shares
from biclique.tiers.waiting import SHARES_MAX, Waiting

# What a blob of a merger's manifest holds, as BlobRef.side: groups, as they stand and whatever blobs before it say of
# them; more groups, of which the first began in the blob before; rows that were written.
GROUPS, WRITTEN, MORE = 0, 1, 2

BEFORE_ALL: Place = (TIME_NEVER, 0, 0)  # nothing has been written for good
WRITTEN_BYTES = 400  # a row that was written: its values, without the characters of texts, and its place


def merger_producer(number: int) -> Producer:
    return Producer("merger", str(number))


@dataclass(frozen=True, slots=True)
class WrittenMax:
    """Of one transaction, and of a blob: groups (of a blob: their shares), and bytes of their columns if they are more
    than one. `seal_blobs`: of a checkpoint, put in one turn."""

    groups: int = 1 << 17
    bytes: int = 1 << 26
    blob_bytes: int = 1 << 18  # encoded in some 50 ms
    seal_blobs: int = 2


WRITTEN_MAX = WrittenMax()


@dataclass(frozen=True, slots=True)
class _Due:
    """Rows to be written: their groups, in order, and where each stands in it."""

    keys: list[Key]
    places: list[Place]


@dataclass(frozen=True, slots=True)
class MergerTurn:
    sends: tuple[tuple[Address, Record], ...]
    progress: MergerProgress


class Merger:
    """One incarnation. `hold`: running aggregates are written by `finish` only."""

    def __init__(
        self,
        plan: Plan,
        number: int,
        progress: MergerProgress,
        manifest: Manifest | None,
        hold: bool,
        written_max: WrittenMax = WRITTEN_MAX,
        shares_max: int = SHARES_MAX,
        memory: MemoryBudget | None = None,
    ) -> None:
        query = plan.query
        self.pressed = Pressed(memory)
        self._written_max = written_max
        self._query, self._number, self._hold = query, number, hold
        self._values = tuple(i.value for i in query.items if isinstance(i.value, Aggregate | GroupKey))
        self.progress = progress
        self._silent_to = progress.frontier
        self._sealed = manifest.sealed if manifest else -1
        self.next_offset = manifest.offset if manifest else 0
        self.inbox = Inbox(len(plan.stages), (), progress.senders, progress.frontier)
        self._pending = Waiting(shares_max)
        # By what has been merged since the last step: the groups that are new, where that matters, and that changed.
        self._fresh: dict[Key, None] = {}
        self._changed: dict[Key, None] = {}
        self._types: tuple[Type, ...] = key_types(query)
        self.groups = Groups(query.items if query.aggregating else (), self._types)
        self._window_us = distinct_window_us(query)
        self._timed = query.tumble_us is not None or self._window_us is not None
        self._open = OpenGroups()  # where a time closes them
        # DISTINCT with a window: when each row was written last, in the order of these times.
        self._written: OrderedDict[Key, int] = OrderedDict()
        self._written_texts = 0  # their bytes
        self._sealed_groups = SealedGroups()
        self._sealed_written: list[BlobRef] = []

    # Reading.

    def load(self, ref: BlobRef, data: bytes) -> None:
        """A blob of the manifest that is being restored. Raises DamagedBlob."""
        if ref.side != WRITTEN:
            self._load_groups(ref, decode_shares(data, self._values, self._types))
            return
        shares = decode_shares(data, (), self._types[:-1])
        for key, time in zip(key_rows(shares.keys, len(shares)), shares.newest.tolist(), strict=True):
            self._write_down(key, time)

    def _load_groups(self, ref: BlobRef, shares: Shares) -> None:
        keys = key_rows(shares.keys, len(shares))
        known = {keys[0]} if ref.side == MORE else set[Key]()
        if self._query.tumble_us is not None:
            # Blobs may hold what was closed long ago.
            open_ = np.asarray(shares.keys[-1].values) > self.progress.watermark - self._query.tumble_us
            shares = taken(shares, np.flatnonzero(open_))
        again = {key for key in keys if key in self.groups} - known
        self.groups.drop(again)
        loaded = self.groups.merge(shares)
        if self._timed:
            self._open.add(key for key in loaded if key not in known and key not in again)
        self._sealed_groups.load(ref, (key for key in loaded if key not in known))

    @property
    def size_bytes(self) -> int:
        """What it holds, about: all but the shares that wait."""
        groups = self.groups.bytes + self._open.bytes + self._sealed_groups.bytes(len(self.groups))
        return groups + len(self._written) * WRITTEN_BYTES + self._written_texts

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
            self._merge(_shares(record))

    def _merge(self, shares: Shares) -> tuple[list[Key], list[Key]]:
        """The groups that are new with these shares, where that matters, and those that they change."""
        unknown: set[Key] = set()
        if self._timed or self._query.distinct:
            unknown = {key for key in key_rows(shares.keys, len(shares)) if key not in self.groups}
        changed = self.groups.merge(shares)
        self._sealed_groups.change(changed)
        fresh = [key for key in changed if key in unknown]  # the groups' own keys, so that a text is held once
        if self._timed:
            self._open.add(fresh)
        return fresh, changed

    def _add_news(self, partials: Partials) -> None:
        """Of the step that comes next."""
        fresh, changed = self._merge(_shares(partials))
        self._fresh.update(dict.fromkeys(fresh))
        self._changed.update(dict.fromkeys(changed))

    def missing(self, frontier: int) -> tuple[int, ...]:
        """Offsets of the shares that a step to this frontier needs and that gave way to others: to be read again and
        given to `restore`, just before the step."""
        return self._pending.missing(frontier)

    def restore(self, offset: int, record: Record) -> None:
        """They are merged at once: there may be more of them than are held together."""
        assert isinstance(record, Partials)
        self._forget_what_was_closed()
        self._add_news(record)

    # Memory.

    @property
    def held_bytes(self) -> int:
        return self.size_bytes + self._pending.held

    def feel(self, host: Pressure) -> None:
        """Once a turn, before anything is read. `host`: what it sees from outside."""
        self.pressed.feel(self.held_bytes, host)

    def _room_to(self, frontier: int) -> int:
        """How far there is memory for. Shares of groups that are there take none; with those of new groups a merger
        that stands goes on a little at a time while it has not come to its budget, then only to where a time closes
        groups."""
        if self.pressed.level is not Pressure.STAND:
            return frontier
        budget, done = self.pressed.budget, self.progress.frontier
        left = 0 if budget is None or self.pressed.host is Pressure.STAND else budget.bytes - self.held_bytes
        steps = self._pending.growing_steps(frontier, self._growth)
        reach = done
        for to, grown in steps:
            if grown > max(0, left):
                return to if reach <= done and self._closes(frontier) else reach
            reach = to
        return reach

    def _growth(self, partials: Partials, size: int) -> int:
        return self.groups.growth(_shares(partials), size)

    def _closes(self, frontier: int) -> bool:
        watermark = self._watermark_at(frontier)
        if self._query.tumble_us is not None:
            return self._open.any_below(watermark - self._query.tumble_us + 1)
        if self._window_us is None or not self._written:
            return False
        return next(iter(self._written.values())) <= watermark - self._window_us

    # Acting.

    def reach(self, table: RoutingTable) -> int | None:
        self.pressed.standing = False
        self.inbox.learn(table)
        frontier = self.inbox.frontier(table)
        if self.pressed.level >= Pressure.SHED:
            self._pending.shed(self.progress.frontier if frontier is None else frontier)
        if self._reading_again or frontier is None or frontier <= self.progress.frontier:
            return None
        if self.progress.cursor is None:
            within = self._room_to(frontier)
            self.pressed.standing = within <= self.progress.frontier
            return None if self.pressed.standing else within
        # Half of a step has been written: it is made again as it was, once all that it took has been read again.
        return self.progress.cursor.frontier if frontier >= self.progress.cursor.frontier else None

    @property
    def _reading_again(self) -> bool:
        """What the last step knew is not all there yet. Signals alone do not tell: whoever has left says no more, yet
        shares and a farewell of its may be ahead."""
        return self.next_offset < self.progress.read_to

    def _watermark_at(self, frontier: int) -> int:
        """A step that is made again has no lower one than it had: what it wrote beyond would be written once more.
        Signals alone do not tell: one that was ahead of the frontier lies below the offset that a restart reads from.
        """
        cursor = self.progress.cursor
        had = TIME_NEVER if cursor is None else cursor.watermark
        return max(self.progress.watermark, self.inbox.watermark_at(frontier), had)

    def step(self, frontier: int) -> Iterator[MergerTurn]:
        """The transactions of one step, each to be committed before the next is asked for. What was `missing` has been
        restored."""
        self._forget_what_was_closed()
        watermark = self._watermark_at(frontier)
        for partials in self._pending.take(frontier):
            self._add_news(partials)
        fresh, changed = list(self._fresh), list(self._changed)
        self._fresh, self._changed = {}, {}
        self.inbox.advance(frontier)
        offset = self._earliest()
        senders = self.inbox.senders_from(offset)
        heard = max(self.progress.heard, self.inbox.newest_version)
        after = MergerProgress(offset, frontier, watermark, senders, read_to=self.next_offset, heard=heard)
        if self._timed:
            yield from self._once(self._closed(watermark), after)
        elif self._query.distinct:
            yield from self._once(self._in_order(fresh), after)
        else:
            yield from self._again([] if self._hold else changed, after)

    def finish(self) -> Iterator[MergerTurn]:
        """The input has ended: write what is held back. Asked for once, when everything has been merged."""
        self._forget_what_was_closed()
        if self._timed:
            keys = self._closed(None).keys
            yield from self._again(keys, self.progress)
            self._forget(keys)
        elif self._hold and self._query.aggregating:
            self._one_group_of_nothing()
            yield from self._again(self.groups.keys, self.progress)
        else:
            yield self._turn(None, self.progress)

    # Transactions.

    def _once(self, due: _Due, after: MergerProgress) -> Iterator[MergerTurn]:
        """Rows that nobody may write again."""
        cursor = self.progress.cursor
        first = 0 if cursor is None else bisect_right(due.places, cursor.place)
        before = self.progress
        for start, results in self._records(due.keys[first:]):
            behind = first + start + len(results.times)
            if behind < len(due.keys):
                place = due.places[behind - 1]
                reached = MergerCursor(after.frontier, place, after.watermark)
                yield self._turn(results, replace(before, cursor=reached, read_to=after.read_to))
            else:
                self._drop(due.keys)
                yield self._turn(results, after)
        if first == len(due.keys):
            self._drop(due.keys)
            yield self._turn(None, after)

    def _again(self, keys: list[Key], after: MergerProgress) -> Iterator[MergerTurn]:
        """Rows that stand until the next of their group."""
        before = replace(self.progress, read_to=after.read_to)
        if after.frontier > before.frontier:
            before = replace(before, cursor=MergerCursor(after.frontier, BEFORE_ALL, after.watermark))
        for start, results in self._records(keys):
            last = start + len(results.times) == len(keys)
            yield self._turn(results, after if last else before)
        if not keys:
            yield self._turn(None, after)

    def _records(self, keys: list[Key]) -> Iterator[tuple[int, Results]]:
        """Of the groups from each place on, as many as a transaction may hold."""
        start = 0
        for some in self._stretches(keys):
            yield start, self._as_results(some)
            start += len(some)

    def _stretches(self, keys: list[Key]) -> Iterator[list[Key]]:
        """Their bytes are known before any column is made: one of texts beyond 2 GiB cannot be."""
        return self.groups.stretches(keys, self._written_max.groups, self._written_max.bytes)

    def _in_order(self, keys: list[Key]) -> _Due:
        """By (time, id); rows without a time have all the same."""
        high, low = self._ids(keys)
        times = [int(key[-1]) if self._timed else 0 for key in keys]
        order = np.lexsort((low, high, np.array(times, np.int64))).tolist()
        return _Due([keys[i] for i in order], [(times[i], int(high[i]), int(low[i])) for i in order])

    def _ids(self, keys: list[Key]) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
        """As `_as_results` gives them; as many at a time."""
        found = [value_ids(self._named(some), len(some)) for some in self._stretches(keys)]
        none = np.empty(0, np.uint64)
        return np.concatenate([none, *(f[0] for f in found)]), np.concatenate([none, *(f[1] for f in found)])

    def committed(self, turn: MergerTurn) -> None:
        self.progress = turn.progress

    def _turn(self, results: Results | None, progress: MergerProgress) -> MergerTurn:
        output = Address(Topic.OUTPUT, f"merger-{self._number}")
        return MergerTurn(() if results is None else ((output, results),), progress)

    def _earliest(self) -> int:
        return self._pending.earliest(self.next_offset)

    def _one_group_of_nothing(self) -> None:
        """Without GROUP BY there is one row, also when nothing matched."""
        if not self._types and not len(self.groups):
            self.groups.begin(())

    def _as_results(self, keys: list[Key]) -> Results:
        named = self._named(keys)
        columns = self.groups.rows(keys) if self._query.aggregating else named
        times = np.array([self._time_of(key) for key in keys], np.int64)
        return Results(columns, *value_ids(named, len(keys)), times)

    def _named(self, keys: list[Key]) -> tuple[Vector, ...]:
        """What names a row: the group with its tumbling window, or a DISTINCT row without its time."""
        named = self.groups.key_columns(keys)
        return named if self._window_us is None else named[:-1]

    def _time_of(self, key: Key) -> int:
        return self.groups.newest(key) if self._window_us is None else int(key[-1])

    def _drop(self, keys: list[Key]) -> None:
        """What a time has closed is forgotten; a DISTINCT row of full history never is."""
        if self._timed:
            self._forget(keys)

    def _forget(self, keys: Iterable[Key]) -> None:
        keys = list(keys)
        self.groups.drop(keys)
        self._sealed_groups.forget(keys, len(self.groups))

    # What a time closes.

    def _closed(self, watermark: int | None) -> _Due:
        """The groups to be written when the watermark has come so far (None: to the end). DISTINCT rows that are no
        news are dropped at once."""
        if self._window_us is None:
            return self._in_order(self._ended(watermark))
        due = self._in_order(self._open.take_below(watermark))
        news = [self._is_news(key) for key in due.keys]
        self._forget(key for key, is_news in zip(due.keys, news, strict=True) if not is_news)
        if watermark is not None:
            bound = watermark - self._window_us
            while self._written and next(iter(self._written.values())) <= bound:
                row, _ = self._written.popitem(last=False)
                self._written_texts -= text_bytes(row)
        chosen = [i for i, is_news in enumerate(news) if is_news]
        return _Due([due.keys[i] for i in chosen], [due.places[i] for i in chosen])

    def _ended(self, watermark: int | None) -> list[Key]:
        """Tumbling windows."""
        size = self._query.tumble_us
        assert size is not None
        return self._open.take_below(None if watermark is None else watermark - size + 1)

    def _is_news(self, key: Key) -> bool:
        row, time = key[:-1], int(key[-1])
        last = self._written.get(row)
        assert self._window_us is not None
        if last is not None and time - last < self._window_us:
            return False
        self._write_down(row, time)
        return True

    def _write_down(self, row: Key, time: int) -> None:
        if row not in self._written:
            self._written_texts += text_bytes(row)
        self._written[row] = time
        self._written.move_to_end(row)

    # Restart and checkpoints.

    def _forget_what_was_closed(self) -> None:
        """Once, before the first step: the silent replay is over, and the committed watermark had closed some of it."""
        if self._silent_to < 0:
            return
        self._silent_to = -1
        watermark = self.progress.watermark
        if self._timed:
            self._forget(self._closed(watermark).keys)

    @property
    def replaying(self) -> bool:
        return self._reading_again or self.inbox.behind(self.progress.frontier)

    @property
    def seals_whole(self) -> bool:
        """All at once, and anew each time: which DISTINCT rows were written, and which wait for their time, is of one
        moment. Both are of a window."""
        return self._window_us is not None

    def seal(self, incarnation: int, serial: int) -> Iterator[tuple[BlobRef, bytes]]:
        """Between two steps: the blobs to put, made one at a time, before `manifest` may be published. It may be left
        before its end, and is then asked for again."""
        assert not self.replaying and self.progress.cursor is None
        self._forget_what_was_closed()
        prefix, most = f"merger-{self._number}/{incarnation}-{serial}", self._written_max
        names = (f"{prefix}-{n}" for n in range(1 << 30))
        if self.seals_whole:
            self._sealed_groups.write_anew(self.groups)
        left = self._sealed_groups.begin(self.groups)
        for part in self.groups.snapshots(left, most.groups, min(most.bytes, most.blob_bytes)):
            data = encode_shares(part.shares, self._values, self._types)
            what = MORE if part.goes_on else GROUPS
            ref = BlobRef(next(names), what, len(part.shares), checksum(data), False)
            self._sealed_groups.written(ref, part.whole)
            yield ref, data
        self._sealed_groups.end()
        self._sealed_written = []
        for rows in self.groups.stretches(list(self._written), most.groups, min(most.bytes, most.blob_bytes)):
            some = [(row, self._written[row]) for row in rows]
            data = encode_shares(self._written_shares(some), (), self._types[:-1])
            self._sealed_written.append(BlobRef(next(names), WRITTEN, len(some), checksum(data), False))
            yield self._sealed_written[-1], data

    def unseal(self) -> None:
        """The store has lost some of the blobs."""
        self._sealed_groups.write_anew(self.groups)

    def manifest(self, incarnation: int) -> Manifest:
        """Of what has just been sealed. What is to be read again is from `progress.offset` on, not what has been read
        since the last commit: the progress still waits for what that may have said."""
        done = self.progress
        refs = (*self._sealed_groups.refs, *self._sealed_written)
        return Manifest(incarnation, done.frontier, done.frontier, done.offset, refs)

    def _written_shares(self, written: list[tuple[Key, int]]) -> Shares:
        columns = zip(*(key for key, _ in written), strict=True)
        keys = tuple(column_of(type_, list(values)) for type_, values in zip(self._types, columns, strict=False))
        return Shares(keys, (), np.array([time for _, time in written], np.int64))


def _shares(partials: Partials) -> Shares:
    return Shares(partials.keys, partials.states, partials.newest)
