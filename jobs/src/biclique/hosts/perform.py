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
from biclique.tiers.birth import birth
from biclique.tiers.effects import (
    Commit,
    Consult,
    Effect,
    End,
    Fence,
    GetBlob,
    LoadManifests,
    Loop,
    Orders,
    PublishManifest,
    PutBlob,
    Read,
    ReadClock,
    ReadProgress,
    ReadTable,
    Rest,
)


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
    """The birth of a generation in one go, where nobody else starts it; nothing if it has begun before."""
    end = try_start_unit(client, unit, table, lower)
    assert end is End.STOPPED, f"{unit}: {end}, though nobody else starts it"


def try_start_unit(client: LogClient, unit: UnitId, table: RoutingTable, lower: int) -> End:
    """As `birth` ends: another who does the same at once may have fenced this one, and then does it instead."""
    loop: Loop = birth(unit, table, lower)
    answer: Any = None
    while True:
        try:
            effect = loop.send(answer)
        except StopIteration as stop:
            end: End = stop.value
            return end
        match effect:
            case ReadProgress(owner):
                answer = client.read_progress(owner)
            case Fence(producer):
                answer = client.fence(producer)
            case Commit():
                answer = client.commit(effect)
            case _:
                raise AssertionError(f"a birth asks for {effect}")
