"""The log as the loops need it: partitions of records, transactions that hold records and progress together, and
fences.

What every implementation guarantees (tests/conformance/test_log.py runs the same suite over each):
* offsets of a partition only grow; a record keeps its offset; control records may take offsets in between;
* a reader sees the records of committed transactions only, in the order of their offsets, and nothing at or above the
  last stable offset: what it has passed can never change behind its back;
* a transaction is all or nothing: its records, in every partition, and its owner's progress;
* `fence` ends what an older client of the same producer had begun, and from then on that client cannot commit. What the
  older client did commit is readable, progress included, before `fence` returns.

A *client* belongs to one process: it holds the incarnations that this process was given. A process that comes back
from a long pause therefore still has its old client, and is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from biclique.tiers.effects import Commit, Fetched, Outcome
from biclique.tiers.messages import Address, Producer, Record
from biclique.tiers.progress import Progress


class Bounds(NamedTuple):
    """The log holds offsets from `start` (what is below has been trimmed) up to, not including, `end`: so far it can be
    read by now; behind may stand what is not decided yet, or hidden by that."""

    start: int
    end: int


class LogClient(Protocol):
    """One process's connection: what the loops' effects are performed with."""

    def fence(self, producer: Producer) -> int:
        """The incarnation: greater than every earlier one of this producer. Call it before reading progress."""

    def read_progress(self, owner: Producer) -> Progress | None:
        """As committed with the owner's last transaction; None if there was none."""

    def read(self, address: Address, offset: int, limit: int) -> Fetched:
        """Committed records at or above `offset`; from `Fetched.start` on where the log was trimmed beyond it."""

    def commit(self, transaction: Commit) -> Outcome:
        """Needs a `fence` of `transaction.producer` by this client before."""


class Log(Protocol):
    """The log as its owner sees it: who starts processes, feeds the shuffled topic and trims."""

    def client(self) -> LogClient: ...

    def append(self, address: Address, records: Sequence[Record]) -> None:
        """Outside every transaction, as the shuffler's sink writes: at least once is all that its callers need."""

    def bounds(self, address: Address) -> Bounds: ...

    def written_to(self, address: Address) -> int:
        """Everything that was ever committed by now is below it, though readers may not see it yet; what is sent from
        now on is not."""

    def trim(self, address: Address, before: int) -> None:
        """Records below `before` are gone. Never beyond the end; trimming to where it was trimmed already does
        nothing."""
