"""How far the upstream log may be trimmed: by progress and window, whatever the checkpoint store holds.

A unit's partition is kept down to the oldest block that is unhandled, or that holds a tuple which the window of its
*owner* can still need, by the watermark at the owner's committed frontier. The owner of moved tuples is the receiver,
also before it has taken them over: it may have to rebuild them from the old owner's partition. Full history keeps
everything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from biclique.plan.model import Plan
from biclique.routing.protocol import Role
from biclique.routing.table import RoutingTable, UnitId
from biclique.tiers.messages import Block, Record
from biclique.tiers.progress import JoinerProgress


def owners(unit: UnitId, table: RoutingTable, running: frozenset[UnitId]) -> frozenset[UnitId]:
    """The running units that own tuples of this unit's partition, or are about to."""
    found = {unit} & running
    for move in table.moves:
        if move.source == unit:
            found |= owners(move.target, table, running)
    return frozenset(found)


def keep_from(
    plan: Plan,
    table: RoutingTable,
    units: Iterable[UnitId],
    running: frozenset[UnitId],
    progress: Mapping[UnitId, JoinerProgress],
    records: Iterable[tuple[int, Record]],
    end: int,
) -> int:
    """The first offset to keep of one unit partition. `units`: every generation that ever used it; `records`: what it
    holds from its start on, in order."""
    units = tuple(units)
    unhandled = min((progress[unit].offset for unit in units if unit in running), default=end)
    needing = frozenset(owner for unit in units for owner in owners(unit, table, running))
    watermark = min((progress[owner].watermark for owner in needing), default=None)
    for offset, record in records:
        if offset >= unhandled:
            return offset
        if watermark is None or not isinstance(record, Block) or record.role is Role.PROBE:
            continue
        window_us = plan.stages[record.stage].sides[record.side].window_us
        if window_us is None or int(record.rows.oldest.max()) >= watermark - window_us:
            return offset
    return unhandled
