"""The dispatcher's logic: accept each source record once, stamp it, route it, and signal.

A logical dispatcher is one partition of `shuffled`. A *turn* is what one transaction holds: from some records to the
blocks, the signal and the new progress. The order of things in a turn matters:

* a block whose predecessor is lacking is ignored whole (a send was lost; the task's retry brings both), and every
  offset seen before is dropped, so a tuple is accepted exactly once whatever the shuffler repeats;
* late is judged by the watermark that was signalled last, not by anything newer: whoever stores has expired nothing
  that an accepted tuple could still match;
* the epoch is above the own last one and at least the greatest seen, so that it orders although clocks jump;
* of a source whose bad records are to stop the query, one that was not seen before ends the turn before anything is
  committed (QueryError);
* a routing version is applied with the turn's first epoch, above the switch-over point of the version before.

Where payload may stay behind (plan/transport.py), a tuple gets its place in shuffled with its stamp, and its blocks say
whether they bring the payload along. It decides no result, so it needs to be in no progress.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from biclique.core.payload_places import PayloadPlaces, places_of
from biclique.core.places import last_place, row_bits
from biclique.core.ranks import EpochTotals
from biclique.core.rows import Mask, Rows, Vector, concat_rows
from biclique.core.stamps import EPOCH_MAX, epoch_of, tuple_ids
from biclique.plan.model import Plan
from biclique.query.errors import QueryError
from biclique.query.model import OnBadRecord
from biclique.routing.table import RoutingTable
from biclique.tiers.cutting import RECORD_BYTES_MAX, cut_block
from biclique.tiers.entry import Entry, entries_of_source
from biclique.tiers.messages import (
    TIME_NEVER,
    UNREAD,
    Address,
    Block,
    Heartbeat,
    LateTuples,
    Mark,
    Producer,
    Record,
    SetAside,
    Signal,
    SourceBlock,
    Topic,
    unit_address,
)
from biclique.tiers.progress import DispatcherProgress, SourcePartition
from biclique.tiers.stamping import Stamping
from biclique.tiers.transports import Transports

FAIL_REMEDY = "set onBadRecord to deadLetter or drop and start again: nothing is lost, and it goes on with this record"
ANSWER_MS = 50  # a dispatcher without tuples answers those that carried some, at most this often
HEARTBEAT_MS = 1000  # and signals this often when nobody carried any
# Epochs never fall, and a stamp has no room beyond 2039: a clock that shows a later year once would end the query for
# good. So from mid-2037 on it says nothing, and epochs count on without it, for as long as there are milliseconds left.
WALL_MS_MAX = EPOCH_MAX - (1 << 36)
TOGETHER_ROWS_MAX = 32_768  # of small blocks of a source that are sent as one

ACCEPTED, FILTERED, LATE, DEAD, DROPPED = "accepted", "filtered", "late", "dead", "dropped"
FAILED_FILTER = "failed filter"  # how many of the filtered are so because WHERE failed on them
# Of accepted records: tuples of which a key failed, and relations that lack one whose other relation took it, because
# their WHERE failed.
FAILED_EXPRESSION = "failed expression"
FATES = (ACCEPTED, FILTERED, LATE, DEAD, DROPPED, FAILED_FILTER, FAILED_EXPRESSION)


def dispatcher_producer(number: int) -> Producer:
    return Producer("dispatcher", str(number))


@dataclass(frozen=True, slots=True)
class LastRead:
    """Of shuffled. `others`: what the other dispatchers had said before it. `to_end`: there was no more than this turn
    has of it, or one before."""

    others: int = TIME_NEVER
    to_end: bool = False


@dataclass(frozen=True, slots=True)
class Turn:
    sends: tuple[tuple[Address, Record], ...]
    progress: DispatcherProgress
    carried: bool


@dataclass(slots=True)
class _Draft:
    """The progress that a turn is building."""

    stamping: Stamping
    last: dict[SourcePartition, int]
    greatest: dict[SourcePartition, int]
    fates: dict[str, list[int]]
    rows: list[tuple[Entry, Rows, bool]] = field(default_factory=list)  # of an entry; whether whole
    aside: list[tuple[Address, Record]] = field(default_factory=list)


class Dispatcher:
    """`partitions`: the source partitions whose records come through this one's partition of shuffled.
    `record_bytes`: of a block that it sends, if that has more rows than one."""

    def __init__(
        self,
        plan: Plan,
        number: int,
        partitions: Iterable[SourcePartition],
        progress: DispatcherProgress,
        record_bytes: int = RECORD_BYTES_MAX,
    ) -> None:
        self._record_bytes = record_bytes
        self._plan, self._number, self._partitions = plan, number, {*partitions, *progress.last}
        self._producer = dispatcher_producer(number)
        self.progress = progress
        self._entries = tuple(entries_of_source(plan, source) for source in range(len(plan.query.sources)))
        self.transports = Transports(plan)
        self._heard: dict[Producer, Signal] = {}
        self._heard_at: dict[Producer, int] = {}  # the offset of each one's last
        self._hear_from = progress.hear_from
        self._caught_up: dict[SourcePartition, tuple[int, int]] = {}  # -> (driver attempt, since)
        self._idle: set[SourcePartition] = set()
        self._followed = TIME_NEVER  # what the others have said while all of ours were idle
        self._owes_answer = False
        self._signalled_ms: int | None = None

    def hear(self, signals: Iterable[tuple[int, Signal]], heard_to: int) -> None:
        """What the other dispatchers have signalled, in the order of the signals topic, read up to that offset."""
        for offset, signal in signals:
            if signal.sender == self._producer or signal.sender.tier != self._producer.tier:
                continue
            self._heard[signal.sender] = signal
            self._heard_at[signal.sender] = offset
            self._owes_answer |= signal.carried
        if len(self._heard) == self._plan.dispatchers - 1:
            self._hear_from = min(self._heard_at.values(), default=heard_to)

    @property
    def others(self) -> int:
        """The least watermark of the other dispatchers that are not idle, once all of them have been heard."""
        if len(self._heard) < self._plan.dispatchers - 1:
            return TIME_NEVER
        return min((signal.watermark for signal in self._heard.values() if not signal.idle), default=TIME_NEVER)

    def turn(
        self,
        records: Sequence[tuple[int, Record]],
        next_offset: int,
        table: RoutingTable,
        wall_ms: int,
        read: LastRead,
        flush: bool = False,
    ) -> Turn | None:
        """The next transaction, or None if there is nothing to say yet. The caller commits it, then calls
        `committed`. `records`: of shuffled, with their offsets. `read`: with which the last of them came."""
        progress = self.progress
        assert table.version >= progress.version, "an older routing table must be refused"
        if not (records or flush or table.version > progress.version or self._signal_is_due(wall_ms)):
            return None
        clock = wall_ms if wall_ms <= WALL_MS_MAX else 0
        epoch = max(clock, progress.epoch + 1, 1, *(signal.epoch for signal in self._heard.values()))
        version, first_epoch = progress.version, progress.first_epoch
        if table.version > version:
            assert table.version == version + 1, "a version is published when all have announced the one before"
            epoch = max(epoch, table.switch[version] + 1)
            version, first_epoch = table.version, epoch
        draft = _Draft(
            Stamping(self._number, epoch, self._plan.query.counted, EpochTotals(progress.epoch, progress.counted)),
            dict(progress.last),
            dict(progress.greatest),
            {fate: list(progress.fates.get(fate, (0,) * len(self._entries))) for fate in FATES},
        )
        self.transports.decide()
        for offset, record in records:
            if isinstance(record, Heartbeat):
                self._take_heartbeat(record, draft)
            else:
                assert isinstance(record, SourceBlock)
                self._take_block(offset, record, draft)
        watermark = max(progress.watermark, self._watermark(draft, read))
        signal = Signal(
            self._producer,
            draft.stamping.epoch,
            watermark,
            self._idle.issuperset(self._partitions),
            version,
            first_epoch,
            carried=bool(draft.rows),
            totals=draft.stamping.totals,
        )
        fates = {fate: tuple(counts) for fate, counts in draft.fates.items()}
        after = DispatcherProgress(
            next_offset,
            draft.stamping.epoch,
            watermark,
            version,
            first_epoch,
            draft.last,
            draft.greatest,
            fates,
            draft.stamping.counts,
            self._hear_from,
        )
        return Turn((*self._routed(draft, table), *draft.aside, *_signals(table, signal)), after, signal.carried)

    def committed(self, turn: Turn, wall_ms: int) -> None:
        self.progress = turn.progress
        self._signalled_ms = wall_ms
        self._owes_answer = False

    def _signal_is_due(self, wall_ms: int) -> bool:
        if self._signalled_ms is None or wall_ms < self._signalled_ms:  # never yet, or the clock jumped back
            return True
        return wall_ms - self._signalled_ms >= (ANSWER_MS if self._owes_answer else HEARTBEAT_MS)

    def _take_block(self, offset: int, block: SourceBlock, draft: _Draft) -> None:
        key = SourcePartition(block.source, block.partition)
        last = draft.last.get(key, -1)
        if block.predecessor > last or not len(block.offsets) or block.offsets[-1] <= last:
            return
        self._partitions.add(key)
        fresh = block.offsets > last
        marks, times = block.marks, block.times
        good = fresh & (marks == Mark.GOOD.value)
        timed = times[fresh & (marks != Mark.DEAD.value)]
        late = good & (times < self.progress.watermark)
        accepted = good & ~late
        self._caught_up.pop(key, None)
        self._idle.discard(key)
        draft.last[key] = int(block.offsets[-1])
        if len(timed):
            draft.greatest[key] = max(draft.greatest.get(key, TIME_NEVER), int(timed.max()))
        failed = int(np.count_nonzero(fresh & (marks == Mark.FAILED.value)))
        draft.fates[FILTERED][block.source] += failed + int(np.count_nonzero(fresh & (marks == Mark.FILTERED.value)))
        draft.fates[FAILED_FILTER][block.source] += failed
        draft.fates[ACCEPTED][block.source] += int(np.count_nonzero(accepted))
        self._set_late_aside(block, late, draft)
        self._set_dead_aside(block, last, draft)
        if accepted.any():
            rows = None if accepted.all() else np.flatnonzero(accepted[marks == Mark.GOOD.value])
            columns = block.columns if rows is None else tuple(column.take(rows) for column in block.columns)
            self.transports.note(block)
            places = places_of(self._number, offset, np.arange(np.count_nonzero(accepted)) if rows is None else rows)
            self._stamp(block, block.offsets[accepted], times[accepted], columns, places, draft)

    def _stamp(
        self,
        block: SourceBlock,
        offsets: NDArray[np.int64],
        times: NDArray[np.int64],
        columns: tuple[Vector, ...],
        places: PayloadPlaces,
        draft: _Draft,
    ) -> None:
        source, partition = block.source, block.partition
        entries = {entry.relation: entry for entry in self._entries[source]}
        passed = {relation: entry.kept(columns, len(offsets)) for relation, entry in entries.items()}
        kept = {relation: chosen for relation, (chosen, _) in passed.items()}
        every = np.arange(len(offsets))
        records = {relation: every if chosen is None else chosen for relation, chosen in kept.items()}
        whole = {relation: self.transports.whole(relation) for relation in entries}
        entered = {
            relation: entry.located(columns, kept[relation], places, whole[relation])
            if entry.payload
            else entry.columns(columns, kept[relation])
            for relation, entry in entries.items()
        }
        draft.fates[FAILED_EXPRESSION][source] += sum(failed for _, failed in passed.values()) + sum(
            entry.failed_keys(entered[relation], len(records[relation])) for relation, entry in entries.items()
        )
        for relation, start, stop, stamps, ordinals in draft.stamping.give(records):
            chosen = slice(start, stop) if kept[relation] is None else records[relation][start:stop]
            ids, newest = tuple_ids(relation, partition, offsets[chosen]), times[chosen]
            part = tuple(column.slice(start, stop) for column in entered[relation])
            rows = Rows(stamps, (ids,), newest, newest, part, ordinals)
            draft.rows.append((entries[relation], rows, whole[relation]))

    def _set_late_aside(self, block: SourceBlock, late: Mask, draft: _Draft) -> None:
        if not late.any():
            return
        draft.fates[LATE][block.source] += int(np.count_nonzero(late))
        rows = np.flatnonzero(late[block.marks == Mark.GOOD.value])
        columns = tuple(column.take(rows) for column in block.columns)
        tuples = LateTuples(
            block.source, block.partition, block.offsets[late], block.times[late], columns, self.progress.watermark
        )
        draft.aside.append((Address(Topic.LATE, self._number), tuples))

    def _set_dead_aside(self, block: SourceBlock, last: int, draft: _Draft) -> None:
        dead = tuple(record for record in block.dead if record.offset > last)
        if not dead:
            return
        policy = self._plan.query.sources[block.source].on_bad_record
        if policy is OnBadRecord.FAIL:
            raise QueryError(dead[0].place, dead[0].reason, FAIL_REMEDY)
        drop = policy is OnBadRecord.DROP
        draft.fates[DROPPED if drop else DEAD][block.source] += len(dead)
        if not drop:
            draft.aside.append((Address(Topic.DEAD, self._number), SetAside(block.source, block.partition, dead)))

    def _take_heartbeat(self, beat: Heartbeat, draft: _Draft) -> None:
        """Idle is proved by two heartbeats of one driver attempt that are `idleAfter` apart, both caught up at our
        position. It ends with the first that is not: something has come while nobody read, and what others read at the
        same time must not make it late.

        Places behind the last record that hold none are taken with it. Else a restart would look for them where a
        retention has removed all that there was, and take them for records that were lost."""
        key, source = SourcePartition(beat.source, beat.partition), self._plan.query.sources[beat.source]
        self._partitions.add(key)
        last, none_to = draft.last.get(key, -1), last_place(beat.read_to - 1, row_bits(source))
        seen = self._caught_up.get(key)
        idle_after_ms = source.event_time.idle_after_us // 1000
        if beat.position == UNREAD or not beat.position <= last <= max(beat.position, none_to):
            self._caught_up.pop(key, None)
            self._idle.discard(key)
            return
        if none_to > last:
            draft.last[key] = none_to
        if seen is None or seen[0] != beat.attempt:
            self._caught_up[key] = beat.attempt, beat.caught_up_ms
        elif beat.caught_up_ms - seen[1] >= idle_after_ms:
            self._idle.add(key)

    def _watermark(self, draft: _Draft, read: LastRead) -> int:
        """The least over the source partitions that are not idle; over the other dispatchers if all of ours are. That
        they are is as old as the heartbeats that prove it, and what the others say is of now: where more is to be read
        here, as after a restart, it may be of before, and must not be late for our being so. What they said is kept
        until then: by that time they may all be idle, too."""
        sources = self._plan.query.sources
        active = [
            draft.greatest[key] - sources[key.source].event_time.lateness_us if key in draft.greatest else TIME_NEVER
            for key in self._partitions
            if key not in self._idle
        ]
        if not active:
            self._followed = max(self._followed, read.others)
            active = [self._followed] if read.to_end else []
        return min(active, default=TIME_NEVER)

    def _routed(self, draft: _Draft, table: RoutingTable) -> list[tuple[Address, Record]]:
        sends: list[tuple[Address, Record]] = []
        for entry, rows, whole in _together(draft.rows):
            epoch = epoch_of(int(rows.stamps[0]))
            for share in entry.routing.shares(rows, table):
                part = rows if share.rows is None else rows.take(share.rows)
                block = Block(
                    entry.routing.stage, entry.routing.side, share.role, self._producer, epoch, part, whole=whole
                )
                sends += ((unit_address(share.unit), piece) for piece in cut_block(block, self._record_bytes))
        return sends


def _together(parts: Sequence[tuple[Entry, Rows, bool]]) -> Iterator[tuple[Entry, Rows, bool]]:
    """Blocks of a source whose payload units may fetch are small; what is sent of them to the units need not be."""
    gathered: dict[int, list[Rows]] = {}
    found = {entry.relation: (entry, whole) for entry, _, whole in parts}  # a turn sends a relation in one way
    for entry, rows, whole in parts:
        if not entry.payload:
            yield entry, rows, whole
            continue
        before = gathered.setdefault(entry.relation, [])
        if before and sum(map(len, before)) + len(rows) > TOGETHER_ROWS_MAX:
            yield entry, concat_rows(before), whole
            before.clear()
        before.append(rows)
    for relation, left in gathered.items():
        entry, whole = found[relation]
        yield entry, concat_rows(left), whole


def _signals(table: RoutingTable, signal: Signal) -> list[tuple[Address, Record]]:
    """To every unit, whatever stage: its frontier is over all dispatchers. After the blocks, in the same
    transaction."""
    units = [(unit_address(unit), signal) for unit in table.units()]
    return [*units, (Address(Topic.SIGNALS, 0), signal)]
