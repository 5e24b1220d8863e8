"""The named points of the protocol, and which faults must have struck at which of them.

A point is where a process stands between two effects of its loop: read off the effect that it is about to perform and
the answer it got last. `PAIRS` is the matrix of the reliability study as it applies to this design: no P2 (a tuple's
stamp is given by its dispatcher, in P5), and no P18 and P19 (the operator's, which comes with Kubernetes). A fault that
strikes the log, the store or the network of everybody strikes whoever stands at a point just then.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, Protocol

from biclique.tiers.effects import (
    Commit,
    Effect,
    GetBlob,
    LoadManifests,
    Outcome,
    Publication,
    PublishManifest,
    PutBlob,
    Read,
)
from biclique.tiers.loops import Watch
from biclique.tiers.messages import Producer
from biclique.tiers.progress import JoinerProgress, MergerProgress, Progress


class Point(Enum):
    P1 = "P1 source read"
    P3 = "P3 shuffler publishes"
    P4 = "P4 published, not yet noted"
    P5 = "P5 dispatcher routes"
    P6 = "P6 partial fan-out"
    P7 = "P7 joiner stores"
    P8 = "P8 probe, mid-match"
    P9 = "P9 output produced"
    P10 = "P10 commit sent"
    P11 = "P11 commit known, no checkpoint"
    P12 = "P12 between blobs"
    P13 = "P13 before the manifest"
    P14 = "P14 behind the manifest"
    P15 = "P15 log trimmed"
    P16 = "P16 restore"
    P17 = "P17 replay"
    P20 = "P20 merger writes"


class Fault(Enum):
    F1 = "F1 crash"
    F2 = "F2 pause or zombie"
    F3 = "F3 broker"
    F4 = "F4 store"
    F5 = "F5 cut off"
    F6 = "F6 delay, repeat, loss"
    F7 = "F7 blob damaged"
    F8 = "F8 clock"
    F12 = "F12 strange input"
    F13 = "F13 retention"  # and partitions that are added


P = Point
BEFORE_OUTPUT = (P.P1, P.P3, P.P4, P.P5, P.P6)
OUTPUT = (P.P9, P.P10, P.P11)
CHECKPOINT = (P.P12, P.P13, P.P14, P.P15, P.P16, P.P17)
WHERE: dict[Fault, tuple[Point, ...]] = {
    Fault.F1: tuple(Point),
    Fault.F2: (P.P3, P.P6, *OUTPUT, P.P12, P.P13, P.P14, P.P15),
    Fault.F3: (*BEFORE_OUTPUT, *OUTPUT),
    Fault.F4: CHECKPOINT,
    Fault.F5: tuple(Point),
    Fault.F6: (P.P3, P.P4, P.P5, P.P6, *OUTPUT),
    Fault.F7: CHECKPOINT,
    Fault.F8: tuple(Point),
    Fault.F12: (P.P1, P.P7, P.P8, P.P9),
    Fault.F13: (P.P1, P.P15, P.P16, P.P17),
}
TWICE = "F1 crash, twice in a row"


def pair(fault: Fault, point: Point) -> str:
    return f"{fault.value} at {point.value}"


PAIRS = (TWICE, *(pair(fault, point) for fault, points in WHERE.items() for point in points))


class Stage(Enum):
    """Of a commit: its records are sent; it is asked for, and perhaps decided, and no answer has come."""

    SENDING = "sending"
    ASKED = "asked"


class Standing(Protocol):
    """What is looked at of a process. `last`: the effect performed last and its answer. `half`: the transaction
    committed last ended in the midst of a step's matches. `trimmed`: its partition was, just now."""

    producer: Producer
    watch: Watch
    effect: Effect | None
    stage: Stage | None
    last: tuple[Effect | None, Any]
    half: bool
    trimmed: bool


def ends_midway(progress: Progress) -> bool:
    """Whether a transaction with this progress holds part of a step's matches, and more are to come."""
    return isinstance(progress, JoinerProgress | MergerProgress) and progress.cursor is not None


def points_of(process: Standing) -> list[Point]:
    """None, one or several: a merger that writes also has output under way."""
    found = [Point.P15] if process.trimmed else []
    tier, asked = process.producer.tier, process.last
    if tier == "dispatcher":
        if isinstance(process.effect, Commit):
            found.append({None: Point.P5, Stage.SENDING: Point.P6, Stage.ASKED: Point.P10}[process.stage])
        return found
    match process.effect:
        case Commit(_, _, _, progress):
            if process.stage is not None:
                found.append(Point.P9 if process.stage is Stage.SENDING else Point.P10)
            elif tier == "joiner":
                midst = process.half or ends_midway(progress)
                found.append(Point.P8 if midst else Point.P7)
            if tier == "merger":
                found.append(Point.P20)
        case PutBlob():
            found.append(Point.P12)
        case PublishManifest():
            found.append(Point.P13)
        case LoadManifests() | GetBlob():
            found.append(Point.P16)
        case Read():
            logic: Any = process.watch.joiner or process.watch.merger
            if logic is not None and logic.replaying:
                found.append(Point.P17)
    if asked[1] is Outcome.COMMITTED:
        found.append(Point.P11)
    elif asked[1] is Publication.PUBLISHED:
        found.append(Point.P14)
    return found
