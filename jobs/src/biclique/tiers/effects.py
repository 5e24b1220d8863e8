"""What a unit's loop asks of the world. A loop is a generator: it yields one of these, the host performs it and sends
the answer back. No loop does I/O, reads a clock or waits by itself, so that the same loop runs on Kafka and Redis,
inside the embedded engine, and in the simulator, which may crash or pause it at every yield.

| effect           | answer                                                                                       |
|------------------|----------------------------------------------------------------------------------------------|
| Fence            | int: the incarnation. From now on no older incarnation of this producer can commit.          |
| ReadProgress     | Progress: as committed with the last transaction (of any producer, not only one's own)       |
| Read             | Fetched: committed records at or above an offset                                             |
| Commit           | Outcome                                                                                      |
| LoadManifests    | tuple[Manifest, ...], newest first, at most 3                                                |
| GetBlob          | bytes, or None if it is gone                                                                 |
| PutBlob          | bool: False if the store cannot take it now                                                  |
| PublishManifest  | Publication, or BlobsLost where it names blobs that are gone                                 |
| ReadTable        | RoutingTable: of that version, or the newest that this process can see; None if not yet seen |
| Consult          | Orders                                                                                       |
| ReadClock        | int: milliseconds of this machine's wall clock (it may jump)                                 |
| Rest             | None, after at most so many milliseconds, or earlier when there may be something to read     |

A host may end a loop at any yield (a crash). A loop returns when it is fenced, when an outcome is unknown, or when it
has left for good; the host then makes a new one or does not: `End` says which.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from enum import Enum
from typing import Any

from biclique.tiers.messages import Address, Producer, Record
from biclique.tiers.pressure import Pressure
from biclique.tiers.progress import Manifest, Progress


@dataclass(frozen=True, slots=True)
class Fence:
    producer: Producer  # for a unit: without its generation, so that a new generation fences the older ones


@dataclass(frozen=True, slots=True)
class ReadProgress:
    owner: Producer  # for a unit: with its generation


@dataclass(frozen=True, slots=True)
class Read:
    address: Address
    offset: int
    limit: int  # records


@dataclass(frozen=True, slots=True)
class Fetched:
    """`next_offset`: where to read on: beyond the last record and any control records after it. `start`: the first
    offset that the log still holds; `end`: the last stable offset as this reader saw it."""

    records: tuple[tuple[int, Record], ...]
    next_offset: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Commit:
    """One transaction: the records and the progress, all or nothing."""

    producer: Producer  # whose fence guards it
    owner: Producer  # whose progress it is
    sends: tuple[tuple[Address, Record], ...]
    progress: Progress


class Outcome(Enum):
    COMMITTED = "committed"
    FENCED = "fenced"
    UNKNOWN = "unknown"  # a timeout: fence again, read the progress back to learn what happened


@dataclass(frozen=True, slots=True)
class LoadManifests:
    owner: Producer


@dataclass(frozen=True, slots=True)
class GetBlob:
    name: str


@dataclass(frozen=True, slots=True)
class PutBlob:
    name: str
    data: bytes


@dataclass(frozen=True, slots=True)
class PublishManifest:
    owner: Producer
    manifest: Manifest


class Publication(Enum):
    PUBLISHED = "published"
    SUPERSEDED = "a newer incarnation has published"
    UNAVAILABLE = "the store cannot be reached, or takes nothing"  # or nobody knows; asking again is harmless


@dataclass(frozen=True, slots=True)
class BlobsLost:
    """The manifest was not published: the store no longer has these of the blobs that it names."""

    names: frozenset[str]


@dataclass(frozen=True, slots=True)
class ReadTable:
    version: int | None = None  # None: the newest


@dataclass(frozen=True, slots=True)
class Consult:
    pass


@dataclass(frozen=True, slots=True)
class Orders:
    """What the host wants of a loop now, and sees of it from outside. `seal`: a joiner or merger checkpoints all that
    it has handled; `stop`: return; `finish`: a merger writes what it holds back, for no input will follow (bounded
    files); it does so once. `pressure`: of the process's memory, whatever its loop has counted. `commit_ms`: what the
    last transaction took; 0: not measured. `reached`: the least committed frontier of those who read what this loop
    sends; None: not known, or nobody."""

    seal: bool = False
    stop: bool = False
    finish: bool = False
    pressure: Pressure = Pressure.NONE
    commit_ms: int = 0
    reached: int | None = None


@dataclass(frozen=True, slots=True)
class ReadClock:
    pass


@dataclass(frozen=True, slots=True)
class Rest:
    milliseconds: int


Effect = (
    Fence
    | ReadProgress
    | Read
    | Commit
    | LoadManifests
    | GetBlob
    | PutBlob
    | PublishManifest
    | ReadTable
    | Consult
    | ReadClock
    | Rest
)


class End(Enum):
    """Why a loop returned."""

    FENCED = "fenced"  # a successor runs: do not restart
    UNKNOWN = "unknown outcome"  # restart: a new incarnation learns what happened
    LEFT = "left"  # the table no longer names the unit
    STOPPED = "stopped"  # asked to by its host, between two transactions


Loop = Generator[Effect, Any, End]
