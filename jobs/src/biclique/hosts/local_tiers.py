"""The tiers of one query in this process: the same loops as anywhere, over a log in memory.

The log is no more than a hand-over here: what every loop has handled is trimmed away, and a *barrier* (nothing
unhandled anywhere, all state sealed) is all that a restart needs. To come to one without waiting, the clock is moved
on: it orders, and never measures (design, section 3).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from biclique.hosts.perform import Performer, start_unit
from biclique.hosts.scheduler import Running, run_round
from biclique.hosts.summary import failed_on_entry
from biclique.plan.model import Plan
from biclique.plan.table import first_table
from biclique.ports.checkpoints import CheckpointStore
from biclique.ports.memory import MemoryLog
from biclique.routing.table import RoutingTable, UnitId
from biclique.tiers.dispatcher import HEARTBEAT_MS, dispatcher_producer
from biclique.tiers.effects import Effect, Loop, Orders, Publication, PublishManifest
from biclique.tiers.inbox import joiner_producer
from biclique.tiers.loops import Watch, dispatcher_loop, joiner_loop, merger_loop
from biclique.tiers.merger import merger_producer
from biclique.tiers.messages import Address, Heartbeat, Producer, Record, SourceBlock, Topic, unit_address
from biclique.tiers.progress import DispatcherProgress, JoinerProgress, MergerProgress, Progress, SourcePartition
from biclique.tiers.trimming import keep_signals_from

PARTITION = 0  # a source of files is one source partition


class DamagedCheckpoint(Exception):
    """The state that the last barrier names cannot be loaded: going on without it would lose results."""


@dataclass(frozen=True, slots=True)
class Resumed:
    """What is left of an earlier process: see ports/run_state.py."""

    progress: Mapping[Producer, Progress]
    ends: Mapping[Address, int]
    manifests: Mapping[Producer, int]


def owners_of_state(plan: Plan) -> tuple[Producer, ...]:
    """Who has manifests in the checkpoint store."""
    units = (joiner_producer(unit) for unit in first_table(plan).units())
    return (*units, *(merger_producer(number) for number in range(plan.mergers)))


class EngineClock:
    """Milliseconds of the wall clock, moved on by whoever wants the dispatchers to speak."""

    def __init__(self) -> None:
        self._ahead_ms = 0

    def __call__(self) -> int:
        return time.time_ns() // 1_000_000 + self._ahead_ms

    def advance(self, milliseconds: int) -> None:
        self._ahead_ms += milliseconds


class LocalTiers:
    """`attempt`: greater than that of every earlier process that used the same store. `hold`: running aggregates are
    written by `finish`, once, and not whenever they change. `partitions`: None: each source is one, of files."""

    def __init__(
        self,
        plan: Plan,
        store: CheckpointStore,
        attempt: int,
        resumed: Resumed | None,
        clock: EngineClock,
        hold: bool,
        partitions: Sequence[SourcePartition] | None = None,
    ) -> None:
        assert not plan.may_leave_payload, "shuffled is trimmed by what is handled, whatever rows refer to"
        self._hold, self._finishing = hold, False
        files = [SourcePartition(source, PARTITION) for source in range(len(plan.query.sources))]
        self._partitions = tuple(files if partitions is None else partitions)
        self.plan, self._store, self._clock = plan, store, clock
        self.log = MemoryLog(attempt)
        self.table = first_table(plan)
        if resumed is not None:
            self.log.resume(resumed.progress, resumed.ends)
            self._refuse_damage(resumed)
        self._client = self.log.client()
        self._sealing: set[Producer] = set()
        self._sealed: dict[Producer, int] = dict(resumed.manifests) if resumed else {}
        self._read: dict[Address, int] = {}
        self.watches: dict[Producer, Watch] = {}
        self._units = self.table.units()
        for unit in self._units:
            start_unit(self._client, unit, self.table, self.log.written_to(unit_address(unit)))
        self._loops = list(self._started())

    def _started(self) -> Iterator[Running]:
        for number in range(self.plan.dispatchers):
            partitions = [key for key in self._partitions if self._dispatcher_of(key.source) == number]
            owner, watch = dispatcher_producer(number), Watch()
            yield self._running(owner, watch, dispatcher_loop(self.plan, number, partitions, watch=watch))
        for unit in self._units:
            owner, watch = joiner_producer(unit), Watch()
            yield self._running(owner, watch, joiner_loop(self.plan, unit, watch=watch))
        for number in range(self.plan.mergers):
            owner, watch = merger_producer(number), Watch()
            yield self._running(owner, watch, merger_loop(self.plan, number, self._hold, watch=watch))

    def _running(self, owner: Producer, watch: Watch, loop: Loop) -> Running:
        performer = Performer(
            self._client,
            self._store,
            table=self._table,
            orders=lambda: Orders(seal=owner in self._sealing, finish=self._finishing),
            clock_ms=self._clock,
            rest=lambda milliseconds: None,  # turns go round; waiting for input is the engine's affair
        )
        self.watches[owner] = watch

        def perform(effect: Effect) -> object:
            answer = performer(effect)
            if isinstance(effect, PublishManifest) and answer is Publication.PUBLISHED:
                self._sealing.discard(owner)
                self._sealed[owner] = effect.manifest.frontier
            return answer

        return Running(str(owner), loop, perform)

    def _table(self, version: int | None) -> RoutingTable | None:
        return self.table if version in (None, self.table.version) else None

    def _dispatcher_of(self, source: int) -> int:
        return source % self.plan.dispatchers

    def _refuse_damage(self, resumed: Resumed) -> None:
        for owner, frontier in resumed.manifests.items():
            found = next((m for m in self._store.load(owner) if m.frontier == frontier), None)
            if found is None:
                raise DamagedCheckpoint(f"the state of {owner} is missing")
            if any(self._store.get(ref.name) is None for ref in found.blobs):
                raise DamagedCheckpoint(f"a part of the state of {owner} is missing or damaged")

    # --- feeding and running -----------------------------------------------------------------------------------------

    def feed(self, record: SourceBlock | Heartbeat) -> None:
        self.log.append(Address(Topic.SHUFFLED, self._dispatcher_of(record.source)), [record])

    def run_round(self) -> bool:
        return run_round(self._loops)

    def run_until_idle(self) -> None:
        while self.run_round():
            pass

    def reach_end(self) -> None:
        """Every tuple that was fed is handled everywhere: the dispatchers speak once more, and everybody follows."""
        self.run_until_idle()
        last = max(self.dispatchers(), key=lambda progress: progress.epoch).epoch
        while not all(progress.frontier >= last for progress in self._followers()):
            self._clock.advance(HEARTBEAT_MS)
            self.run_until_idle()

    def finish(self) -> None:
        """The input has ended: mergers write what they held back. Behind `reach_end`."""
        self._finishing = True
        self.run_until_idle()

    def seal(self) -> Mapping[Producer, int]:
        """Checkpoint every unit and merger; behind `reach_end`. Returns the frontier of each one's manifest."""
        self._sealing = set(owners_of_state(self.plan))
        while self._sealing:
            if not self.run_round() and self._sealing:
                # Nothing is sealed before every dispatcher has been heard; after a restart that takes a signal.
                self._clock.advance(HEARTBEAT_MS)
        return dict(self._sealed)

    # --- looking -----------------------------------------------------------------------------------------------------

    def dispatchers(self) -> list[DispatcherProgress]:
        found = (self._client.read_progress(dispatcher_producer(n)) for n in range(self.plan.dispatchers))
        return [progress if isinstance(progress, DispatcherProgress) else DispatcherProgress() for progress in found]

    def _followers(self) -> list[JoinerProgress | MergerProgress]:
        return [*self._joiners().values(), *self._mergers()]

    def _joiners(self) -> dict[UnitId, JoinerProgress]:
        found = {unit: self._client.read_progress(joiner_producer(unit)) for unit in self._units}
        return {unit: progress for unit, progress in found.items() if isinstance(progress, JoinerProgress)}

    def _mergers(self) -> list[MergerProgress]:
        found = (self._client.read_progress(merger_producer(number)) for number in range(self.plan.mergers))
        return [progress if isinstance(progress, MergerProgress) else MergerProgress() for progress in found]

    def watermark(self) -> int:
        return min(progress.watermark for progress in self._followers())

    def failed_expressions(self) -> int:
        """Since the beginning, as committed: on entry, in predicates and in the select list."""
        entering = failed_on_entry([progress.fates for progress in self.dispatchers()])
        return entering + sum(progress.failed for progress in self._joiners().values())

    def state_sizes(self) -> dict[str, tuple[int, int]]:
        """Rows (of a merger: groups) and bytes that each unit and merger holds."""
        sizes: dict[str, tuple[int, int]] = {}
        for number in range(self.plan.mergers):
            merger = self.watches[merger_producer(number)].merger
            sizes[str(merger_producer(number))] = (len(merger.groups), merger.size_bytes) if merger else (0, 0)
        for unit in self._units:
            joiner = self.watches[joiner_producer(unit)].joiner
            states = joiner.states.values() if joiner else ()
            sizes[str(unit)] = sum(state.rows for state in states), sum(state.size_bytes for state in states)
        return sizes

    # --- what comes out ----------------------------------------------------------------------------------------------

    def take(self, topic: Topic) -> Iterator[Record]:
        """New records of every partition of an output topic, each once."""
        for address in self._addresses(topic):
            fetched = self._client.read(address, self._read.get(address, 0), 1 << 30)
            self._read[address] = fetched.next_offset
            for _, record in fetched.records:
                yield record
            self.log.trim(address, fetched.next_offset)

    def _addresses(self, topic: Topic) -> list[Address]:
        if topic is not Topic.OUTPUT:
            return [Address(topic, number) for number in range(self.plan.dispatchers)]
        if self.plan.mergers:
            return [Address(topic, f"merger-{number}") for number in range(self.plan.mergers)]
        return [Address(topic, str(unit)) for unit in self._units]

    def trim(self) -> None:
        """Forget what has been handled: this process needs it no more, and a later one begins behind a barrier."""
        for number, progress in enumerate(self.dispatchers()):
            self.log.trim(Address(Topic.SHUFFLED, number), progress.offset)
        self.log.trim(Address(Topic.SIGNALS, 0), keep_signals_from(self.dispatchers()))
        for unit, joiner in self._joiners().items():
            self.log.trim(unit_address(unit), joiner.offset)
        for number, merger in enumerate(self._mergers()):
            self.log.trim(Address(Topic.PARTIALS, number), merger.offset)
