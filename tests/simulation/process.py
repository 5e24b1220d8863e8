"""A process: one incarnation of a loop, driven effect by effect in virtual time. It can be dropped, paused, or kept
as a zombie.

Between asking for an effect and getting its answer anything can happen: the scheduler then simply does not come back,
or comes back much later. A commit is two steps, so that its transaction can be found open.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from biclique.hosts.perform import Performer
from biclique.ports.checkpoints import CheckpointStore
from biclique.routing.table import RoutingTable
from biclique.tiers.effects import (
    Commit,
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
    PublishManifest,
    PutBlob,
    Read,
    ReadProgress,
)
from biclique.tiers.loops import Watch
from biclique.tiers.messages import Address, Producer, Topic
from tests.simulation.coverage import OPEN
from tests.simulation.fake_log import FakeClient, FakeLog
from tests.simulation.observer import Observer
from tests.simulation.points import Stage, ends_midway
from tests.simulation.strikes import Cut, Strikes

STORE = (LoadManifests, GetBlob, PutBlob, PublishManifest)
BLOCKED_MS = 10  # between two tries of a request to a broker that does not answer


class Surroundings(Protocol):
    """What a process sees of the world."""

    now: int
    log: FakeLog
    store: CheckpointStore
    strikes: Strikes

    def chance(self, what: str, probability: float) -> bool: ...

    def orders(self, process: Process) -> Orders: ...

    def table(self, version: int | None) -> RoutingTable | None: ...

    def note(self, text: str) -> None: ...


class Process:
    """`skew`: of this machine's clock. `deaf_until`: till then it learns nothing new from the signals topic.
    `happened`: what the observer saw since the world last looked. `short_reads`: how many more reads of its input bring
    two records at most. `stage`, `last`, `half`, `trimmed`: where it stands (points.py). `cut`: how, until `cut_until`,
    from the log or else from the store."""

    def __init__(
        self, world: Surroundings, producer: Producer, make: Callable[[Watch], Loop], skew: int, short_reads: int = 0
    ) -> None:
        self.world, self.producer, self.make, self.skew = world, producer, make, skew
        self.short_reads = short_reads
        self.client: FakeClient = world.log.client()
        self.paused_until = self.deaf_until = self.rests_until = self.cut_until = 0
        self.cut, self.cut_from_store = Cut.WHOLE, False
        self.clock_stands_at = self.clock_stands_until = 0
        self.ended: End | None = None
        self.zombie = self.restarted = self.committed = False
        self.stage: Stage | None = None
        self.last: tuple[Effect | None, Any] = None, None
        self.half = self.trimmed = False
        self._perform = Performer(
            self.client,
            world.store,
            world.table,
            lambda: world.orders(self),
            self._clock_ms,
            self._rest,
        )
        self.happened: list[str] = []
        self._observer = Observer(producer)
        self.watch = Watch()
        self._loop = make(self.watch)
        self._open: Commit | None = None
        self._passed: dict[Address, int] = {}  # how far each partition of its input has been read
        self._held: Outcome | None = None  # decided, and the answer is under way
        self.effect: Effect | None = None
        self._resume(None)

    def ready(self) -> bool:
        """Whether stepping may lead to anything: no rest, or a reason to end it early."""
        now = self.world.now
        if self.ended is not None or now < self.paused_until:
            return False
        return now >= self.rests_until or self.has_something_to_read()

    def has_something_to_read(self) -> bool:
        partitions = self.world.log.partitions
        deaf = self.world.now < self.deaf_until
        return any(
            partitions[address].last_stable > passed
            for address, passed in self._passed.items()
            if not (deaf and address.topic is Topic.SIGNALS)
        )

    @property
    def committing(self) -> bool:
        return self._open is not None

    @property
    def half_of_a_step(self) -> bool:
        return isinstance(self.effect, Commit) and ends_midway(self.effect.progress)

    @property
    def point(self) -> str:
        """Between which two steps it stands: what it is about to do."""
        return OPEN if self.committing else type(self.effect).__name__

    def step(self) -> None:
        """Perform what the loop has asked for, and let it ask for the next thing."""
        effect, self.rests_until, self.trimmed = self.effect, 0, False
        assert effect is not None
        cut = self.world.strikes.cuts(0 if self.cut_from_store else self.cut_until)
        if isinstance(effect, Commit):
            self._commit(effect, cut)
        elif cut and isinstance(effect, Fence | ReadProgress):
            self._rest(BLOCKED_MS)
        elif cut and isinstance(effect, Read):
            self._resume(Fetched((), effect.offset, self.world.log.bounds(effect.address).start, effect.offset))
        elif self.cut_from_store and self.world.strikes.lasts(self.cut_until):
            self._resume(self._without_store(effect))
        else:
            self._resume(self._read(effect) if isinstance(effect, Read) else self._perform(effect))

    def _commit(self, effect: Commit, cut: bool) -> None:
        """Three steps, between which anything may happen: records sent, asked for, answered."""
        if self._held is not None:
            outcome, self._held = self._held, None
            self._resume(outcome)
        elif self._open is not None:
            self._open, self.stage = None, Stage.ASKED
            if cut and self.cut is Cut.WHOLE:
                self._resume(Outcome.UNKNOWN)
                return
            outcome = self.client.end()
            if self.world.strikes.holds_the_answer():
                self._held = outcome
            else:
                self._resume(Outcome.UNKNOWN if cut else outcome)
        elif cut and self.cut is Cut.WHOLE:
            self._resume(Outcome.UNKNOWN)
        else:
            self.stage = Stage.SENDING
            refused = self.client.begin(effect)
            if refused is None and self.world.chance("stepping in", 0.3):
                self._open = effect
                return
            self.stage = Stage.ASKED
            outcome = refused or self.client.end()
            self._resume(Outcome.UNKNOWN if cut else outcome)

    def _without_store(self, effect: Effect) -> Any:
        """As the patient store answers in its place; what was asked for may have been done."""
        answer = self._perform(effect) if self.cut is Cut.ANSWERS or not isinstance(effect, STORE) else None
        match effect:
            case LoadManifests():
                return ()
            case GetBlob():
                return None
            case PutBlob():
                return False
            case PublishManifest():
                return Publication.UNAVAILABLE
        return answer

    def _resume(self, answer: Any) -> None:
        if isinstance(answer, Outcome) and answer is not Outcome.COMMITTED:
            self.world.note(f"{self.producer}: the outcome of a commit is {answer.value}")
        asked, self.stage = self.effect, None
        self.last = asked, answer
        if isinstance(asked, Commit) and answer is Outcome.COMMITTED:
            self.committed, self.half = True, ends_midway(asked.progress)
        try:
            self.effect = self._loop.send(answer)
        except StopIteration as stop:
            self.effect, self.ended = None, stop.value
        if asked is not None:
            self.happened += self._observer.see(asked, answer, self.effect)

    def _read(self, effect: Read) -> Fetched:
        deaf = effect.address.topic is Topic.SIGNALS and self.world.now < self.deaf_until
        if deaf:
            start = self.world.log.bounds(effect.address).start
            return Fetched((), effect.offset, start, effect.offset)
        limit = effect.limit
        if self.short_reads and effect.address.topic in (Topic.UNIT, Topic.PARTIALS):
            self.short_reads, limit = self.short_reads - 1, min(limit, 2)
        fetched = self.client.read(effect.address, effect.offset, limit)
        if self._is_input(effect.address):
            self._passed[effect.address] = fetched.next_offset
        return fetched

    def _is_input(self, address: Address) -> bool:
        """Not the partition of a sibling, from which a unit takes over what was moved to it, nor shuffled, from which
        it fetches payload: more of that is no reason to wake up. A unit's own is the first that it reads."""
        if address.topic is Topic.SHUFFLED:
            return self.producer.tier == "dispatcher"
        known = [mine for mine in self._passed if mine.topic is address.topic]
        return address.topic is not Topic.UNIT or not known or known == [address]

    def _clock_ms(self) -> int:
        stands = self.world.strikes.lasts(self.clock_stands_until)
        return (self.clock_stands_at if stands else self.world.now) + self.skew

    def _rest(self, milliseconds: int) -> None:
        self.rests_until = self.world.now + milliseconds
