"""What travels between the tiers: the records of the log. Frozen values; core/codec.py gives them their Arrow form.

`trace`, where a record has it: the context under which whoever looks follows it, empty if nobody does. No logic reads
it; a host puts it in and takes it out.

| topic            | partitions                          | records                                          |
|------------------|-------------------------------------|--------------------------------------------------|
| shuffled         | one per dispatcher (P)              | SourceBlock, Heartbeat                           |
| unit             | one per unit, whatever generation   | Block, Signal                                    |
| signals          | one                                 | Signal (read by dispatchers and the operator),   |
|                  |                                     | Demand (read by dispatchers)                     |
| partials         | one per merger                      | Partials, Signal                                 |
| late, dead       | one per dispatcher                  | LateTuples, SetAside                             |
| output           | one per producer                    | Results                                          |
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from biclique.core.ranks import EpochTotals
from biclique.core.rows import Rows, Vector
from biclique.routing.protocol import Role
from biclique.routing.table import UnitId

TIME_NEVER = -(1 << 62)  # before every event time; a watermark that nothing has moved yet


class Mark(Enum):
    """What the shuffler found of a source record."""

    GOOD = 0
    FILTERED = 1  # a conjunct of WHERE over this source alone is not true, in every relation made of it
    DEAD = 2
    FAILED = 3  # filtered, because the expression failed (a division by zero, an overflow)


class Topic(Enum):
    SHUFFLED = "shuffled"
    UNIT = "unit"
    SIGNALS = "signals"
    PARTIALS = "partials"
    LATE = "late"
    DEAD = "dead"
    OUTPUT = "output"


class Address(NamedTuple):
    """A partition of the log. `partition` is a dispatcher's or merger's number, 0 for signals, or the name of a unit
    without its generation (`1L0.2`)."""

    topic: Topic
    partition: int | str

    def __str__(self) -> str:
        return f"{self.topic.value}/{self.partition}"


@lru_cache(maxsize=4096)  # asked for with every message
def unit_address(unit: UnitId) -> Address:
    return Address(Topic.UNIT, str(unit._replace(generation=0)))


class Producer(NamedTuple):
    """Who signals and sends: a dispatcher, or a unit that sends partial results on. Also the owner of progress."""

    tier: str  # "dispatcher", "joiner" or "merger"
    name: str  # the dispatcher's number, or str(UnitId)

    def __str__(self) -> str:
        return f"{self.tier} {self.name}"


@dataclass(frozen=True, slots=True)
class DeadRecord:
    offset: int
    raw: bytes
    place: str  # "orders/part-1.csv, row 17, column price" or "orders, partition 3, offset 17"
    reason: str


@dataclass(frozen=True, slots=True)
class SourceBlock:
    """Consecutive records of one partition of one source, in order. `predecessor`: the last offset of the previous
    block of the same task, -1 in a task's first: a dispatcher that lacks it ignores the block.

    `offsets`, `marks`, `times` have one entry for each record; `columns` (the used fields, see query/used.py) one row
    for each GOOD one.
    """

    source: int
    partition: int
    predecessor: int
    offsets: NDArray[np.int64]
    marks: NDArray[np.int8]
    times: NDArray[np.int64]
    columns: tuple[Vector, ...]
    dead: tuple[DeadRecord, ...] = ()
    trace: str = ""

    @property
    def nbytes(self) -> int:
        records = self.offsets.nbytes + self.marks.nbytes + self.times.nbytes
        return records + sum(column.nbytes for column in self.columns) + sum(len(dead.raw) for dead in self.dead)


UNREAD = -2  # the position of a heartbeat: there is something to be read, and reading only begins


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """The shuffler's driver: this source partition had been read up to `position` (its last offset; -1: none) when all
    of it had been read, at `caught_up_ms` of this attempt's clock; or it has not been read to its end (UNREAD).

    `read_to`: the message that it reads next, where messages have offsets: behind `position`, none below this one holds
    a record (markers of transactions, messages without rows)."""

    source: int
    partition: int
    position: int
    caught_up_ms: int
    attempt: int
    read_to: int = 0


@dataclass(frozen=True, slots=True)
class Block:
    """Rows for one unit, in stamp order. `epoch`: that of the first row; the others may be of later epochs, so a
    receiver takes the rows at or below its frontier and leaves the rest pending. `whole`: not one row of it left its
    payload behind (core/payload_places.py); otherwise all did."""

    stage: int
    side: int
    role: Role
    sender: Producer
    epoch: int
    rows: Rows
    trace: str = ""
    whole: bool = True


@dataclass(frozen=True, slots=True)
class Signal:
    """No later block of this sender has an epoch at or below `epoch`. `watermark`: no later tuple of its has a time
    below.

    `carried`: the sender's transaction held tuples (the others answer it). `ended`: a leaving sender's last one.
    `totals`: of a dispatcher, where windows count tuples: at the epoch of its signal before, then at each epoch of its
    own (core/ranks.py).
    """

    sender: Producer
    epoch: int
    watermark: int
    idle: bool
    version: int
    first_epoch: int
    carried: bool
    ended: bool = False
    totals: tuple[EpochTotals, ...] = ()


@dataclass(frozen=True, slots=True)
class Demand:
    """How often a unit wants the payload of a relation's tuples, of late: of so many rows that it `handled`, stored or
    probing, so many were in a match when it looked, in so many different `blocks` of shuffled; rows that were in
    matches of several batches count for each. Says how tuples travel best, and decides no result."""

    sender: Producer
    relation: int
    handled: int
    wanted: int
    blocks: int


@dataclass(frozen=True, slots=True)
class Results:
    """Rows for the output, each with its 128-bit id (two uint64), in the order of the select list.

    Group rows carry the id of their group: a later one replaces an earlier one.
    """

    columns: tuple[Vector, ...]
    ids_high: NDArray[np.uint64]
    ids_low: NDArray[np.uint64]
    times: NDArray[np.int64]
    trace: str = ""


@dataclass(frozen=True, slots=True)
class Partials:
    """Aggregates of one unit over the matches of some epochs, for the merger that owns the groups.

    `keys`: the group's values. `states[i]`: for item i the columns of its partial state (see kernels/partials.py).
    """

    sender: Producer
    epoch: int
    keys: tuple[Vector, ...]
    states: tuple[tuple[Vector, ...], ...]
    newest: NDArray[np.int64]  # greatest result time in the group's share
    trace: str = ""


@dataclass(frozen=True, slots=True)
class LateTuples:
    """Accepted by nobody: their times were below the watermark that their dispatcher had signalled."""

    source: int
    partition: int
    offsets: NDArray[np.int64]
    times: NDArray[np.int64]
    columns: tuple[Vector, ...]  # the used fields
    watermark: int
    trace: str = ""


@dataclass(frozen=True, slots=True)
class SetAside:
    """Dead records, as a dispatcher files them, once each."""

    source: int
    partition: int
    records: tuple[DeadRecord, ...]
    trace: str = ""


Record = SourceBlock | Heartbeat | Block | Signal | Demand | Results | Partials | LateTuples | SetAside
