"""The six conditions of a JoinQuery, and of each of its subgroups. Each is a ladder: the first thing that holds is
what it says.

A message is made of names and sentences, never of a time or of a number that changes by itself: a query to which
nothing happens has a status to which nothing happens."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple

from biclique_operator.observed import Raw, seconds_of, timestamp_of
from biclique_operator.policies import reasons
from biclique_operator.policies.attempts import Attended, Phase
from biclique_operator.policies.lacking import is_beside, is_removal
from biclique_operator.policies.restarts import Verdict
from biclique_operator.policies.situation import Mode, Situation
from biclique_operator.policies.troubles import REFUSED, refusal_of, trouble_of

CHECKPOINT_AGE_MAX_S = 600.0
EXECUTOR_MOMENT_S = 4.0


class Said(NamedTuple):
    status: str  # True, False or Unknown
    reason: str
    message: str


class Amiss(NamedTuple):
    """As the condition Degraded has it. `since`: it has been True, maybe for another reason first."""

    reason: str
    message: str
    since: float


def amiss_in(status: Raw) -> Amiss | None:
    """What it says is wrong; None: nothing."""
    for one in status.get("conditions") or ():
        if one.get("type") == reasons.DEGRADED and one.get("status") == "True":
            since = seconds_of(one.get("lastTransitionTime")) or 0.0
            return Amiss(str(one.get("reason") or ""), str(one.get("message") or ""), since)
    return None


def conditions_of(situation: Situation, before: list[Raw]) -> list[Raw]:
    """`before`: those that stand there. A time of transition stays as long as a status does."""
    said = {
        reasons.READY: _ready(situation),
        reasons.PROGRESSING: _progressing(situation),
        reasons.DEGRADED: _degraded(situation),
        reasons.STATE_SAFE: _state_safe(situation),
        reasons.SCALING_ACTIVE: _scaling(situation),
        reasons.SUSPENDED: _suspended(situation),
    }
    stood = {one.get("type"): one for one in before}
    generation, now = situation.observed.generation, situation.now
    return [_condition(kind, said[kind], stood.get(kind), generation, now) for kind in reasons.CONDITIONS]


def paused(before: list[Raw], generation: int, now: float) -> list[Raw]:
    """Nothing else is known to be as it was, so nothing else is said."""
    said = Said("False", reasons.PAUSED, "the annotation biclique.dev/reconcile says paused: nothing is changed")
    stood = next((one for one in before if one.get("type") == reasons.PROGRESSING), None)
    others = [one for one in before if one.get("type") != reasons.PROGRESSING]
    return [*others, _condition(reasons.PROGRESSING, said, stood, generation, now)]


def being_deleted(before: list[Raw], generation: int, now: float) -> list[Raw]:
    """It stops: nothing that stood there of its running is so any more. What was amiss may be why it is deleted."""
    said = {
        reasons.READY: Said("False", reasons.DELETING, "the query is being deleted"),
        reasons.PROGRESSING: Said("True", reasons.DELETING, "its drivers are stopping, and then it goes"),
    }
    stood = {one.get("type"): one for one in before}
    kept = [one for one in before if one.get("type") not in said]
    return [*(_condition(kind, said[kind], stood.get(kind), generation, now) for kind in said), *kept]


def _condition(kind: str, said: Said, before: Raw | None, generation: int, now: float) -> Raw:
    since = timestamp_of(now)
    if before is not None and before.get("status") == said.status:
        since = before.get("lastTransitionTime") or since
    return {
        "type": kind,
        "status": said.status,
        "reason": said.reason,
        "message": said.message,
        "observedGeneration": generation,
        "lastTransitionTime": since,
    }


# --- each of them ----------------------------------------------------------------------------------------------------


def _ready(situation: Situation) -> Said:
    if situation.mode is Mode.SUSPENDED:
        return Said("False", reasons.IS_SUSPENDED, "spec.suspend is true")
    missing = [driver.name for driver, attended in situation.attended if attended.phase is not Phase.READY]
    if situation.attended and not missing:
        return Said("True", reasons.RUNNING, "its units run" if situation.of_a_subgroup else "every tier runs")
    for reason, message in _amiss(situation):
        return Said("False", reason, message)
    if situation.course.runs is None:
        return Said("False", reasons.STARTING, "nothing runs yet")
    return Said("False", _why_not_ready(situation), f"waits for {', '.join(missing)}")


def _why_not_ready(situation: Situation) -> str:
    if situation.rolling:
        return reasons.ROLLING
    again = any(each.record.judged for _, each in situation.attended if each.phase is not Phase.READY)
    return reasons.RESTARTING if again else reasons.STARTING


def _progressing(situation: Situation) -> Said:
    missing = [driver.name for driver, attended in situation.attended if attended.phase is not Phase.READY]
    if situation.mode is Mode.SUSPENDED:
        if situation.not_stopped:
            return Said("True", reasons.STOPPING, f"waits for the end of {', '.join(situation.not_stopped)}")
        return Said("False", reasons.IS_SUSPENDED, "its drivers have stopped; its state is kept")
    if situation.course.runs is None:
        return Said("False", reasons.INVALID_MANIFEST, "there is no manifest to run")
    if situation.rolling:
        return Said("True", reasons.ROLLING, f"takes over what was changed: {', '.join(sorted(situation.rolling))}")
    if missing:
        return Said("True", _why_not_ready(situation), f"waits for {', '.join(missing)}")
    return Said("False", reasons.STABLE, "runs as its manifest says")


def _degraded(situation: Situation) -> Said:
    for reason, message in chain(_amiss(situation), _amiss_beside(situation)):
        return Said("True", reason, message)
    return Said("False", reasons.NOTHING_AMISS, "nothing is amiss")


def _amiss(situation: Situation) -> Iterator[tuple[str, str]]:
    """What is wrong with what runs, or is to run; first what a person can mend."""
    if situation.course.refused is not None:
        yield situation.course.refused
    if situation.mode is not Mode.RUNS:
        return
    for what, (code, message) in situation.refusals.items():
        if not is_beside(what):
            yield refusal_of(what, code, message)
    stood = amiss_in(situation.observed.status)
    if situation.unanswered and stood is not None and stood.reason in REFUSED:
        yield stood.reason, stood.message  # as of the operator before: nobody knows that it has passed
    waiting = [(driver.name, each) for driver, each in situation.attended if each.phase is not Phase.READY]
    for _, each in waiting:
        if each.pod is not None and (trouble := _trouble(situation, each)) is not None:
            yield trouble_of(each.pod.name, *trouble)
    yield from _of_executors(situation)
    for verdict, reason in VERDICTS:
        for name, each in waiting:
            if each.record.verdict is verdict and each.phase is not Phase.ENDING:
                yield reason, f"{name}: {each.record.why}"
    yield from _told(situation)


def _amiss_beside(situation: Situation) -> Iterator[tuple[str, str]]:
    """What nothing waits for: it is named where nothing else is amiss, and is no reason for not being ready."""
    for what, (code, message) in situation.refusals.items():
        if is_beside(what) and (situation.mode is Mode.RUNS or is_removal(what)):
            yield refusal_of(what, code, message)


VERDICTS = (
    (Verdict.MEND, reasons.MEND_NEEDED),
    (Verdict.SPENT, reasons.BUDGET_SPENT),
    (Verdict.FAILED, reasons.DRIVER_FAILED),
)


def _trouble(situation: Situation, attended: Attended) -> tuple[str, str] | None:
    assert attended.pod is not None, "whose trouble is asked for"
    if attended.pod.is_over or attended.pod.deleting_until is not None:
        return None
    # Events come and go; they are asked where the pod itself says nothing.
    return attended.pod.trouble or situation.observed.events.get(attended.pod.name)


def _of_executors(situation: Situation) -> Iterator[tuple[str, str]]:
    """Whatever their driver is: one that runs with fewer than were asked for is short of them. Not at once, since while
    drivers take turns the pods of the one before may still hold the place."""
    for _, attended in situation.attended:
        pod = attended.pod
        if pod is None or pod.is_over or pod.deleting_until is not None:
            continue
        for executor in situation.observed.executors_of(pod.name):
            trouble = executor.trouble or situation.observed.events.get(executor.name)
            waits = executor.is_pending and situation.now - executor.created > EXECUTOR_MOMENT_S
            if waits and trouble is not None:
                yield trouble_of(executor.name, *trouble)


def _told(situation: Situation) -> Iterator[tuple[str, str]]:
    for driver, attended in situation.attended:
        says = None if attended.pod is None else situation.observed.told.get(attended.pod.name)
        if says is None:
            continue
        if attended.phase is not Phase.READY and says.why and not _merely_begins(says.why):
            yield reasons.DRIVER_WAITS, f"{driver.name}: {says.why}"
        paused = dict(says.paused)
        for source, why in paused.items():
            yield reasons.SOURCE_PAUSED, f"source {source}: {why}"
        for unit in says.units:
            # A shuffler's sources are told of in the place of units: one that is paused is nothing else.
            if unit.state in ("stands still", "stopped") and unit.name not in paused:
                yield reasons.UNIT_STANDS_STILL, f"{driver.tier} {unit.name} {unit.state}: {unit.why}"


def _merely_begins(why: str) -> bool:
    """What a driver says of itself as long as nothing is wrong. A unit that is starting because its last run has died,
    or that nothing was heard of, has that behind it."""
    return why in ("the tier begins", "Spark starts") or why.endswith(" is starting")


def _state_safe(situation: Situation) -> Said:
    ages = []
    for driver, attended in situation.attended:
        if driver.holds_state:
            says = None if attended.pod is None else situation.observed.told.get(attended.pod.name)
            if says is None:
                return Said("Unknown", reasons.NOT_KNOWN, f"{driver.name} was not heard; its state is in Kafka's log")
            ages.append((driver.name, says.figures))
    if not ages:
        return Said("Unknown", reasons.NOT_KNOWN, "nothing runs; what state there is, is in Kafka's log")
    for name, figures in ages:
        if figures.checkpoint_age_s is None and figures.state_rows:
            return Said("False", reasons.CHECKPOINTS_OLD, f"{name} has no checkpoint; a restart replays its log")
        if (figures.checkpoint_age_s or 0.0) > CHECKPOINT_AGE_MAX_S:
            said = f"{name} took no checkpoint for more than 10 minutes; a restart replays its log from the last one"
            return Said("False", reasons.CHECKPOINTS_OLD, said)
    if all(figures.checkpoint_age_s is None for _, figures in ages):
        return Said("True", reasons.NO_STATE_YET, "there is no state yet")
    return Said("True", reasons.CHECKPOINTED, "what is stored is in Kafka's log and in checkpoints")


def _scaling(situation: Situation) -> Said:
    if situation.course.held is not None:
        return Said("False", reasons.HELD, situation.course.held)
    for subgroup, wanted, held in situation.scaled:
        said = f"JoinSubgroup {subgroup}: {held} units are kept in place of {wanted}"
        return Said("False", reasons.HELD, f"{said}; a running query does not change their number yet")
    return Said("False", reasons.FIXED, "the number of units stays as the query began")


def _suspended(situation: Situation) -> Said:
    if situation.mode is not Mode.SUSPENDED:
        return Said("False", reasons.NOT_SUSPENDED, "spec.suspend is false")
    if situation.not_stopped:
        return Said("False", reasons.STOPPING, "its drivers are stopping")
    return Said("True", reasons.IS_SUSPENDED, "its drivers have stopped; topics, keys and routing tables are kept")
