"""The life of a dispatcher, a joiner unit and a merger, as generators of effects (tiers/effects.py).

Every loop has the same shape: fence, then read the progress (in this order: what an older incarnation committed before
the fence is then seen, and it can commit nothing after); restore; then read, step, commit, again and again. Output and
progress go into one transaction. A manifest is published after the commit it describes.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass, replace
from typing import Any

from biclique.core.codec import DamagedBlob, checksum
from biclique.core.stamps import first_stamp_above
from biclique.plan.model import Plan
from biclique.routing.protocol import Role
from biclique.routing.table import Move, RoutingTable, UnitId
from biclique.tiers.cutting import RECORD_BYTES_MAX
from biclique.tiers.dispatcher import Dispatcher, LastRead, dispatcher_producer
from biclique.tiers.effects import (
    Commit,
    Consult,
    Effect,
    End,
    Fence,
    Fetched,
    GetBlob,
    LoadManifests,
    Loop,
    Orders,
    Outcome,
    Publication,
    Read,
    ReadClock,
    ReadProgress,
    ReadTable,
    Rest,
)
from biclique.tiers.inbox import joiner_producer
from biclique.tiers.intake import Intake
from biclique.tiers.joiner import Joiner, JoinerTurn, usable
from biclique.tiers.joiner_limits import JoinerLimits
from biclique.tiers.merger import WRITTEN_MAX, Merger, WrittenMax, merger_producer
from biclique.tiers.messages import (
    Address,
    Block,
    Demand,
    Producer,
    Record,
    Signal,
    Topic,
    unit_address,
)
from biclique.tiers.pace import Pace
from biclique.tiers.payload_reading import read_payloads
from biclique.tiers.payloads import Wanted
from biclique.tiers.phases import Mark, unheard
from biclique.tiers.pressure import MemoryBudget, records_of_a_read
from biclique.tiers.progress import (
    BlobRef,
    DispatcherProgress,
    JoinerProgress,
    Manifest,
    MergerProgress,
    SourcePartition,
)
from biclique.tiers.ranking import ranked, take_totals, totals_of
from biclique.tiers.reading_again import read_again
from biclique.tiers.reading_on import read_on
from biclique.tiers.sealing import seal, seal_merger
from biclique.tiers.state import Adoption
from biclique.tiers.waiting import SHARES_MAX

REST_MS = 10  # how long a loop that found nothing to do lets others go first


class MissingProgress(Exception):
    """Progress that was there is gone: going on would lose or double results. A loud stop, for a person to look at."""


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """Records of one read. `turn_records` and `turn_bytes` bound a dispatcher's transaction, and with it what one epoch
    can hold: the bytes are of what it sends, of more than one record of shuffled. It takes `small_blocks` times as many
    records where those of sources are small, since units may fetch them (plan/semijoin.py). `record_bytes`: of a block
    that it sends, if that has more rows than one. `slow_start`, `in_flight_bytes`: of its pace (pace.py)."""

    turn_records: int = 8
    unit_records: int = 64
    signal_records: int = 4096
    turn_bytes: int = 1 << 26
    record_bytes: int = RECORD_BYTES_MAX
    small_blocks: int = 32
    slow_start: int = 0
    in_flight_bytes: int = 1 << 27


READ_LIMITS, JOINER_LIMITS = ReadLimits(), JoinerLimits()


@dataclass(slots=True)
class Watch:
    """Lets the host look at a running loop's logic: counters, state, watermark; and hear what a joiner's step is busy
    with. Nothing in the logic reads it."""

    dispatcher: Dispatcher | None = None
    joiner: Joiner | None = None
    merger: Merger | None = None
    pace: Pace | None = None
    mark: Mark = unheard


def dispatcher_loop(
    plan: Plan,
    number: int,
    partitions: Iterable[SourcePartition],
    limits: ReadLimits = READ_LIMITS,
    watch: Watch | None = None,
) -> Loop:
    me, pace = dispatcher_producer(number), Pace(limits.slow_start, limits.in_flight_bytes)
    yield Fence(me)
    progress = yield ReadProgress(me)
    dispatcher = Dispatcher(plan, number, partitions, progress or DispatcherProgress(), limits.record_bytes)
    if watch is not None:
        watch.dispatcher, watch.pace = dispatcher, pace
    source, signals = Address(Topic.SHUFFLED, number), Address(Topic.SIGNALS, 0)
    heard_to, intake = dispatcher.progress.hear_from, Intake(dispatcher.progress.offset)
    turn_records = limits.turn_records * (limits.small_blocks if plan.may_leave_payload else 1)
    read = LastRead()
    while True:
        orders: Orders = yield Consult()
        if orders.stop:
            return End.STOPPED
        pace.heed(orders)
        heard: Fetched = yield Read(signals, heard_to, limits.signal_records)
        heard_to = heard.next_offset
        dispatcher.transports.hear(said for _, said in heard.records if isinstance(said, Demand))
        dispatcher.hear(((at, said) for at, said in heard.records if isinstance(said, Signal)), heard_to)
        table: RoutingTable | None = yield ReadTable()
        if table is None or table.version < dispatcher.progress.version:
            yield Rest(REST_MS)  # an older routing table is refused
            continue
        if table.version > dispatcher.progress.version + 1:
            return End.FENCED  # the version between was announced in this dispatcher's name: a successor runs
        if intake.empty and not pace.waits:
            fetched: Fetched = yield from read_on(source, intake.read_to, turn_records)
            intake.take(fetched)
            read = LastRead(dispatcher.others, fetched.next_offset >= fetched.end)
        now: int = yield ReadClock()
        records, next_offset = intake.first(pace.share(limits.turn_bytes) // len(table.units()))
        if pace.waits:
            records, next_offset = [], dispatcher.progress.offset
        all_of_it = read.to_end and next_offset == intake.read_to
        turn = dispatcher.turn(records, next_offset, table, now, replace(read, to_end=all_of_it))
        if turn is None:
            yield Rest(REST_MS)
            continue
        outcome: Outcome = yield Commit(me, me, turn.sends, turn.progress)
        if outcome is not Outcome.COMMITTED:
            return _end_of(outcome)
        dispatcher.committed(turn, now)
        pace.sent(turn.progress.epoch, turn.sends)
        intake.handled(len(records))


def joiner_loop(
    plan: Plan,
    unit: UnitId,
    joiner_limits: JoinerLimits = JOINER_LIMITS,
    limits: ReadLimits = READ_LIMITS,
    watch: Watch | None = None,
) -> Loop:
    owner, fence = joiner_producer(unit), joiner_producer(unit._replace(generation=0))
    incarnation: int = yield Fence(fence)
    progress: JoinerProgress | None = yield ReadProgress(owner)
    if progress is None:
        raise MissingProgress(f"{owner} has no progress in the log")
    joiner: Joiner = yield from _restored(plan, unit, progress, joiner_limits)
    if watch is not None:
        watch.joiner, watch.pace, joiner.mark = joiner, joiner.pace, watch.mark
    address, serial, slices = unit_address(unit), 0, 0
    while True:
        orders: Orders = yield Consult()
        if orders.stop:
            return End.STOPPED
        joiner.feel(orders.pressure)
        joiner.pace.heed(orders)
        read = 0
        if not joiner.catching_up:
            some = records_of_a_read(joiner.pressed.level, limits.unit_records)
            fetched = yield from read_on(address, joiner.next_offset, some)
            for offset, record in fetched.records:
                joiner.take(offset, record)
            joiner.read_to(fetched.next_offset)
            read = len(fetched.records)
        table: RoutingTable | None = yield ReadTable()
        known = max(joiner.inbox.newest_version, joiner.progress.version, joiner.progress.heard)
        if table is None or table.version < known:
            yield Rest(REST_MS)  # older than what this unit has heard of, or was born or went on with
            continue
        if unit not in table.units() and table.born.get(unit, 0) <= table.version and joiner.progress.frontier >= 0:
            outcome = yield _commit(fence, owner, joiner.farewell(table))
            return End.LEFT if outcome is Outcome.COMMITTED else _end_of(outcome)
        move = joiner.adoption_due(table)
        if move is not None:
            adopted = yield from _adopt(plan, joiner, move[0], move[1], table)
            if not adopted:
                yield Rest(REST_MS)
                continue
        while (silent := joiner.rebuild_to(table)) is not None:
            if not (yield from _read_again(joiner, silent, address)):
                return End.FENCED
            joiner.rebuild(silent)
        frontier = joiner.reach(table)
        if frontier is not None:
            outcome = yield from _step(joiner, frontier, table, fence, owner, address)
            if outcome is not Outcome.COMMITTED:
                return _end_of(outcome)
        elif (announcement := joiner.announcement(table)) is not None:
            outcome = yield _commit(fence, owner, announcement)
            if outcome is not Outcome.COMMITTED:
                return _end_of(outcome)
            joiner.committed(announcement)
        due = slices or orders.seal or joiner.pressed.seal_due
        if due and not joiner.replaying and joiner.progress.cursor is None:
            serial += 1
            sealed = yield from seal(joiner, incarnation, serial, owner, joiner.seal_blobs << slices)
            if sealed is Publication.SUPERSEDED:
                return End.FENCED
            slices = slices + 1 if sealed is None else 0
            if not slices:
                joiner.pressed.sealed()
        if frontier is None and not read and not slices:
            yield Rest(REST_MS)


def _commit(fence: Producer, owner: Producer, turn: JoinerTurn) -> Commit:
    return Commit(fence, owner, turn.sends, turn.progress)


def _end_of(outcome: Outcome) -> End:
    return End.FENCED if outcome is Outcome.FENCED else End.UNKNOWN


def _read_again(joiner: Joiner, frontier: int, address: Address) -> Generator[Effect, Any, bool]:
    """The blocks that a step to this frontier needs and that were dropped for want of memory. False: one has been
    trimmed, so a successor has handled it."""
    joiner.inbox.make_room(frontier)
    return (yield from read_again(address, joiner.inbox.missing(frontier), joiner.inbox.restore))


def _step(
    joiner: Joiner, frontier: int, table: RoutingTable, fence: Producer, owner: Producer, address: Address
) -> Generator[Effect, Any, Outcome]:
    if not (yield from _read_again(joiner, frontier, address)):
        return Outcome.FENCED
    if table.version > joiner.progress.version and not joiner.can_apply(table):
        routing: RoutingTable | None = yield ReadTable(joiner.progress.version)
        while routing is None:  # applied before, so it exists; whoever answers may lag behind
            yield Rest(REST_MS)
            routing = yield ReadTable(joiner.progress.version)
    else:
        routing = table
    for turn in joiner.step(frontier, routing):
        if isinstance(turn, Wanted):
            if not (yield from read_payloads(turn, joiner.payloads, owner, joiner.progress)):
                return Outcome.FENCED
            continue
        outcome: Outcome = yield _commit(fence, owner, turn)
        if outcome is not Outcome.COMMITTED:
            return outcome
        joiner.committed(turn)
    return Outcome.COMMITTED


def _load(manifest: Manifest, load: Callable[[BlobRef, bytes], None]) -> Generator[Effect, Any, bool]:
    """The blobs of a manifest, one at a time; False if one is missing or damaged: then what was loaded is worthless."""
    for ref in manifest.blobs:
        data: bytes | None = yield GetBlob(ref.name)
        if data is None or checksum(data) != ref.checksum:
            return False
        try:
            load(ref, data)
        except DamagedBlob:
            return False
    return True


def _restored(
    plan: Plan, unit: UnitId, progress: JoinerProgress, limits: JoinerLimits
) -> Generator[Effect, Any, Joiner]:
    """From the newest manifest that is good, else an older one, else from the log alone."""
    manifests: tuple[Manifest, ...] = yield LoadManifests(joiner_producer(unit))
    for manifest in manifests:
        if not usable(manifest, progress):
            continue
        joiner = Joiner(plan, unit, progress, manifest, limits)
        if (yield from _load(manifest, joiner.load)):
            return joiner
    return Joiner(plan, unit, progress, None, limits)


def _adopt(plan: Plan, joiner: Joiner, move: Move, switch: int, table: RoutingTable) -> Generator[Effect, Any, bool]:
    """Take over a sibling's tuples with stamps up to S: from its manifest if that is good and whole, else from its log.
    False while the sibling has not come to S yet: it still stores."""
    source: JoinerProgress | None = yield ReadProgress(joiner_producer(move.source))
    if source is None or source.frontier < switch:
        return False
    manifests: tuple[Manifest, ...] = yield LoadManifests(joiner_producer(move.source))
    for manifest in manifests:
        if manifest.frontier > source.frontier or manifest.sealed < switch:
            continue
        adoption = joiner.adoption()
        if (yield from _load(manifest, adoption.take_blob)):
            joiner.adopt(move, adoption)
            return True
    adoption = joiner.adoption()
    yield from _rows_from_log(plan, move.source, switch, table, adoption)
    joiner.adopt(move, adoption)
    return True


def _rows_from_log(
    plan: Plan, unit: UnitId, to_epoch: int, table: RoutingTable, adoption: Adoption
) -> Generator[Effect, Any, None]:
    """All that a unit was ever given to store, up to an epoch, as far as the log still holds it: its own part of its
    partition, and what was moved to it before. Where rows need ranks, the signals come first: some are behind them."""
    progress: JoinerProgress | None = yield ReadProgress(joiner_producer(unit))
    if progress is None:
        raise MissingProgress(f"{unit} has no progress in the log")
    following: JoinerProgress | None = yield ReadProgress(
        joiner_producer(unit._replace(generation=unit.generation + 1))
    )
    bound = first_stamp_above(to_epoch)
    end = progress.read_to if following is None else min(progress.read_to, following.lower)
    sides, totals = plan.stages[unit.subgroup.stage].sides, totals_of(plan)

    def take_signal(offset: int, record: Record) -> None:
        if isinstance(record, Signal) and totals is not None:
            take_totals(totals, offset, record)

    def take_block(offset: int, record: Record) -> None:
        if isinstance(record, Block) and record.role is not Role.PROBE:
            rows = record.rows.slice(0, int(record.rows.stamps.searchsorted(bound)))
            if len(rows):
                adoption.take(record.side, ranked(rows, sides[record.side], totals))

    if totals is not None:
        yield from _read_through(unit_address(unit), progress.lower, end, take_signal)
    yield from _read_through(unit_address(unit), progress.lower, end, take_block)
    for earlier in table.moves:
        switch = table.stage_switch.get((earlier.version, unit.subgroup.stage))
        if earlier.target == unit and switch is not None and switch < to_epoch:
            yield from _rows_from_log(plan, earlier.source, switch, table, adoption)


def _read_through(
    address: Address, at: int, end: int, take: Callable[[int, Record], None]
) -> Generator[Effect, Any, None]:
    """What the log still holds of a stretch that is known to have been written."""
    while at < end:
        fetched = yield from read_on(address, at, 64)
        for offset, record in fetched.records:
            if offset < end:
                take(offset, record)
        if fetched.next_offset == at:
            yield Rest(REST_MS)  # it is there; a fetch may bring nothing all the same
        at = fetched.next_offset


def merger_loop(
    plan: Plan,
    number: int,
    hold: bool = False,
    limits: ReadLimits = READ_LIMITS,
    watch: Watch | None = None,
    written_max: WrittenMax = WRITTEN_MAX,
    shares_max: int = SHARES_MAX,
    memory: MemoryBudget | None = None,
) -> Loop:
    """`hold`: running aggregates are written when the input has ended, once (bounded files). `shares_max`: bytes of
    shares above the frontier; more are read again when needed. `memory`: of all that it holds; None: not counted."""
    me = merger_producer(number)
    incarnation: int = yield Fence(me)
    progress: MergerProgress | None = yield ReadProgress(me)
    if progress is None:
        first: RoutingTable | None = yield ReadTable()
        while first is None:
            yield Rest(REST_MS)
            first = yield ReadTable()
        progress = MergerProgress(senders=first.units_of_stage(len(plan.stages) - 1))
    merger = yield from _restored_merger(plan, number, progress, hold, written_max, shares_max, memory)
    if watch is not None:
        watch.merger = merger
    address, serial, slices, finished = Address(Topic.PARTIALS, number), 0, 0, False
    while True:
        orders: Orders = yield Consult()
        if orders.stop:
            return End.STOPPED
        merger.feel(orders.pressure)
        some = records_of_a_read(merger.pressed.level, limits.unit_records)
        fetched = yield from read_on(address, merger.next_offset, some)
        for offset, record in fetched.records:
            merger.take(offset, record)
        merger.read_to(fetched.next_offset)
        table: RoutingTable | None = yield ReadTable()
        if table is None or table.version < max(merger.inbox.newest_version, merger.progress.heard):
            yield Rest(REST_MS)
            continue
        frontier = merger.reach(table)
        if frontier is not None and not (yield from read_again(address, merger.missing(frontier), merger.restore)):
            return End.FENCED  # a successor has handled it
        turns = merger.step(frontier) if frontier is not None else None
        if turns is None and orders.finish and not finished and not merger.replaying:
            turns, finished = merger.finish(), True
        for turn in turns or ():
            outcome: Outcome = yield Commit(me, me, turn.sends, turn.progress)
            if outcome is not Outcome.COMMITTED:
                return _end_of(outcome)
            merger.committed(turn)
        due = slices or orders.seal or merger.pressed.seal_due
        if due and not merger.replaying and merger.progress.cursor is None:
            serial += 1
            sealed = yield from seal_merger(merger, me, incarnation, serial, written_max.seal_blobs << slices)
            if sealed is Publication.SUPERSEDED:
                return End.FENCED
            slices = slices + 1 if sealed is None else 0
            if not slices:
                merger.pressed.sealed()
        if turns is None and not fetched.records and not slices:
            yield Rest(REST_MS)


def _restored_merger(
    plan: Plan,
    number: int,
    progress: MergerProgress,
    hold: bool,
    written_max: WrittenMax,
    shares_max: int,
    memory: MemoryBudget | None,
) -> Generator[Effect, Any, Merger]:
    manifests: tuple[Manifest, ...] = yield LoadManifests(merger_producer(number))
    for manifest in manifests:
        if manifest.frontier > progress.frontier:
            continue
        merger = Merger(plan, number, progress, manifest, hold, written_max, shares_max, memory)
        if (yield from _load(manifest, merger.load)):
            return merger
    return Merger(plan, number, progress, None, hold, written_max, shares_max, memory)
