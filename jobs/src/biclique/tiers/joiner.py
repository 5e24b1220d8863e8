"""The joiner unit's logic: store, probe, emit, expire, one step of the frontier at a time.

A step takes everything between the old frontier and the new one. All its stored rows are appended first, then its
probing rows look for stored rows *with a smaller stamp*: the pair rule, which makes the outcome independent of how many
epochs a step covers. Expiry comes after the probes, by the watermark at the frontier. A step is one transaction, or
several where its matches are too many for one; only the last moves the frontier.

After a restart, blocks at or below the committed frontier rebuild the state silently, in steps of their own that commit
nothing; rows at or below the sealed epoch of the restored manifest are skipped. `Joiner` performs nothing: it returns
what to send and the progress that goes with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from biclique.core.rows import Rows
from biclique.core.stamps import epoch_of, first_stamp_above
from biclique.plan.model import Plan
from biclique.routing.protocol import Role
from biclique.routing.table import BOTH_SIDES, Move, RoutingTable, UnitId
from biclique.tiers.aggregation import PartialEmission
from biclique.tiers.dispatcher import dispatcher_producer
from biclique.tiers.emission import ResultEmission, StageEmission
from biclique.tiers.found import pair_size
from biclique.tiers.inbox import INFINITE, Inbox, in_stamp_order, joiner_producer
from biclique.tiers.joiner_limits import JoinerLimits
from biclique.tiers.matching import Batch, Probing, batches
from biclique.tiers.messages import Address, Block, Record, Signal, Topic, unit_address
from biclique.tiers.pace import Pace
from biclique.tiers.payloads import Payloads, Wanted
from biclique.tiers.phases import Mark, Phase, unheard
from biclique.tiers.pressure import Pressed, Pressure
from biclique.tiers.progress import BlobRef, JoinerProgress, Manifest
from biclique.tiers.ranking import ranked, totals_of
from biclique.tiers.room import Room
from biclique.tiers.state import Adoption, SideState


@dataclass(slots=True)
class JoinerCounters:
    stored: int = 0
    probed: int = 0
    matches: int = 0
    expired: int = 0
    moved_in: int = 0


@dataclass(frozen=True, slots=True)
class JoinerTurn:
    sends: tuple[tuple[Address, Record], ...]
    progress: JoinerProgress


def stored_sides(unit: UnitId) -> tuple[int, ...]:
    return (0, 1) if unit.subgroup.side == BOTH_SIDES else (unit.subgroup.side,)


class Joiner:
    """One incarnation of a unit. `manifest`: what `load` is then called for, blob by blob; None: everything is
    replayed."""

    def __init__(
        self, plan: Plan, unit: UnitId, progress: JoinerProgress, manifest: Manifest | None, limits: JoinerLimits
    ) -> None:
        self._plan, self.unit, self.seal_blobs = plan, unit, limits.seal_blobs
        self._stage = plan.stages[unit.subgroup.stage]
        self._last_stage = self._stage.number == len(plan.stages) - 1
        self._producer = joiner_producer(unit)
        self.progress = progress
        self._silent_to = progress.frontier
        self._sealed = manifest.sealed if manifest else -1
        self._adopted: set[Move] = set(manifest.adopted) if manifest else set()
        dispatchers = [dispatcher_producer(n) for n in range(plan.dispatchers)]
        totals = totals_of(plan, manifest.frontier, manifest.totals) if manifest else totals_of(plan)
        self.inbox = Inbox(
            self._stage.number, dispatchers, progress.senders, progress.frontier, limits.held_max, totals
        )
        self.payloads = payloads = Payloads(plan, self._stage, limits.payload_bytes_max, limits.demand_rows)
        record_bytes, writing = limits.record_bytes, self._last_stage and not plan.mergers
        merging = self._last_stage and not writing
        self._partials = PartialEmission(plan, self._producer, payloads, record_bytes) if merging else None
        self._results = ResultEmission(plan, limits.batch_max.bytes, payloads) if writing else None
        self._next_stage = (
            None if self._last_stage else StageEmission(plan, self._stage, self._producer, payloads, record_bytes)
        )
        emission = self._partials or self._results or self._next_stage
        assert emission is not None
        self._emission = emission
        self._failed_before = progress.failed
        self._batch_max, self._step_bytes = limits.batch_max, limits.held_max.bytes
        self.pressed = Pressed(limits.memory)
        self.pace = Pace(limits.slow_start, limits.in_flight_bytes)
        self.states: dict[int, SideState] = {
            n: SideState(
                self._stage,
                n,
                self._partials.sums(n) if self._partials else (),
                limits.blob_rows,
                limits.segment_rows_min,
            )
            for n in stored_sides(unit)
        }
        self._room = Room(self.pressed, self.inbox, self.states, lambda: self.held_bytes, self._step_bytes)
        self._probings = {
            n: Probing(self._stage, state, pair_size(emission.expressions, self._stage, n))
            for n, state in self.states.items()
        }
        self._rebuilt_to = min(self._sealed, self._silent_to)
        self.catching_up = False  # what has been read is more than one step handles: read on after the next one
        self.next_offset = manifest.offset if manifest else progress.lower
        self.counters = JoinerCounters()
        self.mark: Mark = unheard

    def _failed(self) -> int:
        """Up to what has been emitted last. A step is emitted by one incarnation, or by a later one from a cursor on,
        and what comes to no commit ends its incarnation: so each failure is in the committed progress once."""
        return self._failed_before + self._emission.failures + sum(p.failures for p in self._probings.values())

    def _heard(self) -> int:
        return max(self.progress.heard, self.inbox.newest_version)

    # Reading.

    def load(self, ref: BlobRef, data: bytes) -> None:
        self.states[ref.side].load(ref, data)

    def read_to(self, next_offset: int) -> None:
        self.next_offset = next_offset

    def take(self, offset: int, record: Record) -> None:
        if isinstance(record, Signal):
            self.inbox.take_signal(offset, record)
            return
        assert isinstance(record, Block)
        rows = record.rows
        handled = self._silent_to if record.role is Role.PROBE else self._sealed
        first = int(rows.stamps.searchsorted(first_stamp_above(handled)))
        if first < len(rows):
            self.inbox.take_block(offset, record, rows if not first else rows.slice(first, len(rows)))

    # Memory.

    @property
    def held_bytes(self) -> int:
        aside = self.inbox.bytes_held + self.payloads.cached_bytes
        return aside + sum(state.reserved_bytes for state in self.states.values())

    def feel(self, host: Pressure) -> None:
        """Once a turn, before anything is read. `host`: what it sees from outside."""
        self.pressed.feel(self.held_bytes, host)

    # Deciding.

    @property
    def frontier(self) -> int:
        return self.progress.frontier

    def adoption_due(self, table: RoutingTable) -> tuple[Move, int] | None:
        """A move to this unit that must be taken over before the frontier may pass its switch-over point."""
        for move in self._moves(table):
            if move.target == self.unit and move not in self._adopted:
                switch = self.inbox.switch_over(move.version, table)
                if switch <= self.frontier:
                    return move, switch
        return None

    def adoption(self) -> Adoption:
        return Adoption(self.states)

    def adopt(self, move: Move, adoption: Adoption) -> None:
        self.counters.moved_in += adoption.take_over()
        self._adopted.add(move)

    def rebuild_to(self, table: RoutingTable) -> int | None:
        """How far the silent replay may go now; None: it is over, or waits for what has not been read yet. Called
        before `reach`, again and again."""
        if self._rebuilt_to >= self._silent_to or self._reading_again:
            return None
        self.inbox.learn(table)
        frontier = self.inbox.frontier(table)
        if frontier is None or frontier <= self._rebuilt_to:
            return None
        return self.inbox.within(min(frontier, self._silent_to), self._rebuilt_to)

    @property
    def _reading_again(self) -> bool:
        """A sender that has left says no more, yet blocks of its may be ahead in the log, at or below a frontier that
        all others have reached: they must not be taken for news. Dispatchers never leave."""
        return self._stage.number > 0 and self.next_offset < self.progress.read_to

    def rebuild(self, frontier: int) -> None:
        """A silent step: what had been stored is stored again, and nobody probes."""
        ready = self.inbox.ready(frontier)
        for side, state in self.states.items():
            rows = in_stamp_order([*ready.get((side, Role.STORE), []), *ready.get((side, Role.BOTH), [])])
            if rows is not None:
                state.append(ranked(rows, state.side, self.inbox.totals))
            # What the committed steps had expired already: a log may be kept for much longer than a window.
            state.expire(self.progress.watermark, self.progress.counted)
        self.inbox.advance(frontier)
        self._rebuilt_to = frontier

    def reach(self, table: RoutingTable) -> int | None:
        """The frontier to step to, or None if there is none beyond the present one. `table` is of a version at or above
        every version announced so far."""
        self.catching_up = self.pressed.standing = False
        self.inbox.learn(table)
        frontier = self.inbox.frontier(table)
        if self._reading_again or frontier is None or self.pace.waits:
            return None
        for move in self._moves(table):
            if move.source == self.unit:
                frontier = min(frontier, self.inbox.switch_over(move.version, table))
            elif move.target == self.unit and move not in self._adopted:
                switch = self.inbox.switch_over(move.version, table)
                if switch > self.frontier:
                    frontier = min(frontier, switch)
                else:
                    return None  # it waits for the state that comes with the move
        if frontier <= self.frontier:
            return None
        bound = self._room.to(frontier, self.frontier, self.progress.watermark)
        within = self.frontier
        if bound > self.frontier:
            within = self.inbox.within(bound, self.frontier, self.pace.share(self._step_bytes))
        if self.pressed.level >= Pressure.SHED:
            self.inbox.shed(within, 0 if self.pressed.level is Pressure.STAND else self._step_bytes // 2)
        self.pressed.standing = within == self.frontier
        self.catching_up = self.frontier < within < frontier
        return within if within > self.frontier else None

    def _moves(self, table: RoutingTable) -> Iterator[Move]:
        return (move for move in table.moves if move.version <= self.inbox.newest_version)

    # Acting.

    def step(self, frontier: int, table: RoutingTable) -> Iterator[JoinerTurn | Wanted]:
        """The transactions of one step, each to be committed before the next is asked for; and before one of them, what
        its matches have left in shuffled: it goes to `payloads` before anything more is asked for. `table`: of the
        version that this unit routes partial results by."""
        assert self._rebuilt_to >= self._silent_to, "every sender has been heard beyond the committed frontier"
        self.mark(Phase.STORE)
        ready = self.inbox.ready(frontier)
        fresh_from: dict[int, int] = {}
        for side, state in self.states.items():
            fresh_from[side] = state.own.end
            rows = in_stamp_order([*ready.get((side, Role.STORE), []), *ready.get((side, Role.BOTH), [])])
            if rows is not None:
                fresh_from[side] = state.append(ranked(rows, state.side, self.inbox.totals))
                self.counters.stored += len(rows)
                self.payloads.handle(side, len(rows))
        probes: dict[int, Rows] = {}  # by the side that they look into
        for side in self.states:
            rows = in_stamp_order([*ready.get((1 - side, Role.PROBE), []), *ready.get((1 - side, Role.BOTH), [])])
            if rows is not None:
                probes[side] = ranked(rows, self.states[side].side, self.inbox.totals)
                self.counters.probed += len(rows)
                self.payloads.handle(1 - side, len(rows))
        version, first_epoch = self._version_to_apply(table)
        watermark = max(self.progress.watermark, self.inbox.watermark_at(frontier))
        counted = () if self.inbox.totals is None else self.inbox.totals.sum_at(frontier)
        for made in self._emitted(probes, fresh_from, frontier, table):
            if isinstance(made, Wanted):
                yield made
                continue
            batch, sends = made
            if batch.cursor is not None:
                below = epoch_of(batch.cursor.probe_stamp) - 1
                offset = self.inbox.earliest(self.next_offset, below)
                yield JoinerTurn(
                    sends,
                    JoinerProgress(
                        offset,
                        below,
                        self.progress.watermark,
                        batch.cursor,
                        False,
                        self.inbox.senders_from(offset),
                        version,
                        first_epoch,
                        self.progress.lower,
                        self.next_offset,
                        self.progress.counted,
                        self._failed(),
                        self._heard(),
                    ),
                )
                continue
            self.inbox.advance(frontier)
            for state in self.states.values():
                self.counters.expired += state.expire(watermark, counted)
            offset = self.inbox.earliest(self.next_offset, frontier)
            progress = JoinerProgress(
                offset,
                frontier,
                watermark,
                None,
                not any(state.rows for state in self.states.values()),
                self.inbox.senders_from(offset),
                version,
                first_epoch,
                self.progress.lower,
                self.next_offset,
                counted,
                self._failed(),
                self._heard(),
            )
            demands, signals = self.payloads.demands(self._producer), self._signals(progress, table)
            yield JoinerTurn((*sends, *demands, *signals), progress)

    def _emitted(
        self, probes: Mapping[int, Rows], fresh_from: Mapping[int, int], frontier: int, table: RoutingTable
    ) -> Iterator[tuple[Batch, tuple[tuple[Address, Record], ...]] | Wanted]:
        resume = self.progress.cursor
        self.mark(Phase.PROBE)
        if self._partials is not None and resume is None:
            totals = self._partials.from_totals(self._probings, probes, fresh_from, frontier)
            if totals is not None:
                yield Batch({}, None), tuple(totals)
                return
        batch_max = replace(self._batch_max, bytes=self.pace.share(self._batch_max.bytes))
        for batch in batches(self._probings, probes, fresh_from, resume, batch_max):
            self.mark(Phase.EMIT)
            self.counters.matches += sum(len(chunk.probe) for chunks in batch.found.values() for chunk in chunks)
            if (wanted := self.payloads.wanted(probes, batch.found)) is not None:
                yield wanted
            if self._partials is not None:
                epoch = frontier if batch.cursor is None else epoch_of(batch.cursor.probe_stamp)
                yield batch, tuple(self._partials.partials(probes, batch.found, epoch))
            elif self._next_stage is not None:
                yield batch, tuple(self._next_stage.blocks(probes, batch.found, table))
            else:
                assert self._results is not None
                output = Address(Topic.OUTPUT, str(self.unit._replace(generation=0)))
                yield batch, tuple((output, results) for results in self._results.results(probes, batch.found))
            self.mark(Phase.PROBE)

    def _version_to_apply(self, table: RoutingTable) -> tuple[int, int]:
        """A sender applies a version with the first epoch it has not signalled, between two steps, above the
        switch-over point of the version before; never while an epoch is half emitted."""
        if self._last_stage:
            return table.version, 0  # it routes nothing
        if table.version > self.progress.version:
            return table.version, self.frontier + 1
        return self.progress.version, self.progress.first_epoch

    def can_apply(self, table: RoutingTable) -> bool:
        return self._last_stage or (
            self.progress.cursor is None and self.frontier + 1 > table.switch.get(table.version - 1, INFINITE)
        )

    def announcement(self, table: RoutingTable) -> JoinerTurn | None:
        """A unit that cannot step may still apply a version. One that stands at the switch-over point of its own move
        steps no more, and holds back the units behind it; yet the next version, by which it leaves, waits for the word
        of them all."""
        heard = not self._last_stage or self._plan.mergers > 0
        if not heard or table.version <= self.progress.version:
            return None
        version, first_epoch = self._version_to_apply(table)
        if not self.can_apply(table):
            # Frozen short of the switch-over point of all stages, it emits nothing more, so nothing up to there either.
            if not any(m.source == self.unit and self._comes_to(m, table) for m in self._moves(table)):
                return None
            first_epoch = table.switch[table.version - 1] + 1
        progress = replace(self.progress, version=version, first_epoch=first_epoch)
        return JoinerTurn(tuple(self._signals(progress, table)), progress)

    def _comes_to(self, move: Move, table: RoutingTable) -> bool:
        return self.inbox.switch_over(move.version, table) <= self.frontier

    def _signals(self, progress: JoinerProgress, table: RoutingTable) -> list[tuple[Address, Record]]:
        if self._last_stage and not self._plan.mergers:
            return []
        signal = Signal(
            self._producer,
            progress.frontier,
            progress.watermark,
            False,
            progress.version,
            progress.first_epoch,
            False,
        )
        if self._last_stage:
            mergers = [(Address(Topic.PARTIALS, n), signal) for n in range(self._plan.mergers)]
            return [*mergers, (Address(Topic.SIGNALS, 0), signal)]
        receivers = table.units_of_stage(self._stage.number + 1)
        return [*((unit_address(unit), signal) for unit in receivers), (Address(Topic.SIGNALS, 0), signal)]

    def farewell(self, table: RoutingTable) -> JoinerTurn:
        """The last signal of a unit that the table no longer names: nothing will come from it."""
        progress = self.progress
        last = Signal(
            self._producer,
            progress.frontier,
            progress.watermark,
            False,
            table.version,
            progress.first_epoch,
            False,
            True,
        )
        addresses: list[Address] = []
        if not self._last_stage:
            addresses = [unit_address(unit) for unit in table.units_of_stage(self._stage.number + 1)]
            addresses.append(Address(Topic.SIGNALS, 0))
        elif self._plan.mergers:
            addresses = [Address(Topic.PARTIALS, n) for n in range(self._plan.mergers)]
        return JoinerTurn(tuple((address, last) for address in addresses), progress)

    def committed(self, turn: JoinerTurn) -> None:
        self.progress, cursor = turn.progress, turn.progress.cursor
        self.pace.sent(self.frontier if cursor is None else epoch_of(cursor.probe_stamp), turn.sends)

    # Checkpoints.

    @property
    def replaying(self) -> bool:
        """Nothing is sealed until every sender has been read up to the committed frontier."""
        return self._reading_again or self._rebuilt_to < self._silent_to or self.inbox.behind(self._silent_to)

    def seal(self, incarnation: int, serial: int) -> Iterator[tuple[BlobRef, bytes]]:
        """Between two steps: the blobs to put, made one at a time, before `manifest` may be published."""
        assert not self.replaying and self.progress.cursor is None
        prefix = f"{self.unit}/{incarnation}-{serial}"
        names = (f"{prefix}-{n}" for n in range(1 << 30))
        for state in self.states.values():
            yield from state.seal(names)

    def unseal(self, lost: frozenset[str]) -> None:
        """The store has lost these blobs: the next seal makes others in their place."""
        for state in self.states.values():
            state.unseal(lost)

    def manifest(self, incarnation: int) -> Manifest:
        """Of what has just been sealed."""
        return Manifest(
            incarnation,
            self.frontier,
            self.frontier,
            # Not what has been read since the last commit: the progress still waits for what that may have said.
            self.progress.offset,
            tuple(ref for state in self.states.values() for ref in state.blobs()),
            frozenset(self._adopted),
            () if self.inbox.totals is None else self.inbox.totals.at(self.frontier),
        )


def usable(manifest: Manifest, progress: JoinerProgress) -> bool:
    """A manifest describes a commit; one that is ahead of the progress describes a commit that never happened."""
    return manifest.frontier <= progress.frontier
