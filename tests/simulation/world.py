"""One run: virtual time, sources, processes, faults, and what is asked of it when the faults have stopped.

Random actions under faults first: records come, shuffler tasks send, processes perform some effects of their loops, the
operator scales, markers arrive, the store forgets, the log is trimmed. Then the faults stop, the sources that are
awake send last ticks, and everything runs until it is quiet. What went in and what came out goes to the auditor.

`World(seed)` decides everything by one random generator, so a seed is a run.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

from biclique.hosts.perform import start_unit
from biclique.ports.memory import MemoryStore
from biclique.routing.table import RoutingTable, UnitId
from biclique.tiers.effects import End, Orders
from biclique.tiers.inbox import joiner_producer
from biclique.tiers.messages import Address, Producer, Signal, Topic, unit_address
from biclique.tiers.progress import DispatcherProgress, JoinerProgress, SourcePartition
from tests.model.auditor import audit
from tests.model.evidence import Evidence, SourceRecord, Violation
from tests.simulation.byte_bounds import byte_bounds_of
from tests.simulation.fake_log import FakeLog
from tests.simulation.faulty_store import FaultyStore
from tests.simulation.hosting import Hosting
from tests.simulation.operator import Operator
from tests.simulation.process import Process
from tests.simulation.scenario import Scenario, scenario_of, with_count_windows
from tests.simulation.shuffler_tasks import ShufflerTasks

FAULTS = (
    "shuffler",
    "zombie task",
    "lost send of the shuffler",
    "early heartbeat",
    "clock",
    "skew",
    "dispatcher",
    "joiner",
    "merger",
    "zombie",
    "pause",
    "deaf",
    "stale table",
    "stepping in",
    "late reader",
    "lost send",
    "lost request",
    "lost acknowledgement",
    "slow markers",
    "time-out",
    "store rolls back",
    "store loses",
    "store damages",
)
PASSES_MAX = 40
BEGINNINGS_MS = (100_000, 1_790_000_000_000)  # with today's clock a stamp's highest bit is set


class World:
    def __init__(self, seed: int, tracing: bool = False) -> None:
        self.seed, self.rng, self.tracing, self.story = seed, random.Random(seed), tracing, list[str]()
        self.now = self.began = self.rng.choice(BEGINNINGS_MS)
        self.faults, self.finishing = True, False
        rates = (0, 0.5, 1, 2)
        self.rates = {kind: self.rng.choice(rates) for kind in FAULTS}  # each run has its own mix of faults
        apart = random.Random(f"{seed}/count-window")
        self.scenario: Scenario = with_count_windows(scenario_of(self.rng), apart)
        self.plan = self.scenario.plan
        self.log = FakeLog(self.rng, self.chance)
        self.store: MemoryStore = FaultyStore(self.rng)
        self.tiers = Hosting(self.scenario, byte_bounds_of(seed))
        self.tables: list[RoutingTable] = [self.tiers.first_table]
        self.lower: dict[UnitId, int] = {}  # every unit that ever ran, and where its life began
        self.left: set[UnitId] = set()
        self.records: dict[SourcePartition, list[SourceRecord]] = {key: [] for key in self.scenario.partitions}
        self.asleep = {key for key in self.records if self.rng.random() < 0.2}
        self.greatest_time = self.scenario.first_time
        self.processes: dict[Producer, Process] = {}
        self.zombies: list[Process] = []
        self.operator = Operator(self.plan, self.tables[0], self.scenario.scalable, self.scenario.windowed)
        self._heard_to = 0
        for number in range(self.plan.dispatchers):
            self._run(self.tiers.dispatcher(number))
        for unit in self.tables[0].units():
            self._start(unit)
        for number in range(self.plan.mergers):
            self._run(self.tiers.merger(number))
        self.shufflers = [self._shuffler(key) for key in self.records]

    # --- what others ask of the world --------------------------------------------------------------------------------

    def chance(self, what: str, probability: float) -> bool:
        return self.faults and self.rng.random() < probability * self.rates[what]

    def note(self, text: str) -> None:
        if self.tracing:
            self.story.append(f"{self.now - self.began:6} {text}")

    def orders(self, process: Process) -> Orders:
        seal = self.faults and self.rng.random() < self.scenario.seal_rate
        return Orders(seal=seal, finish=self.finishing)

    def table(self, version: int | None) -> RoutingTable | None:
        """What a process sees of the tables: perhaps not the newest yet."""
        seen = self.tables[-1].version
        if self.chance("stale table", 0.2):
            seen = max(0, seen - self.rng.randrange(3))
        if version is None:
            return self.tables[seen]
        return self.tables[version] if version <= seen else None

    # --- processes ---------------------------------------------------------------------------------------------------

    def _run(self, tier: tuple[Producer, Callable[[], object]]) -> None:
        producer, make = tier
        skew = round(self.rates["skew"] * self.rng.choice((-300, 0, 300)))
        self.processes[producer] = Process(self, producer, make, skew)  # type: ignore[arg-type]

    def _start(self, unit: UnitId) -> None:
        """A generation of a unit begins at the end of its partition."""
        self.lower[unit] = lower = self.log.bounds(unit_address(unit)).end
        faults, self.faults = self.faults, False  # whoever starts a unit tries until it is done
        start_unit(self.log.client(), unit, self.tables[-1], lower)
        self.faults = faults
        self._run(self.tiers.unit(unit))

    def _restart(self, process: Process, why: str) -> None:
        self.note(f"{process.producer} restarts: {why}")
        self.processes[process.producer] = Process(self, process.producer, process.make, process.skew)

    def _crash(self, process: Process) -> None:
        if self.rng.random() < 0.4 * bool(self.rates["zombie"]):
            process.zombie = True
            process.paused_until = self.now + self.rng.choice((0, 30, 150, 600))
            self.zombies.append(process)
            self._restart(process, "it only looked dead")
        else:
            self._restart(process, "it crashed" + (", its transaction open" if process.committing else ""))

    def _step(self, process: Process, steps: int) -> None:
        """Some effects of one loop. Between any two of them it may crash, be paused, or end."""
        kind = process.producer.tier
        for _ in range(steps):
            if not process.ready():
                break
            process.step()
            if process.ended is not None:
                break
            if not process.zombie and self.chance(kind, 0.02 if kind == "merger" else 0.01):
                self._crash(process)
                return
            if self.chance("pause", 0.006):
                process.paused_until = self.now + self.rng.choice((30, 100, 400))
            if kind == "dispatcher" and self.chance("deaf", 0.02):
                process.deaf_until = self.now + self.rng.choice((20, 100, 300, 700))
            if self.chance("clock", 0.004):
                process.skew = self.rng.choice((-1, 1)) * self.rng.randint(10, 3000)
        if process.ended is not None:
            self._after(process, process.ended)

    def _after(self, process: Process, end: End) -> None:
        if process.zombie:
            self.note(f"the zombie of {process.producer} ends: {end.value}")
            self.zombies.remove(process)
        elif end is End.LEFT:
            self.note(f"{process.producer} has left")
            del self.processes[process.producer]
            self.left |= {unit for unit in self.lower if joiner_producer(unit) == process.producer}
        else:
            self._restart(process, end.value)

    # --- sources -----------------------------------------------------------------------------------------------------

    def _shuffler(self, key: SourcePartition) -> ShufflerTasks:
        dispatcher = self.scenario.dispatcher_of(key)
        address = Address(Topic.SHUFFLED, dispatcher)

        def progress() -> int:
            known = self.log.progress.get(Producer("dispatcher", str(dispatcher)))
            return known.last.get(key, -1) if isinstance(known, DispatcherProgress) else -1

        return ShufflerTasks(
            self, key, self.records[key], self.tiers.pack, lambda record: self.log.append(address, [record]), progress
        )

    def _produce(self, key: SourcePartition, tick: bool = False) -> None:
        if self.faults and self.rng.random() < 0.06:
            self.asleep ^= {key}
        if key in self.asleep:
            return
        records, scenario = self.records[key], self.scenario
        offset = (records[-1].offset if records else -1) + self.rng.choice((1, 1, 1, 2))
        time = scenario.time_of(self.now - self.began, key, self.rng, tick)
        values = scenario.row(key.source, time, self.rng, tick)
        records.append(SourceRecord(offset, time, values, self.now))

    # --- the operator, the store, the log ----------------------------------------------------------------------------

    def _operate(self) -> None:
        signals = Address(Topic.SIGNALS, 0)
        fetched = self.log.client().read(signals, self._heard_to, self.rng.randint(1, 40) if self.faults else 1 << 20)
        self._heard_to = fetched.next_offset
        for _, record in fetched.records:
            if isinstance(record, Signal):
                self.operator.hear(record)
        decision = self.operator.act(
            self._unit_progress(), self.left, self.rng, self.faults and self.rng.random() < self.scenario.scaling
        )
        if decision.note:
            self.note(f"the operator: {decision.note}")
        if decision.table is not None:
            self.tables.append(decision.table)
        if decision.starts is not None:
            self._start(decision.starts)
        if decision.ends is not None:
            self._end(decision.ends)

    def _unit_progress(self) -> dict[UnitId, JoinerProgress]:
        known = ((unit, self.log.progress.get(joiner_producer(unit))) for unit in self.lower)
        return {unit: progress for unit, progress in known if isinstance(progress, JoinerProgress)}

    def _end(self, unit: UnitId) -> None:
        """Its pod goes, or only looks gone."""
        process = self.processes.pop(joiner_producer(unit), None)
        if process is not None and self.rng.random() < 0.4 * bool(self.rates["zombie"]):
            process.zombie = True
            self.zombies.append(process)

    def _damage_store(self) -> None:
        store = self.store
        assert isinstance(store, FaultyStore)
        done: str | None = None
        if self.chance("store rolls back", 0.1):
            done = store.roll_back()
        elif self.chance("store loses", 0.1):
            done = self.rng.choice((store.lose_everything, store.lose_blob, store.lose_manifests))()
        elif self.chance("store damages", 0.2):
            done = self.rng.choice((store.truncate_blob, store.corrupt_blob))()
        elif self.rng.random() < 0.2:
            store.remember()
        if done:
            self.note(done)

    def _trim(self) -> None:
        """Each unit partition, by the rule of tiers/trimming.py and what is committed."""
        progress = self._unit_progress()
        running = frozenset(unit for unit in self.lower if joiner_producer(unit) in self.processes)
        for address in {unit_address(unit) for unit in self.lower}:
            units = [unit for unit in self.lower if unit_address(unit) == address]
            partition = self.log.partitions[address]
            end = partition.last_stable
            held = partition.committed(partition.start, end)
            before = self.tiers.keep_from(self.tables[-1], units, running, progress, held, end)
            self.log.trim(address, min(before, end))

    # --- the run -----------------------------------------------------------------------------------------------------

    def act(self) -> None:
        rng = self.rng
        self.now += rng.randint(0, 6)
        what = rng.random()
        if what < 0.16:
            self._produce(rng.choice(list(self.records)))
        elif what < 0.34:
            rng.choice(self.shufflers).act()
        elif what < 0.40:
            self._operate()
        elif what < 0.42:
            self._damage_store()
        elif what < 0.44:
            self._trim()
        elif what < 0.47:
            self.log.deliver_one()
        elif what < 0.48:
            if self.chance("time-out", 0.5) and (given_up := self.log.time_out_one()):
                self.note(f"a transaction of {given_up.request.producer} times out")
        else:
            tiers = rng.random()
            if tiers < 0.1 and self.zombies:
                self._step(rng.choice(self.zombies), rng.randint(1, 20))
                return
            kinds = ("dispatcher",) if tiers < 0.5 else ("joiner", "merger")
            ready = [p for p in self.processes.values() if p.producer.tier in kinds and p.ready()]
            if ready:
                self._step(rng.choice(ready), rng.randint(1, 12))

    def run(self) -> list[Violation]:
        for _ in range(self.scenario.actions):
            self.act()
        self.faults = False
        self.note("the faults stop")
        self._settle()
        return audit(self.evidence())

    def _settle(self) -> None:
        """The sources that are awake send last ticks, until nothing is under way."""
        self.asleep -= self.scenario.awake
        quiet = 0
        for _ in range(60):
            self.now += 60
            for key in self.records:
                self._produce(key, tick=True)
            for shuffler in self.shufflers:
                for _ in range(12):
                    shuffler.act()
                    if shuffler.drained:
                        break
                shuffler.act()  # a heartbeat, or one more send
            while self.log.time_out_one():
                pass
            self.log.settle()
            self._run_until_all_rest()
            self._operate()
            quiet += all(s.drained for s in self.shufflers) and not self.operator.operations
            if quiet > 6:
                break
        self._drain()

    def _run_until_all_rest(self) -> None:
        """A loop rests when it finds nothing to do; one with very many matches to emit takes some more passes."""
        for _ in range(PASSES_MAX):
            busy = False
            for process in [*self.zombies, *self.processes.values()]:
                process.paused_until = process.deaf_until = 0
                self._step(process, 200)
                busy |= process.ended is None and process.rests_until <= self.now
            if not busy:
                return

    def _drain(self) -> None:
        """No more records: what is in the logs is handled. A bounded run then writes what mergers hold back."""
        for turn in range(8):
            self.finishing = turn >= 6 and self.scenario.hold
            self.now += 60
            self.log.settle()
            self._run_until_all_rest()

    def evidence(self) -> Evidence:
        reach = self.operator.reach()
        return Evidence(
            plan=self.plan,
            sources=self.records,
            dispatcher_of={key: self.scenario.dispatcher_of(key) for key in self.records},
            logs={address: self.log.history(address) for address in self.log.addresses()},
            progress=dict(self.log.progress),
            tables=self.tables,
            lower=self.lower,
            stage_switch=reach.stage_switch if reach else self.tables[-1].stage_switch,
            unfinished=list(self._unfinished(reach is not None)),
            asleep=frozenset(self.asleep),
            finished=self.finishing,
        )

    def _unfinished(self, announced: bool) -> Iterator[str]:
        if not announced:
            yield f"version {self.tables[-1].version} is not announced by all"
        for operation in self.operator.operations:
            yield f"operation {operation.kind.value} of {operation.unit} does not end"
