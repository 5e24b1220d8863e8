"""The shuffler as its dispatchers meet it: at least once, with lost sends, retries of a whole task, and zombie tasks.

One task at a time reads a range of one source partition, packs it into blocks and sends them one by one. A task of
which a send was lost is tried again. A restart begins at the dispatcher's progress, and leaves its task behind as a
zombie that may still send. When it has caught up, the driver sends heartbeats by the clock of its present attempt.
"""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from biclique.tiers.messages import UNREAD, Heartbeat, Record, SourceBlock
from biclique.tiers.progress import SourcePartition
from tests.model.evidence import SourceRecord
from tests.simulation.points import Fault, Point
from tests.simulation.strikes import Strikes

BLOCK_RECORDS_MAX = 4


class Surroundings(Protocol):
    now: int
    rng: random.Random
    strikes: Strikes

    def chance(self, what: str, probability: float) -> bool: ...

    def note(self, text: str) -> None: ...


@dataclass
class Task:
    """`blocks`: still to be sent; a retry packs all of them again, and not in the same portions."""

    end: int
    blocks: deque[SourceBlock]
    lost: bool = False


@dataclass
class ShufflerTasks:
    """`records`: what the source partition holds so far. `progress`: the last offset its dispatcher has committed.
    `cut_until`: it can neither read nor send; `answers_only`: what it sends arrives, and it learns nothing of it."""

    world: Surroundings
    key: SourcePartition
    records: list[SourceRecord]
    pack: Callable[[SourcePartition, int, list[SourceRecord]], SourceBlock]
    send: Callable[[Record], None]
    progress: Callable[[], int]
    at: int = 0
    attempt: int = 0
    task: Task | None = None
    unread: bool = False  # begins anew, and has to say first that there is something to be read
    zombies: list[Task] = field(default_factory=list)
    went_through: Counter[tuple[Fault, Point]] = field(default_factory=Counter)
    cut_until: int = 0
    answers_only: bool = False
    clock_stands_at: int = 0
    clock_stands_until: int = 0

    @property
    def point(self) -> Point:
        if self.task is None:
            return Point.P1
        return Point.P3 if self.task.blocks else Point.P4

    def act(self) -> None:
        world = self.world
        if self.key in world.strikes.to_come:
            return
        if world.chance("shuffler", 0.04):
            self.restart()
        if self.zombies and world.chance("zombie task", 0.3):
            self.went_through[Fault.F6, self.point] += 1
            self._send_of(self.zombies[0])
            if not self.zombies[0].blocks:
                self.zombies.pop(0)
        if self.task is not None and self.task.end == len(self.records) and world.chance("early heartbeat", 0.15):
            self._heartbeat()  # the driver has read all of it, and not all has been sent
        if self.task is None and world.strikes.cuts(self.cut_until):
            return
        if self.task is None and self.at < len(self.records) and self.unread:
            self._beat(UNREAD)
            self.unread = False
        elif self.task is None and self.at < len(self.records):
            end = world.rng.randint(self.at + 1, min(len(self.records), self.at + 8))
            self.task = self._task(end)
        elif self.task is None:
            self._heartbeat()
        elif self.task.blocks:
            self._send_of(self.task)
        elif self.task.lost:
            self.task = self._task(self.task.end)
        else:
            self.at, self.task = self.task.end, None

    @property
    def drained(self) -> bool:
        return self.task is None and self.at == len(self.records)

    def restart(self) -> None:
        self.went_through[Fault.F1, self.point] += 1
        if self.task is not None and self.task.blocks:
            self.went_through[Fault.F2, self.point] += 1
            self.zombies.append(self.task)
        seen = self.progress()
        self.at, self.task, self.attempt = sum(r.offset <= seen for r in self.records), None, self.attempt + 1
        self.unread = True
        self.world.note(f"the shuffler of {tuple(self.key)} restarts behind offset {seen}")

    def _task(self, end: int) -> Task:
        blocks: deque[SourceBlock] = deque()
        at, predecessor = self.at, -1
        while at < end:
            part = self.records[at : min(at + self.world.rng.randint(1, BLOCK_RECORDS_MAX), end)]
            strange = any(r.values is None or (r.arrived_us is not None and r.time > r.arrived_us) for r in part)
            self.went_through[Fault.F12, Point.P1] += strange
            blocks.append(self.pack(self.key, predecessor, part))
            predecessor, at = part[-1].offset, at + len(part)
        return Task(end, blocks)

    def _send_of(self, task: Task) -> None:
        block, cut = task.blocks.popleft(), self.world.strikes.cuts(self.cut_until)
        if self.world.chance("lost send of the shuffler", 0.1):
            self.went_through[Fault.F6, Point.P3] += 1
            task.lost = True
            return
        task.lost |= cut
        if not cut or self.answers_only:
            self.send(block)

    def _heartbeat(self) -> None:
        self._beat(self.records[-1].offset if self.records else -1)

    def _beat(self, position: int) -> None:
        skew = self.attempt * 37_000 % 100_000  # each driver has a clock of its own
        stands = self.world.strikes.lasts(self.clock_stands_until)
        now = self.clock_stands_at if stands else self.world.now
        if not self.world.strikes.cuts(self.cut_until):
            self.send(Heartbeat(self.key.source, self.key.partition, position, now + skew, self.attempt))
