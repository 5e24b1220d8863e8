"""What the dispatchers have taken of the sources, and whether shuffled holds more for them: what was read and sent, and
is on its way.

Where a streaming query begins goes by what was taken, so that it may send again what is on its way; whether records are
lost that a source's retention has removed, only the two together tell (starts.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from biclique.hosts.shuffle.packing import dispatcher_of
from biclique.plan.model import Plan
from biclique.ports.log import Log, LogClient
from biclique.tiers.dispatcher import dispatcher_producer
from biclique.tiers.messages import Address, Topic
from biclique.tiers.progress import DispatcherProgress, SourcePartition


class Taken(NamedTuple):
    """`last`: the place of the last record of each source partition, where there is one. `behind`: the dispatchers of
    `dispatchers` before whom shuffled held more than that."""

    last: Mapping[SourcePartition, int]
    behind: frozenset[int]
    dispatchers: int

    def under_way(self, key: SourcePartition) -> bool:
        return dispatcher_of(key, self.dispatchers) in self.behind


def taken_of(plan: Plan, log: Log, client: LogClient) -> Taken:
    """The ends of shuffled are asked for first: what stood there then, and was taken since, is in `last`."""
    numbers = range(plan.dispatchers)
    ends = [log.written_to(Address(Topic.SHUFFLED, number)) for number in numbers]
    last: dict[SourcePartition, int] = {}
    behind: set[int] = set()
    for number in numbers:
        progress = client.read_progress(dispatcher_producer(number))
        known = progress if isinstance(progress, DispatcherProgress) else DispatcherProgress()
        last |= known.last
        if known.offset < ends[number]:
            behind.add(number)
    return Taken(last, frozenset(behind), plan.dispatchers)
