"""One run: virtual time, sources, processes, faults, and what is asked of it when the faults have stopped.

Random actions under faults first: records come, shuffler tasks send, processes perform some effects of their loops, the
operator scales, markers arrive, the store forgets, the log is trimmed. Then the faults stop, the sources that are
awake send last ticks, and everything runs until it is quiet. What went in and what came out goes to the auditor.

`World(seed)` decides everything by one random generator, so a seed is a run. What only some seeds have (a focus, see
focus.py; dispatchers that share a process; units whose start may crash; the bytes of dead records) is decided by
generators of its own, so that the runs of the other seeds are not moved by it.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

from biclique.hosts.perform import start_unit
from biclique.kernels.groups import SumOverflow
from biclique.routing.table import RoutingTable, UnitId
from biclique.tiers.dispatcher import HEARTBEAT_MS
from biclique.tiers.effects import End, Orders
from biclique.tiers.inbox import joiner_producer
from biclique.tiers.messages import Address, Producer, Signal, Topic, unit_address
from biclique.tiers.progress import DispatcherProgress, JoinerProgress, SourcePartition
from tests.model.auditor import audit, overflow_violations
from tests.model.bounds import Use
from tests.model.evidence import Evidence, SourceRecord, Violation
from tests.simulation.carrying import carrying_of
from tests.simulation.coverage import A_START, ABORTED, FAULTS, OVERFLOW, TOGETHER, TRIMMED, crash_at, fates
from tests.simulation.dispatcher_logs import DispatcherLogs
from tests.simulation.fake_log import FakeLog
from tests.simulation.faulty_store import FaultyStore
from tests.simulation.focus import focus_of
from tests.simulation.future import Future
from tests.simulation.hosting import Hosting, Tier
from tests.simulation.operator import Kind, Operator
from tests.simulation.points import Fault
from tests.simulation.process import Process
from tests.simulation.scenario import Scenario, scenario_of, varied
from tests.simulation.sealing import unsealed
from tests.simulation.shuffler_tasks import ShufflerTasks
from tests.simulation.store_faults import damage
from tests.simulation.strikes import Strikes, told
from tests.simulation.trimmer import Trimmer

PASSES_MAX = 40
START_CRASHES = 0.2  # at each of its few steps, where units are started slowly
BEGINNINGS_MS = (100_000, 1_790_000_000_000)  # with today's clock a stamp's highest bit is set


@dataclass(frozen=True)
class Starting:
    """A unit that is being born; the table that names it is shown when it is there."""

    unit: UnitId
    lower: int
    table: RoutingTable


class World:
    def __init__(self, seed: int, tracing: bool = False) -> None:
        self.seed, self.rng, self.tracing, self.story = seed, random.Random(seed), tracing, list[str]()
        self.now = self.began = self.rng.choice(BEGINNINGS_MS)
        self.faults, self.finishing, self.sealing = True, False, False
        rates = (0, 0.5, 1, 2)
        self.rates = {kind: self.rng.choice(rates) for kind in FAULTS}  # each run has its own mix of faults
        self.focus = focus_of(seed)
        self.rates |= self.focus.rates
        self.together = random.Random(f"{seed}/hosts").random() < 0.2  # all dispatchers in one process
        self.slow_starts = random.Random(f"{seed}/starts").random() < 0.3
        goes = random.Random(f"{seed}/store comes and goes")
        self.store_goes = goes if goes.random() < 0.3 else None
        self.happened: Counter[str] = Counter()
        self.held: Counter[UnitId] = Counter()  # the most rows that waited in each unit
        self.scenario: Scenario = varied(scenario_of(self.rng, self.focus.query), seed)
        self.future = Future(seed)
        self.scenario = self.future.bounded(replace(self.scenario, **self.focus.settings(self.rng)))
        self.plan = self.scenario.plan
        self.strikes, self.stepping, self.shufflers = Strikes(self), None, list[ShufflerTasks]()
        self.log = FakeLog(self.rng, self.chance, carrying_of(seed, self.plan))
        self.store = FaultyStore(self.rng)
        self.strikes.begin(self.scenario.partitions)
        self.tiers = Hosting(seed, self.scenario, self.focus, self.strikes.to_come)
        self.tables: list[RoutingTable] = [self.tiers.first_table]
        self.lower: dict[UnitId, int] = {}  # every unit that ever ran, and where its life began
        self.left: set[UnitId] = set()
        self.records: dict[SourcePartition, list[SourceRecord]] = {key: [] for key in self.scenario.partitions}
        self.asleep = {key for key in self.records if self.rng.random() < 0.2}
        self.greatest_time = self.scenario.first_time
        self.processes: dict[Producer, Process] = {}
        self.zombies: list[Process] = []
        self.operator = Operator(
            self.plan, self.tables[0], self.scenario.scalable, self.scenario.windowed, self.focus.habits
        )
        self.starting: Starting | None = None
        self._heard_to = 0
        self.trimmer, self.dispatcher_logs = Trimmer(self.plan, self.log), DispatcherLogs(self.plan, self.log)
        for number in range(self.plan.dispatchers):
            self._run(self.tiers.dispatcher(number))
        for unit in self.tables[0].units():
            self._start(unit)
        for number in range(self.plan.mergers):
            self._run(self.tiers.merger(number))
        self.shufflers = [self._shuffler(key) for key in self.records]

    # --- what others ask of the world --------------------------------------------------------------------------------

    def chance(self, what: str, probability: float) -> bool:
        if not self.faults or self.rng.random() >= probability * self.rates[what]:
            return False
        self.happened[f"fault: {what}"] += 1
        self.strikes.of_the_log(what, self.stepping)
        return True

    def note(self, text: str) -> None:
        if self.tracing:
            self.story.append(f"{self.now - self.began:6} {text}")

    def orders(self, process: Process) -> Orders:
        seal = self.faults and self.rng.random() < self.scenario.seal_rate
        known = self.tiers.memory.orders(process, self.now, self.log.progress, self.tables[-1])
        return replace(known, seal=seal or self.sealing, finish=self.finishing)

    def table(self, version: int | None) -> RoutingTable | None:
        """What a process sees of the tables: perhaps not the newest yet."""
        seen = self.tables[-1].version
        if self.chance("stale table", 0.2):
            seen = max(0, seen - self.rng.randrange(3))
        if version is None:
            return self.tables[seen]
        return self.tables[version] if version <= seen else None

    # --- processes ---------------------------------------------------------------------------------------------------

    def _run(self, tier: Tier) -> None:
        producer, make = tier
        skew = round(self.rates["skew"] * self.rng.choice((-300, 0, 300)))
        self.processes[producer] = Process(self, producer, make, skew)

    def _start(self, unit: UnitId) -> None:
        """A generation of a unit begins at the end of its partition."""
        self.lower[unit] = lower = self.log.written_to(unit_address(unit))
        faults, self.faults = self.faults, False  # whoever starts a unit tries until it is done
        start_unit(self.log.client(), unit, self.tables[-1], lower)
        self.faults = faults
        self._run(self.tiers.unit(unit))

    def _start_slowly(self, unit: UnitId, table: RoutingTable) -> None:
        """Whoever starts it may crash between any two steps, or look dead and come back when the unit runs."""
        lower = self.log.written_to(unit_address(unit))
        self.starting = Starting(unit, lower, table)
        self._run(self.tiers.birth(unit, table, lower))

    def _is_starting(self, process: Process) -> bool:
        return self.starting is not None and process.producer == joiner_producer(self.starting.unit)

    def _started(self, done: Starting) -> None:
        self.starting = None
        self.lower[done.unit] = done.lower
        self.tables.append(done.table)
        self._run(self.tiers.unit(done.unit))

    def _restart(self, process: Process, why: str) -> None:
        self.note(f"{process.producer} restarts: {why}")
        short = self.focus.short_reads
        self.processes[process.producer] = Process(self, process.producer, process.make, process.skew, short)
        self.processes[process.producer].restarted = True

    def _crash(self, process: Process) -> None:
        beside = self._beside(process)
        self.happened[TOGETHER] += bool(beside)
        if self._is_starting(process):
            self.happened[A_START] += 1
        zombie = self.rng.random() < 0.4 * bool(self.rates["zombie"])
        until = self.now + self.rng.choice((0, 30, 150, 600)) if zombie else 0
        self.happened["fault: zombie"] += zombie
        for dying in (process, *beside):
            self.strikes.crash(dying)
            if zombie:
                self.strikes.count(Fault.F2, [dying])
            self.happened[crash_at(dying.producer.tier, dying.point)] += 1
            if zombie:
                dying.zombie, dying.paused_until = True, until
                self.zombies.append(dying)
                self._restart(dying, "it only looked dead")
            else:
                self._restart(dying, f"it crashed at {told(dying)}")

    def _beside(self, process: Process) -> list[Process]:
        """What runs in the same process of the operating system: it crashes and stands still together."""
        if not self.together or process.zombie or process.producer.tier != "dispatcher":
            return []
        return [p for p in self.processes.values() if p.producer.tier == "dispatcher" and p is not process]

    def _step(self, process: Process, steps: int) -> None:
        """Some effects of one loop. Between any two of them it may crash, be paused, or end."""
        kind = process.producer.tier
        for _ in range(steps):
            if not process.ready():
                break
            self.stepping = process
            process.step()
            self.stepping = None
            struck = self._look(process)
            if process.ended is not None:
                break
            if struck or (not process.zombie and self.chance(kind, 0.02 if kind == "merger" else 0.01)):
                self._crash(process)
                return
            if self.chance("pause", 0.006):
                self.strikes.count(Fault.F2, [process])
                process.paused_until = self.now + self.rng.choice((30, 100, 400))
                for other in self._beside(process):
                    other.paused_until = process.paused_until
            if kind == "dispatcher" and self.chance("deaf", 0.02):
                process.deaf_until = self.now + self.rng.choice((20, 100, 300, 700))
            if self.chance("clock", 0.004):
                self.strikes.count(Fault.F8, [process])
                process.skew = self.rng.choice((-1, 1)) * self.rng.randint(10, 3000)
                for other in self._beside(process):
                    other.skew = process.skew
        if process.ended is not None:
            self._after(process, process.ended)

    def _look(self, process: Process) -> bool:
        """Count what has happened to a process. Whether the focus of this run strikes it now."""
        starting = self.focus.strikes.get(A_START, START_CRASHES)
        struck = self._is_starting(process) and self.faults and self.rng.random() < starting
        for event in (*process.happened, *self.tiers.memory.look(process)):
            self.happened[event] += 1
            struck = struck or self._strikes(event)
            self.strikes.event(event)
        process.happened.clear()
        if (joiner := process.watch.joiner) is not None:
            self.held[joiner.unit] = max(self.held[joiner.unit], joiner.inbox.rows_held)
        return (self.strikes.at(process) or struck) and not process.zombie

    def _strikes(self, event: str) -> bool:
        chance = self.focus.strikes.get(event)
        return chance is not None and self.faults and self.rng.random() < chance

    def _after(self, process: Process, end: End) -> None:
        self.happened[f"a loop ends: {end.value}"] += 1
        if process.zombie:
            self.note(f"the zombie of {process.producer} ends: {end.value}")
            self.zombies.remove(process)
        elif end is End.LEFT:
            self.note(f"{process.producer} has left")
            del self.processes[process.producer]
            self.left |= {unit for unit in self.lower if joiner_producer(unit) == process.producer}
        elif end is End.STOPPED and self.starting is not None and self._is_starting(process):
            self._started(self.starting)
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
        if self.faults and self.rng.random() < self.focus.falls_asleep:
            self.asleep ^= {key}
        if not self.strikes.is_there(key) or key in self.asleep:
            return
        records, scenario = self.records[key], self.scenario
        offset = (records[-1].offset if records else -1) + self.rng.choice((1, 1, 1, 2))
        time = scenario.time_of(self.now - self.began, key, self.rng, tick)
        arrived_us = scenario.arrival_of(self.now - self.began)
        time = self.future.time(time, arrived_us, tick)
        values = scenario.row(key.source, time, self.rng, tick)
        records.append(SourceRecord(offset, time, values, self.now, self._bytes(key, offset), arrived_us))

    def _bytes(self, key: SourcePartition, offset: int) -> bytes:
        rng = random.Random(f"{self.seed}/{tuple(key)}/{offset}")
        return rng.randbytes(rng.randrange(40))

    # --- the operator, the store, the log ----------------------------------------------------------------------------

    def _operate(self) -> None:
        signals = Address(Topic.SIGNALS, 0)
        fetched = self.log.client().read(signals, self._heard_to, self.rng.randint(1, 40) if self.faults else 1 << 20)
        self._heard_to = fetched.next_offset
        for _, record in fetched.records:
            if isinstance(record, Signal):
                self.operator.hear(record)
        if self.starting is not None:
            return  # the operator waits for the unit, then shows the table
        known = len(self.operator.operations)
        decision = self.operator.act(
            self._unit_progress(), self.left, self.rng, self.faults and self.rng.random() < self.scenario.scaling
        )
        if decision.note:
            self.note(f"the operator: {decision.note}")
        if decision.starts is not None and decision.table is not None and self.slow_starts:
            self._start_slowly(decision.starts, decision.table)
        elif decision.table is not None:
            self.tables.append(decision.table)
            if decision.starts is not None:
                self._start(decision.starts)
        if len(self.operator.operations) > known:
            self._count_scaling(decision.table)
        if decision.ends is not None:
            self._end(decision.ends)

    def _count_scaling(self, table: RoutingTable | None) -> None:
        assert table is not None
        begun = self.operator.operations[-1]
        self.happened[begun.kind.value] += 1
        if begun.kind is Kind.JOIN:
            self.happened["a unit comes back"] += begun.unit.generation > 0
        elif begun.kind is Kind.LEAVE_BY_MOVE:
            self.happened["a move of moved tuples"] += any(move.target == begun.unit for move in table.moves)

    def _unit_progress(self) -> dict[UnitId, JoinerProgress]:
        known = ((unit, self.log.progress.get(joiner_producer(unit))) for unit in self.lower)
        return {unit: progress for unit, progress in known if isinstance(progress, JoinerProgress)}

    def _end(self, unit: UnitId) -> None:
        """Its pod goes, or only looks gone."""
        process = self.processes.pop(joiner_producer(unit), None)
        if process is not None and self.rng.random() < 0.4 * bool(self.rates["zombie"]):
            process.zombie = True
            self.zombies.append(process)

    def _trim(self) -> None:
        """By the rules of tiers/trimming.py and what is committed."""
        progress = self._unit_progress()
        running = frozenset(unit for unit in self.lower if joiner_producer(unit) in self.processes)
        for address in sorted({unit_address(unit) for unit in self.lower}, key=str):
            units = [unit for unit in self.lower if unit_address(unit) == address]
            if self.trimmer.trim_units(address, units, self.tables[-1], running, progress):
                self.happened[TRIMMED] += 1
                owners = [self.processes[joiner_producer(unit)] for unit in units if unit in running]
                for process in self.strikes.trimmed(owners):
                    self._crash(process)
                self._strike_receivers(units)
        self.happened += self.dispatcher_logs.trim(self.tables[-1], progress, self._heard_to)
        self.trimmer.trim_shares()

    def _strike_receivers(self, sources: list[UnitId]) -> None:
        """Those who own what was moved from the units of a partition that has just been trimmed."""
        targets = {joiner_producer(move.target) for move in self.tables[-1].moves if move.source in sources}
        for process in [self.processes[target] for target in sorted(targets) if target in self.processes]:
            if self._strikes(TRIMMED):
                self._crash(process)

    # --- the run -----------------------------------------------------------------------------------------------------

    def act(self) -> None:
        rng = self.rng
        self.now += rng.randint(0, 6)
        for what_more, chance in self.focus.more.items():
            if rng.random() < chance:
                (self._operate if what_more == "operate" else self._trim)()
        what = rng.random()
        if what < 0.16:
            self._produce(rng.choice(list(self.records)))
        elif what < 0.34:
            shuffler = rng.choice(self.shufflers)
            shuffler.act()
            self.strikes.after(shuffler)
        elif what < 0.40:
            self._operate()
        elif what < 0.42:
            damage(self)
        elif what < 0.44:
            self._trim()
        elif what < 0.47:
            self.log.deliver_one()
        elif what < 0.48:
            if self.chance("time-out", 0.5) and (given_up := self.log.time_out_one()):
                self.note(f"a transaction of {given_up.request.producer} times out")
                self.strikes.gives_up(given_up.request.producer)
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
        try:
            for _ in range(self.scenario.actions):
                self.act()
            self.faults = self.store.away = self.store.full = False
            self.note("the faults stop")
            self._settle()
        except SumOverflow as overflow:
            self.note(f"the run stops: {overflow}")
            self.happened[OVERFLOW] += 1
            return list(overflow_violations(self.evidence(), overflow))
        self._count_the_end()
        return audit(self.evidence(), self.use())

    def _count_the_end(self) -> None:
        self.happened[ABORTED] += self.log.aborted
        self.happened["fault: skew"] += any(process.skew for process in self.processes.values())
        self.happened.update(fates(self.log.progress.values()))

    def _settle(self) -> None:
        """The sources that are awake send last ticks, until nothing is under way."""
        self.asleep -= self.scenario.awake
        for process in self.tiers.memory.give(p for p in self.processes.values() if not self._is_starting(p)):
            self._restart(process, "it is given more memory")
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
        """No more records: what is in the logs is handled. A bounded run then writes what mergers hold back. It takes
        long enough for one more signal of everybody: a dispatcher may find only now that it is idle, and another idle
        one hears of it by nothing else."""
        turn = 0
        while turn < 8:
            turn += not self.tiers.memory.under_way(self.processes.values())
            self.finishing = turn > 6 and self.scenario.hold
            self.now += HEARTBEAT_MS // 5
            self.log.settle()
            self._run_until_all_rest()
        self.sealing = True
        for _ in range(3):  # what the store has lost shows with the first
            self.now += 60
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
            began_ms=self.began,
            added=self.strikes.added,
        )

    def use(self) -> Use:
        manifests, blob_rows = self.store.kept()
        wrong = (*self.store.wrong, *unsealed(self.store, self.processes.values()))
        return Use(self.tiers.limits, tuple(self.log.committed()), self.held, manifests, blob_rows, wrong)

    def _unfinished(self, announced: bool) -> Iterator[str]:
        if not announced:
            yield f"version {self.tables[-1].version} is not announced by all"
        if self.starting is not None:
            yield f"the start of {self.starting.unit} does not end"
        for operation in self.operator.operations:
            yield f"operation {operation.kind.value} of {operation.unit} does not end"
