"""What survives a crash: the progress of each producer (in the log, atomically with its output) and the manifests of
joiner units (in the checkpoint store, after the commit that they describe)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from biclique.core.ranks import Counts
from biclique.routing.table import Move, RoutingTable, UnitId
from biclique.tiers.messages import TIME_NEVER


class SourcePartition(NamedTuple):
    source: int
    partition: int


@dataclass(frozen=True, slots=True)
class DispatcherProgress:
    """`offset`: the next one to read in its partition of shuffled. `last`, `greatest`: per source partition, the last
    source offset taken and the greatest event time. `accepted`, `filtered`, `late`, `dead` count source records per
    source. `counted`: tuples stamped so far of each relation whose window counts them. `hear_from`: in the signals
    topic, the oldest of what the other dispatchers said last: whoever reads on from there knows as much as this one."""

    offset: int = 0
    epoch: int = 0
    watermark: int = TIME_NEVER  # as last signalled
    version: int = 0
    first_epoch: int = 0
    last: Mapping[SourcePartition, int] = field(default_factory=dict)
    greatest: Mapping[SourcePartition, int] = field(default_factory=dict)
    fates: Mapping[str, tuple[int, ...]] = field(default_factory=dict)  # fate -> count per source
    counted: Counts = ()
    hear_from: int = 0


class Cursor(NamedTuple):
    """The last emitted match of an unfinished epoch, in canonical order: probe's stamp and ids, then stored's."""

    probe_stamp: int
    probe_ids: tuple[int, ...]
    stored_stamp: int
    stored_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class JoinerProgress:
    """`offset`: the earliest unhandled record; where windows count tuples, no later than signals that tell of epochs
    above the frontier. With a cursor, `frontier` is below the cursor's epoch. `senders`: the units of the stage before
    that count for the frontier (dispatchers always do). `version`, `first_epoch`: what a unit that sends partial
    results on has applied. `read_to`: every block at or below the frontier is below this offset; whoever rebuilds the
    unit's tuples from its log reads up to there, however little a fetch may bring. `counted`: all tuples up to the
    frontier, of each relation whose window counts them. `failed`: expressions that failed so far, in predicates over
    pairs, in keys of the partial results that were made, and in the select list, in this generation of the unit and all
    before it; the sum over the last generation of every unit that ever was is the truth.

    `heard`: the newest version of the routing table that any signal up to `read_to` tells of. Who left by it may have
    said so below `offset`, and is not read again: an older table, which still names it, must not bring it back.

    The first progress of a generation is written by who starts it (`start_of`): without one a loop refuses to run."""

    offset: int
    frontier: int = -1
    watermark: int = TIME_NEVER
    cursor: Cursor | None = None
    empty: bool = False  # holds no tuple: a leaver may go
    senders: tuple[UnitId, ...] = ()
    version: int = 0
    first_epoch: int = 0
    lower: int = 0  # where this generation's part of its partition begins
    read_to: int = 0
    counted: Counts = ()
    failed: int = 0
    heard: int = 0


Place = tuple[int, int, int]  # of a row that is written once: its time, and its id


class MergerCursor(NamedTuple):
    """Half of what the step to `frontier` writes has been written: up to this place. `watermark`: what the step is
    closing. Signals that told of it may lie below the offset of the progress: no restart reads them again."""

    frontier: int
    place: Place
    watermark: int = TIME_NEVER  # of a merger that did not write it down yet


@dataclass(frozen=True, slots=True)
class MergerProgress:
    """Up to where a merger has merged, and written what follows from it. `senders`: the units that it waits for. With a
    cursor, the rest is of before the step that the cursor is in. `read_to`: all that this step had read is below this
    offset; until it has been read again, nothing is written or sealed. `heard`: as a joiner's."""

    offset: int = 0
    frontier: int = -1
    watermark: int = TIME_NEVER
    senders: tuple[UnitId, ...] = ()
    cursor: MergerCursor | None = None
    read_to: int = 0
    heard: int = 0


@dataclass(frozen=True, slots=True)
class TrimProgress:
    """What is below this offset of a partition was trimmed by ourselves, or is about to be: nobody needs it."""

    before: int


Progress = DispatcherProgress | JoinerProgress | MergerProgress | TrimProgress


class BlobRef(NamedTuple):
    """A sealed, immutable run of rows of one store, named by the incarnation that made it."""

    name: str
    side: int
    rows: int
    checksum: int  # xxh64 of the bytes
    adopted: bool  # rows that came with a move: kept apart from the unit's own, whose stamps interleave with them


@dataclass(frozen=True, slots=True)
class Manifest:
    """`sealed`: the epoch up to which every stored row is in a blob. `offset`: the earliest log offset that still holds
    an unsealed tuple or an unhandled block. Restore refuses one whose frontier is above the committed progress.
    `totals`: at the frontier, of each dispatcher (core/ranks.py)."""

    incarnation: int
    frontier: int
    sealed: int
    offset: int
    blobs: tuple[BlobRef, ...]
    adopted: frozenset[Move] = frozenset()
    totals: tuple[Counts, ...] = ()


def start_of(unit: UnitId, table: RoutingTable, lower: int, failed: int = 0) -> JoinerProgress:
    """The progress that a unit of a new generation begins with. `table`: of the version that first names it, or for
    which it is being started; `lower`: the end of its partition now; `failed`: in the generations before."""
    born = table.born.get(unit, table.version)
    return JoinerProgress(
        offset=lower, senders=table.units_of_stage(unit.subgroup.stage - 1), version=born, lower=lower, failed=failed
    )
