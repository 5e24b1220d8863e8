"""An effect becomes a call of a port: the one place where the loops of tiers/loops.py touch the world.

Clock, orders and routing table come from the host as functions, since each host has its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from biclique.ports.checkpoints import CheckpointStore
from biclique.ports.log import LogClient
from biclique.routing.table import RoutingTable, UnitId
from biclique.tiers.effects import (
    Commit,
    Consult,
    Effect,
    Fence,
    GetBlob,
    LoadManifests,
    Orders,
    Outcome,
    PublishManifest,
    PutBlob,
    Read,
    ReadClock,
    ReadProgress,
    ReadTable,
    Rest,
)
from biclique.tiers.inbox import joiner_producer
from biclique.tiers.progress import start_of


@dataclass(frozen=True, slots=True)
class Performer:
    """Of one process: its own client of the log. `rest` may return earlier than it is asked to."""

    log: LogClient
    store: CheckpointStore
    table: Callable[[int | None], RoutingTable | None]
    orders: Callable[[], Orders]
    clock_ms: Callable[[], int]
    rest: Callable[[int], None]

    def __call__(self, effect: Effect) -> Any:
        match effect:
            case Read(address, offset, limit):
                return self.log.read(address, offset, limit)
            case Commit():
                return self.log.commit(effect)
            case Consult():
                return self.orders()
            case ReadTable(version):
                return self.table(version)
            case ReadClock():
                return self.clock_ms()
            case Rest(milliseconds):
                return self.rest(milliseconds)
            case Fence(producer):
                return self.log.fence(producer)
            case ReadProgress(owner):
                return self.log.read_progress(owner)
            case LoadManifests(owner):
                return self.store.load(owner)
            case GetBlob(name):
                return self.store.get(name)
            case PutBlob(name, data):
                return self.store.put(name, data)
            case PublishManifest(owner, manifest):
                return self.store.publish(owner, manifest)


def start_unit(client: LogClient, unit: UnitId, table: RoutingTable, lower: int) -> None:
    """Write the first progress of a generation, fencing the older ones; nothing if it has begun before."""
    owner, fence = joiner_producer(unit), joiner_producer(unit._replace(generation=0))
    if client.read_progress(owner) is not None:
        return
    client.fence(fence)
    outcome = client.commit(Commit(fence, owner, (), start_of(unit, table, lower)))
    assert outcome is Outcome.COMMITTED, f"{unit}: {outcome}, though nobody else starts it"
