"""How far a partition of `<q>.shuffled` may be trimmed, where units may fetch payload from it.

It is kept down to the oldest block that a dispatcher has not taken yet, or that a row refers to which the units'
partitions still hold: those are kept (tiers/trimming.py) down to the oldest block that is unhandled or holds a tuple
which some window can still need, and whatever a unit's state or checkpoint holds beyond matches nothing any more. So
what units keep in memory need not be asked.

A turn's rows and its progress become visible one partition after the other. Whoever sees the progress and not yet the
rows would take the blocks that they refer to for done. So every unit that the dispatcher sends to must show that
everything up to the progress' epoch has come: by the dispatcher's own signal, which stands behind the rows of the same
transaction, or by its frontier. Until then nothing may go. Read the dispatchers' progress first: then this is a matter
of moments.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from biclique.core import payload_places
from biclique.plan.model import PLACE, Plan
from biclique.routing.table import RoutingTable
from biclique.tiers.messages import Address, Block, Record, Signal, unit_address
from biclique.tiers.progress import DispatcherProgress


@dataclass(frozen=True, slots=True)
class Referred:
    """What a unit's partition tells, by dispatcher. `oldest`: the first block of shuffled that its rows refer to;
    `shown`: the epoch up to which everything that the dispatcher has sent is there, or was."""

    oldest: Mapping[int, int]
    shown: Mapping[int, int]


def referred_in(plan: Plan, records: Iterable[tuple[int, Record]], keep: int, frontier: int) -> Referred:
    """`records`: all that the partition holds; `keep`: the first offset that it must keep; `frontier`: as committed by
    the unit that runs on it, -1 if none does."""
    oldest: dict[int, int] = {}
    shown = dict.fromkeys(range(plan.dispatchers), frontier)
    for offset, record in records:
        if isinstance(record, Signal) and record.sender.tier == "dispatcher":
            number = int(record.sender.name)
            shown[number] = max(shown[number], record.epoch)
        elif offset >= keep and isinstance(record, Block) and not record.whole:
            # Rows of one dispatcher stand in stamp order, and so do the blocks that they came in.
            first = np.asarray(record.rows.columns[PLACE].values, np.int64)[:1]
            number, block = payload_places.block(int(payload_places.blocks_of(first)[0]))
            oldest[number] = min(oldest.get(number, block), block)
    return Referred(oldest, shown)


def keep_shuffled_from(
    number: int, progress: DispatcherProgress, table: RoutingTable, partitions: Mapping[Address, Referred]
) -> int:
    """The first offset to keep of one dispatcher's partition. `progress`: read before the partitions; `table`: of its
    version; `partitions`: every one that ever was a unit's."""
    assert table.version == progress.version
    for unit in table.units():
        referred = partitions.get(unit_address(unit))
        if referred is None or referred.shown[number] < progress.epoch:
            return 0
    return min((r.oldest[number] for r in partitions.values() if number in r.oldest), default=progress.offset)
