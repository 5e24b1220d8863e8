"""A log in memory that behaves as a broker with transactions does, with all that a client can meet.

* A transaction's records take their places when they are sent. Until its marker has reached a partition, read-committed
  readers of that partition stop below its first record (the last stable offset), also for records of others behind it.
* Commit and abort markers take offsets, and reach the partitions one by one, some time after the decision.
* Records of aborted transactions take offsets and are skipped.
* Progress is one more partition of the transaction: it shows once its marker has come.
* `fence` bumps the producer's epoch, aborts what its predecessor had open, and waits for the markers of what was
  decided.
* A transaction left open too long is aborted by the coordinator.
* An acknowledgement can be lost: UNKNOWN, whether the transaction was committed, aborted or is still open.

`chance(what, probability)` decides what goes wrong; `never` gives a log that only does what it should.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import islice
from typing import NamedTuple

from biclique.ports.log import Bounds
from biclique.tiers.effects import Commit, Fetched, Outcome
from biclique.tiers.messages import Address, Producer, Record
from biclique.tiers.progress import Progress
from tests.simulation.carrying import AS_THEY_ARE, Carrying

Chance = Callable[[str, float], bool]


def never(what: str, probability: float) -> bool:
    return False


class State(Enum):
    OPEN = "open"
    COMMITTED = "committed"
    ABORTED = "aborted"


@dataclass(eq=False)
class Transaction:
    """`waiting`: partitions that hold records of it and have no marker yet. `hidden`: its progress has not shown
    yet."""

    request: Commit
    state: State = State.OPEN
    waiting: list[Address] = field(default_factory=list)
    hidden: bool = True


class Entry(NamedTuple):
    """`record` None: a control record."""

    record: Record | None
    transaction: Transaction | None


class Partition:
    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.start = 0
        self.first_open: dict[Transaction, int] = {}

    @property
    def last_stable(self) -> int:
        return min(self.first_open.values(), default=len(self.entries))

    def committed(self, start: int, stop: int) -> Iterator[tuple[int, Record]]:
        for offset in range(start, stop):
            record, transaction = self.entries[offset]
            if record is not None and (transaction is None or transaction.state is State.COMMITTED):
                yield offset, record


class FakeLog:
    def __init__(
        self, rng: random.Random | None = None, chance: Chance = never, carrying: Carrying = AS_THEY_ARE
    ) -> None:
        self.rng, self.chance, self.carrying = rng or random.Random(0), chance, carrying
        self.partitions: dict[Address, Partition] = defaultdict(Partition)
        self.progress: dict[Producer, Progress] = {}
        self.epochs: dict[Producer, int] = {}
        self.fenced_by_timeout: set[tuple[Producer, int]] = set()
        self.current: dict[Producer, Transaction] = {}  # open, or decided with markers under way
        self.aborted = 0

    # --- for its owner -----------------------------------------------------------------------------------------------

    def client(self) -> FakeClient:
        return FakeClient(self)

    def append(self, address: Address, records: Sequence[Record]) -> None:
        self.partitions[address].entries.extend(Entry(self.carrying.record(record), None) for record in records)

    def bounds(self, address: Address) -> Bounds:
        partition = self.partitions[address]
        return Bounds(partition.start, partition.last_stable)

    def written_to(self, address: Address) -> int:
        return len(self.partitions[address].entries)

    def trim(self, address: Address, before: int) -> None:
        partition = self.partitions[address]
        assert before <= len(partition.entries), "trimmed beyond the end"
        partition.start = max(partition.start, before)

    def history(self, address: Address) -> list[tuple[int, Record]]:
        """All that was ever committed, trimmed or not: for the auditor."""
        partition = self.partitions[address]
        return list(partition.committed(0, len(partition.entries)))

    def committed(self) -> list[Commit]:
        """Every transaction that was committed and held any records, in no order."""
        entries = (entry for partition in self.partitions.values() for entry in partition.entries)
        found = {id(t): t.request for _, t in entries if t is not None and t.state is State.COMMITTED}
        return list(found.values())

    def addresses(self) -> list[Address]:
        return list(self.partitions)

    # --- what happens by itself --------------------------------------------------------------------------------------

    def deliver_one(self) -> bool:
        """One marker of one decided transaction reaches one partition."""
        decided = [t for t in self.current.values() if t.state is not State.OPEN]
        if not decided:
            return False
        self._deliver(self.rng.choice(decided))
        return True

    def has_markers_under_way(self, producer: Producer) -> bool:
        transaction = self.current.get(producer)
        return transaction is not None and transaction.state is not State.OPEN

    def settle(self) -> None:
        """Every marker of what was decided arrives. What is open stays open."""
        while self.deliver_one():
            pass

    def time_out_one(self) -> Transaction | None:
        """The coordinator gives up on a transaction that was left open, and on its producer with it."""
        left = [t for t in self.current.values() if t.state is State.OPEN]
        if not left:
            return None
        transaction = self.rng.choice(left)
        producer = transaction.request.producer
        self.fenced_by_timeout.add((producer, self.epochs[producer]))
        self.epochs[producer] += 1
        self._decide(transaction, State.ABORTED)
        return transaction

    # --- inside ------------------------------------------------------------------------------------------------------

    def _decide(self, transaction: Transaction, state: State) -> None:
        assert transaction.state is State.OPEN
        transaction.state = state
        if state is State.ABORTED:
            self.aborted += 1
            transaction.hidden = False  # there is nothing to show
        self._close_if_done(transaction)

    def _deliver(self, transaction: Transaction) -> None:
        at = self.rng.randrange(len(transaction.waiting) + transaction.hidden)
        if at == len(transaction.waiting):
            transaction.hidden = False
            self.progress[transaction.request.owner] = self.carrying.progress(transaction.request.progress)
        else:
            partition = self.partitions[transaction.waiting.pop(at)]
            partition.entries.append(Entry(None, transaction))
            del partition.first_open[transaction]
        self._close_if_done(transaction)

    def _close_if_done(self, transaction: Transaction) -> None:
        if not transaction.waiting and not transaction.hidden:
            del self.current[transaction.request.producer]

    def _finish(self, producer: Producer) -> None:
        """Every marker of what this producer has decided arrives: a broker asks the next request to wait for that."""
        while (transaction := self.current.get(producer)) is not None and transaction.state is not State.OPEN:
            self._deliver(transaction)


class FakeClient:
    def __init__(self, log: FakeLog) -> None:
        self._log = log
        self._epochs: dict[Producer, int] = {}
        self._open: Transaction | None = None

    def fence(self, producer: Producer) -> int:
        log = self._log
        epoch = log.epochs.get(producer, 0) + 1
        log.epochs[producer] = self._epochs[producer] = epoch
        left = log.current.get(producer)
        if left is not None and left.state is State.OPEN:
            log._decide(left, State.ABORTED)
        log._finish(producer)
        return epoch

    def read_progress(self, owner: Producer) -> Progress | None:
        return self._log.progress.get(owner)

    def read(self, address: Address, offset: int, limit: int) -> Fetched:
        """A replica may lag: now and then a reader is shown less than there is."""
        partition = self._log.partitions[address]
        first, stop = max(offset, partition.start), partition.last_stable
        if stop > first and self._log.chance("late reader", 0.1):
            stop = self._log.rng.randrange(first, stop)
        assert limit > 0
        found = tuple(islice(partition.committed(first, stop), limit))
        beyond = found[-1][0] + 1 if len(found) == limit else max(first, stop)
        return Fetched(found, beyond, partition.start, stop)

    def commit(self, transaction: Commit) -> Outcome:
        """In one go; a scheduler that wants to step in between calls `begin` and `end` itself."""
        return self.begin(transaction) or self.end()

    def begin(self, request: Commit) -> Outcome | None:
        """Send the records; the transaction stays open. An answer ends it: FENCED, or UNKNOWN (a send failed for
        good)."""
        log, producer = self._log, request.producer
        assert producer in self._epochs, f"{producer} commits without a fence"
        if refused := self._refused(producer):
            return refused
        log._finish(producer)
        self._open = log.current[producer] = transaction = Transaction(request)
        lost_at = log.rng.randrange(len(request.sends) + 1) if log.chance("lost send", 0.02) else -1
        for number, (address, record) in enumerate(request.sends):
            if number == lost_at:
                return Outcome.UNKNOWN  # some of it is in the log, and open until a fence or the time-out ends it
            partition = log.partitions[address]
            if transaction not in partition.first_open:
                partition.first_open[transaction] = len(partition.entries)
                transaction.waiting.append(address)
            partition.entries.append(Entry(log.carrying.record(record), transaction))
        return None

    def end(self) -> Outcome:
        log, transaction = self._log, self._open
        assert transaction is not None
        self._open = None
        producer = transaction.request.producer
        if refused := self._refused(producer):
            return refused
        if log.chance("lost request", 0.02):
            return Outcome.UNKNOWN  # still open
        log._decide(transaction, State.COMMITTED)
        if not log.chance("slow markers", 0.5):
            log._finish(producer)
        if log.chance("lost acknowledgement", 0.02):
            return Outcome.UNKNOWN  # committed
        return Outcome.COMMITTED

    def _refused(self, producer: Producer) -> Outcome | None:
        """An epoch that the coordinator bumped by itself looks to the client like any failed transaction; only a
        successor's means that there is one."""
        mine = self._epochs[producer]
        if mine == self._log.epochs[producer]:
            return None
        by_timeout = (producer, mine) in self._log.fenced_by_timeout and self._log.epochs[producer] == mine + 1
        return Outcome.UNKNOWN if by_timeout else Outcome.FENCED
