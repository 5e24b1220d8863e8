"""How far the upstream log may be trimmed: by progress and window, whatever the checkpoint store holds.

A unit's partition is kept down to the oldest block that is unhandled, or that holds a tuple which the window of its
*owner* can still need, by the watermark at the owner's committed frontier. The owner of moved tuples is the receiver,
also before it has taken them over: it may have to rebuild them from the old owner's partition. Full history keeps
everything.

Where windows count tuples, what can still be needed goes by rank, and a replay has to rank the rows that it finds: with
the oldest block also those signals are kept that tell how many tuples came before its rows, from each dispatcher the
first that tells of its first epoch or a later one. One that ran ahead said so long before the block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from biclique.core.ranks import Counts, Totals
from biclique.plan.model import Plan
from biclique.routing.protocol import Role
from biclique.routing.table import RoutingTable, UnitId
from biclique.tiers.messages import Address, Block, Partials, Producer, Record, Signal, Topic
from biclique.tiers.progress import DispatcherProgress, JoinerProgress
from biclique.tiers.ranking import ranked, take_totals, totals_of
from biclique.tiers.state import oldest_needed

TRIMMER = "trimmer"  # the tier of those who own a TrimProgress
FOREVER = 1 << 62  # above every watermark


def owners(unit: UnitId, table: RoutingTable, running: frozenset[UnitId]) -> frozenset[UnitId]:
    """The running units that own tuples of this unit's partition, or are about to."""
    found = {unit} & running
    for move in table.moves:
        if move.source == unit:
            found |= owners(move.target, table, running)
    return frozenset(found)


class Need(NamedTuple):
    """Of one unit partition. `watermark`, `counted`: the least of those who own its tuples; None: nobody does."""

    unhandled: int  # the oldest offset that somebody has yet to handle
    watermark: int | None
    counted: Counts


def need_of(
    table: RoutingTable,
    units: Iterable[UnitId],
    running: frozenset[UnitId],
    progress: Mapping[UnitId, JoinerProgress],
    end: int,
) -> Need | None:
    """`units`: every generation that ever used the partition; `end`: of the partition. None: one has only begun, and
    its progress does not show yet: nothing may go."""
    units = tuple(units)
    needing = frozenset(owner for unit in units for owner in owners(unit, table, running))
    if not needing <= progress.keys():
        return None
    return Need(
        min((progress[unit].offset for unit in units if unit in running), default=end),
        min((progress[owner].watermark for owner in needing), default=None),
        tuple(map(min, zip(*(progress[owner].counted for owner in needing), strict=False))),
    )


def needed_until(plan: Plan, record: Record) -> int | None:
    """The greatest watermark at which somebody may still ask for something that the record brought; None: it holds
    nothing that outlives its handling. FOREVER also where a watermark alone does not tell."""
    match record:
        case Block() if record.role is not Role.PROBE and len(record.rows):
            side = plan.stages[record.stage].sides[record.side]
            if side.count_window is not None or side.window_us is None:
                return FOREVER
            return int(record.rows.oldest.max()) + side.window_us
        case Partials() if len(record.newest):
            # A group is forgotten when the watermark has come to the end of its window, and what is written once by
            # other rules depends on all that was written before.
            tumble_us = plan.query.tumble_us
            return FOREVER if tumble_us is None else int(np.asarray(record.keys[-1].values).max()) + tumble_us
        case _:
            return None


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
    records = tuple(records)
    totals = totals_of(plan)
    for offset, record in records:
        if totals is not None and isinstance(record, Signal):
            take_totals(totals, offset, record)
    need = need_of(table, units, running, progress, end)
    if need is None:
        return 0
    unhandled, watermark, counted = need
    for offset, record in records:
        if offset >= unhandled:
            return _with_totals(offset, totals, records)
        if watermark is None or not isinstance(record, Block) or record.role is Role.PROBE:
            continue
        side = plan.stages[record.stage].sides[record.side]
        bound = oldest_needed(side, watermark, counted)
        rows = ranked(record.rows, side, totals)
        if bound is None or int((rows.ordinals[0] if rows.ordinals else rows.oldest).max()) >= bound:
            return _with_totals(offset, totals, records)
    return unhandled


def _with_totals(keep: int, totals: Totals | None, records: Sequence[tuple[int, Record]]) -> int:
    """No later than the signals that rank the rows behind it."""
    if totals is None:
        return keep
    stored = (r for at, r in records if at >= keep and isinstance(r, Block) and r.role is not Role.PROBE)
    first = min((record.epoch for record in stored), default=None)
    told = None if first is None else totals.earliest_above(first - 1)
    return keep if told is None else min(keep, told)


def first_needed(plan: Plan, records: Iterable[tuple[int, Record]], watermark: int) -> int | None:
    """As a log finds it that keeps `needed_until` of each record."""
    for offset, record in records:
        until = needed_until(plan, record)
        if until is not None and until >= watermark:
            return offset
    return None


def keep_with(unhandled: int, watermark: int | None, needed: Callable[[int], int | None]) -> int:
    """The first offset to keep where a watermark alone tells what is needed. `needed`: as `first_needed`."""
    first = None if watermark is None else needed(watermark)
    return unhandled if first is None else min(unhandled, first)


def trimmer_of(address: Address) -> Producer:
    return Producer(TRIMMER, str(address))


def trimmed_by(trimmer: Producer) -> Address:
    topic, _, partition = trimmer.name.partition("/")
    return Address(Topic(topic), int(partition) if partition.isdigit() else partition)


def keep_signals_from(dispatchers: Iterable[DispatcherProgress]) -> int:
    """The first offset to keep of the signals topic, as far as dispatchers need it."""
    return min(progress.hear_from for progress in dispatchers)
