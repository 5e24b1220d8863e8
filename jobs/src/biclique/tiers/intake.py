"""What a dispatcher has read of its partition of shuffled and not yet taken, in order.

A transaction is bounded by what it sends, and a tuple goes to several units. So a turn takes only as many of the
records that were read as fit its bytes, one at least, and the others wait here for the next.
"""

from __future__ import annotations

from biclique.tiers.effects import Fetched
from biclique.tiers.messages import Heartbeat, SourceBlock

BEAT_BYTES = 64


class Intake:
    """`read_to`: the offset to read on from."""

    def __init__(self, read_to: int) -> None:
        self.read_to = read_to
        self._waiting: tuple[tuple[int, SourceBlock | Heartbeat], ...] = ()

    @property
    def empty(self) -> bool:
        return not self._waiting

    def take(self, fetched: Fetched) -> None:
        assert not self._waiting, "what was read before comes first"
        found: list[tuple[int, SourceBlock | Heartbeat]] = []
        for offset, record in fetched.records:
            assert isinstance(record, SourceBlock | Heartbeat), record
            found.append((offset, record))
        self._waiting, self.read_to = tuple(found), fetched.next_offset

    def first(self, bytes_max: int) -> tuple[list[tuple[int, SourceBlock | Heartbeat]], int]:
        """The first records with their offsets, of so many bytes if they are more than one, and the offset behind
        them."""
        records: list[tuple[int, SourceBlock | Heartbeat]] = []
        size = 0
        for offset, record in self._waiting:
            size += record.nbytes if isinstance(record, SourceBlock) else BEAT_BYTES
            if records and size > bytes_max:
                return records, offset
            records.append((offset, record))
        return records, self.read_to

    def handled(self, count: int) -> None:
        """The first so many have been committed."""
        self._waiting = self._waiting[count:]
