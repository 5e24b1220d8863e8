"""What to do about one driver: start an attempt, take one away, or wait.

Attempts have numbers that only grow: one more than the greatest that a pod or the status tells of. Two drivers of one
tier do no harm, since the newer one fences the older; that there is normally one at a time saves a node that has no
room for two."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from biclique_operator.observed import DriverPod
from biclique_operator.policies.restarts import HEALTHY_S, PAUSE_MAX_S, Record, judged, recovered

OVERDUE_S = 5.0  # a pod that should be gone for as long as this is on a node that does not answer


class Phase(Enum):
    """As `state` in a status says it."""

    WAITING = "Waiting"  # for its turn, or for the pause after a failure
    STARTING = "Starting"
    READY = "Running"
    NOT_READY = "NotReady"
    ENDING = "Stopping"
    STOPPED = "Stopped"


@dataclass(frozen=True, slots=True)
class Attended:
    """What one look at a driver came to. `start`: the attempt to begin. `take_away`: pods, with why. `pod`: the one
    that counts. `look_again_at`: when time alone changes the answer; 0: never."""

    record: Record
    phase: Phase
    pod: DriverPod | None = None
    start: int | None = None
    take_away: tuple[tuple[DriverPod, str], ...] = ()
    look_again_at: float = 0.0


def attend(name: str, record: Record, pods: tuple[DriverPod, ...], wanted_hash: str, now: float) -> Attended:
    """Of a driver that should run. `pods`: its own, oldest attempt first."""
    newest = pods[-1] if pods else None
    if newest is not None and newest.attempt > record.attempt:
        # It was begun, and whoever did so did not come to write that down.
        record = replace(record, attempt=newest.attempt, ready_since=0.0, retry_at=0.0)
    away = tuple((pod, "a later attempt has begun") for pod in _outdated(pods))
    if newest is None:
        return _next(record, away, now)
    if newest.is_over:
        if newest.ended is not None and record.judged < newest.attempt:
            taken_away = newest.deleting_until is not None
            record = judged(record, newest.attempt, newest.ended, taken_away, newest.name, now)
        if newest.spec_hash != wanted_hash:
            record = replace(record, retry_at=0.0)  # whoever changed it has mended what it ended of, perhaps
        return _next(record, away, now)
    if newest.deleting_until is not None:
        overdue_at = newest.deleting_until + OVERDUE_S
        if now >= overdue_at:
            return _next(record, away, now)
        return Attended(record, Phase.ENDING, newest, None, away, overdue_at)
    if newest.ready:
        # The first time: when it becomes ready again after a while, its run is as old as it was.
        since = record.ready_since or newest.ready_since or now
        record = replace(record, ready_since=since)
        return Attended(recovered(record) if now - since >= HEALTHY_S else record, Phase.READY, newest, None, away)
    phase = Phase.NOT_READY if record.ready_since else Phase.STARTING
    return Attended(record, phase, newest, None, away)


def _next(record: Record, away: tuple[tuple[DriverPod, str], ...], now: float) -> Attended:
    # Written by the clock of whoever led then: one that was ahead must not put it off for as long as it was.
    if now < record.retry_at <= now + PAUSE_MAX_S:
        return Attended(record, Phase.WAITING, None, None, away, record.retry_at)
    begun = replace(record, attempt=record.attempt + 1, retry_at=0.0, ready_since=0.0)
    return Attended(begun, Phase.STARTING, None, begun.attempt, away)


def _outdated(pods: tuple[DriverPod, ...]) -> list[DriverPod]:
    """All but the newest, and the newest that is over: its log is what a person looks at."""
    over = [pod for pod in pods if pod.is_over]
    kept = {pods[-1].name, over[-1].name} if over else {pod.name for pod in pods[-1:]}
    return [pod for pod in pods if pod.name not in kept and pod.deleting_until is None]


def rolled(attended: Attended, why: str) -> Attended:
    """Its attempt is made of what the manifest no longer says: it is taken away, and the next one follows."""
    assert attended.pod is not None, "there is something to roll"
    taken = (*attended.take_away, (attended.pod, why))
    return replace(attended, phase=Phase.ENDING, take_away=taken, record=replace(attended.record, retry_at=0.0))


def rest(record: Record, pods: tuple[DriverPod, ...], overdue: bool, look_again_at: float) -> Attended:
    """Of a driver that should not run. It ends by itself when it is asked to; `overdue`: it has had its time."""
    known = max([record.attempt, *(pod.attempt for pod in pods)])
    record = Record(attempt=known, judged=known)  # what it resumes with is a new beginning
    alive = [pod for pod in pods if not pod.is_over]
    away = [(pod, "it has stopped") for pod in pods if pod.is_over and pod.deleting_until is None]
    if overdue:
        away += [(pod, "it did not stop by itself") for pod in alive if pod.deleting_until is None]
    if not alive:
        return Attended(record, Phase.STOPPED, None, None, tuple(away))
    return Attended(record, Phase.ENDING, alive[-1], None, tuple(away), 0.0 if overdue else look_again_at)
