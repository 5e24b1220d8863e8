"""Strikes at named points: every fault of the matrix (points.py), at the points that chance alone seldom meets.

In all runs what strikes is counted by the points at which it found a process. A share of the runs, drawn apart from
everything else so that the others are what they were, has strikes of its own besides: it looks at a process after each
of its steps, and the rarer the point at which it stands, the likelier it is struck. These runs alone know a broker that
is away, one process cut off from the log or from the store, both ways or for the answers only, a clock that stands
still, and a commit that is decided while its answer is still under way.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from enum import Enum
from typing import TYPE_CHECKING

from biclique.tiers.messages import Producer
from biclique.tiers.progress import SourcePartition
from tests.simulation import observer
from tests.simulation.points import TWICE, WHERE, Fault, Point, Stage, pair, points_of

if TYPE_CHECKING:
    from tests.simulation.process import Process
    from tests.simulation.shuffler_tasks import ShufflerTasks
    from tests.simulation.world import World

SHARE = 0.12  # of the seeds
HELD = 0.2  # of their commits: the answer comes later than the decision
APPEARS = 0.05  # a partition that is to come, whenever it would be given a record
AN_HOUR_MS = 3_600_000  # that a clock jumps by, as when somebody sets it
OFTEN, SELDOM = 0.01, 0.08
RARE = frozenset(Point) - {Point.P5, Point.P7, Point.P11, Point.P17}
OF_THE_LOG = {  # what the log does by itself, and at which points of whoever it does it to
    "lost send": (Point.P6, Point.P9),
    "lost request": (Point.P10,),
    "lost acknowledgement": (Point.P10,),
    "slow markers": (Point.P10,),
}


def told(process: Process) -> str:
    return " and ".join(point.value for point in points_of(process)) or "no point of its own"


class Cut(Enum):
    """The records and requests of a process are lost, or only the answers to them."""

    WHOLE = "cut off"
    ANSWERS = "its answers are lost"


class Strikes:
    def __init__(self, world: World) -> None:
        self._world = world
        rng = random.Random(f"{world.seed}/strikes")
        self.rng = rng if rng.random() < SHARE else None
        self.broker_away_until = 0
        self.added: frozenset[SourcePartition] = frozenset()  # partitions that a source topic is given later
        self.to_come: set[SourcePartition] = set()  # those of them that are not there yet

    def begin(self, partitions: Sequence[SourcePartition]) -> None:
        """The first of each source is there from the beginning."""
        if self.rng is not None:
            self.added = frozenset(key for key in partitions if key.partition > 0 and self.rng.random() < 0.5)
            self.to_come = set(self.added)

    def is_there(self, key: SourcePartition) -> bool:
        """Whether it can be given a record; it is a matter of time."""
        if key in self.to_come and (not self._world.faults or self.rng.random() < APPEARS):
            self.to_come.remove(key)
            self._world.happened[pair(Fault.F13, Point.P1)] += self._world.faults
            self._world.note(f"source {key.source} is given partition {key.partition}")
        return key not in self.to_come

    # --- counting, in every run --------------------------------------------------------------------------------------

    def count(self, fault: Fault, struck: Iterable[Process], at: tuple[Point, ...] | None = None) -> None:
        for process in struck:
            for point in points_of(process):
                if point in WHERE[fault] and (at is None or point in at):
                    self._world.happened[pair(fault, point)] += 1

    def of_the_log(self, what: str, process: Process | None) -> None:
        if process is not None and what in OF_THE_LOG:
            self.count(Fault.F6, [process], OF_THE_LOG[what])

    def crash(self, process: Process) -> None:
        self.count(Fault.F1, [process])
        self._world.happened[TWICE] += process.restarted and not process.committed

    def gives_up(self, producer: Producer) -> None:
        """The coordinator, on a transaction of this one."""
        if producer in self._world.processes:
            self.count(Fault.F3, [self._world.processes[producer]])

    def event(self, happened: str) -> None:
        """More input than fits at once: rows over the budget of memory, matches over that of a transaction."""
        if happened in STRANGE:
            self._world.happened[pair(Fault.F12, STRANGE[happened])] += 1

    def everybody(self, fault: Fault) -> None:
        self.count(fault, self._world.processes.values())
        for shuffler in self._world.shufflers:
            self._shuffler(fault, shuffler)

    def trimmed(self, owners: Iterable[Process]) -> list[Process]:
        """Those who are struck by a crash just then."""
        crashed = []
        for process in owners:
            process.trimmed = True
            self.count(Fault.F13, [process])
            if self.at(process):
                crashed.append(process)
        return crashed

    def _shuffler(self, fault: Fault, shuffler: ShufflerTasks) -> None:
        if shuffler.point in WHERE[fault]:
            self._world.happened[pair(fault, shuffler.point)] += 1

    # --- striking, in a share of them --------------------------------------------------------------------------------

    def cuts(self, until: int) -> bool:
        """From the log, of one until then, or of everybody."""
        return self._world.faults and self._world.now < max(until, self.broker_away_until)

    def lasts(self, until: int) -> bool:
        return self._world.faults and self._world.now < until

    def holds_the_answer(self) -> bool:
        return self.rng is not None and self._world.faults and self.rng.random() < HELD

    def at(self, process: Process) -> bool:
        """After a step: perhaps one of the faults that belong to where it stands now. Whether it crashes."""
        rng, world = self.rng, self._world
        if process.stage is None and world.log.has_markers_under_way(process.producer):
            self.count(Fault.F6, [process], (Point.P5, Point.P11))
        if process.stage is Stage.SENDING and process.half_of_a_step:
            world.happened[pair(Fault.F12, Point.P9)] += 1
        if rng is None or not world.faults or process.ended is not None:
            return False
        points = set(points_of(process))
        if not points or rng.random() >= (SELDOM if RARE & points else OFTEN):
            return False
        fault = rng.choice([fault for fault in STRIKES if points.intersection(WHERE[fault])])
        world.note(f"{process.producer} at {told(process)}: {fault.value}")
        self._strike(fault, process, rng)
        return fault is Fault.F1

    def _strike(self, fault: Fault, process: Process, rng: random.Random) -> None:
        world = self._world
        until = world.now + rng.choice((20, 60, 200))
        match fault:
            case Fault.F1:
                pass  # whoever asked sees to it
            case Fault.F2:
                self.count(fault, [process])
                process.paused_until = until
            case Fault.F3:
                self.everybody(fault)
                self.broker_away_until = until
            case Fault.F4:
                self.everybody(fault)
                world.note(world.store.fail(rng))
            case Fault.F5:
                self.count(fault, [process])
                process.cut_until, process.cut = until, rng.choice(list(Cut))
                process.cut_from_store = rng.random() < 0.5
            case Fault.F7:
                self.everybody(fault)
                world.store.harm(rng)
            case Fault.F8:
                self.count(fault, [process])
                if rng.random() < 0.5:
                    process.clock_stands_at, process.clock_stands_until = world.now, until
                else:
                    process.skew = rng.choice((-1, 1)) * rng.choice((rng.randint(10, 3000), AN_HOUR_MS))
            case _:
                raise AssertionError(fault)

    def after(self, shuffler: ShufflerTasks) -> None:
        """An act of its own."""
        for (fault, point), number in shuffler.went_through.items():
            if point in WHERE[fault]:
                self._world.happened[pair(fault, point)] += number
        shuffler.went_through.clear()
        rng, world = self.rng, self._world
        if rng is None or not world.faults or rng.random() >= SELDOM:
            return
        fault, until = rng.choice((Fault.F1, Fault.F3, Fault.F5, Fault.F8)), world.now + rng.choice((20, 60, 200))
        world.note(f"the shuffler of {tuple(shuffler.key)} at {shuffler.point.value}: {fault.value}")
        if fault is Fault.F3:
            self.everybody(fault)
            self.broker_away_until = until
        elif fault is Fault.F1:
            shuffler.restart()
        else:
            self._shuffler(fault, shuffler)
            if fault is Fault.F5:
                shuffler.cut_until, shuffler.answers_only = until, rng.random() < 0.5
            else:
                shuffler.clock_stands_at, shuffler.clock_stands_until = world.now, until


STRANGE = {observer.READ_AGAIN: Point.P7, observer.CURSOR: Point.P8}
STRIKES = (Fault.F1, Fault.F2, Fault.F3, Fault.F4, Fault.F5, Fault.F7, Fault.F8)
