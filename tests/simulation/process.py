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
from biclique.tiers.effects import Commit, Effect, End, Fetched, Loop, Orders, Outcome, Read
from biclique.tiers.loops import Watch
from biclique.tiers.messages import Address, Producer, Topic
from tests.simulation.coverage import OPEN
from tests.simulation.fake_log import FakeClient, FakeLog
from tests.simulation.observer import Observer


class Surroundings(Protocol):
    """What a process sees of the world."""

    now: int
    log: FakeLog
    store: CheckpointStore

    def chance(self, what: str, probability: float) -> bool: ...

    def orders(self, process: Process) -> Orders: ...

    def table(self, version: int | None) -> RoutingTable | None: ...

    def note(self, text: str) -> None: ...


class Process:
    """`skew`: of this machine's clock. `deaf_until`: till then it learns nothing new from the signals topic.
    `happened`: what the observer saw since the world last looked. `short_reads`: how many more reads of its input bring
    two records at most."""

    def __init__(
        self, world: Surroundings, producer: Producer, make: Callable[[Watch], Loop], skew: int, short_reads: int = 0
    ) -> None:
        self.world, self.producer, self.make, self.skew = world, producer, make, skew
        self.short_reads = short_reads
        self.client: FakeClient = world.log.client()
        self.paused_until = self.deaf_until = self.rests_until = 0
        self.ended: End | None = None
        self.zombie = False
        self._perform = Performer(
            self.client,
            world.store,
            world.table,
            lambda: world.orders(self),
            lambda: world.now + self.skew,
            self._rest,
        )
        self.happened: list[str] = []
        self._observer = Observer(producer)
        self.watch = Watch()
        self._loop = make(self.watch)
        self._open: Commit | None = None
        self._passed: dict[Address, int] = {}  # how far each partition of its input has been read
        self._effect: Effect | None = None
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
    def point(self) -> str:
        """Between which two steps it stands: what it is about to do."""
        return OPEN if self.committing else type(self._effect).__name__

    def step(self) -> None:
        """Perform what the loop has asked for, and let it ask for the next thing."""
        effect, self.rests_until = self._effect, 0
        if isinstance(effect, Commit):
            if self._open is None:
                refused = self.client.begin(effect)
                if refused is None and self.world.chance("stepping in", 0.3):
                    self._open = effect
                    return
                self._resume(refused or self.client.end())
            else:
                self._open = None
                self._resume(self.client.end())
        else:
            assert effect is not None
            self._resume(self._read(effect) if isinstance(effect, Read) else self._perform(effect))

    def _resume(self, answer: Any) -> None:
        if isinstance(answer, Outcome) and answer is not Outcome.COMMITTED:
            self.world.note(f"{self.producer}: the outcome of a commit is {answer.value}")
        asked = self._effect
        try:
            self._effect = self._loop.send(answer)
        except StopIteration as stop:
            self._effect, self.ended = None, stop.value
        if asked is not None:
            self.happened += self._observer.see(asked, answer, self._effect)

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
        """Not the partition of a sibling, from which a unit takes over what was moved to it: more of that is no
        reason to wake up. A unit's own is the first that it reads."""
        known = [mine for mine in self._passed if mine.topic is address.topic]
        return address.topic is not Topic.UNIT or not known or known == [address]

    def _rest(self, milliseconds: int) -> None:
        self.rests_until = self.world.now + milliseconds
