"""The status of a JoinQuery and of its subgroups, and how a status remembers what became of each driver."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil

from biclique_operator.desired.drivers import Driver
from biclique_operator.observed import DriverSays, Observed, Raw, seconds_of, timestamp_of
from biclique_operator.policies import reasons
from biclique_operator.policies.attempts import Attended, Phase
from biclique_operator.policies.conditions import being_deleted, conditions_of, paused
from biclique_operator.policies.figures import KEYS as FIGURES
from biclique_operator.policies.figures import figures_of, shown
from biclique_operator.policies.image import KEYS as IMAGE
from biclique_operator.policies.image import image_noted
from biclique_operator.policies.restarts import Record, Verdict
from biclique_operator.policies.situation import Mode, Situation

# --- what a status remembers -----------------------------------------------------------------------------------------


def records_of(status: Raw) -> dict[str, Record]:
    """By the drivers' names."""
    tiers = {one["name"]: _record(one) for one in status.get("tiers") or ()}
    return tiers | {f"joiner-{one['name']}": _record(one) for one in status.get("subgroups") or ()}


def _record(written: Raw) -> Record:
    verdict = written.get("verdict")
    return Record(
        attempt=int(written.get("attempt") or 0),
        judged=int(written.get("judged") or 0),
        failures=int(written.get("restarts") or 0),
        retry_at=seconds_of(written.get("retryAt")) or 0.0,
        ready_since=seconds_of(written.get("readySince")) or 0.0,
        verdict=None if verdict is None else Verdict(verdict),
        why=written.get("why") or "",
    )


def _driver(driver: Driver, attended: Attended, situation: Situation) -> Raw:
    record = attended.record
    said: Raw = {
        "name": driver.subgroup or driver.tier,
        "attempt": record.attempt,
        "state": attended.phase.value,
        "restarts": record.failures,
        "judged": record.judged,
    }
    if driver.subgroup is not None:
        said["resource"] = situation.observed.query.subgroup(driver.subgroup)
        said["unitsWanted"] = driver.units
        said["unitsRunning"] = _running(driver, attended, situation)
    said["executors"] = driver.executors
    if driver.executors:
        said["executorsRunning"] = _executors(attended, situation)
    if attended.pod is not None:
        said["pod"] = attended.pod.name
    if record.retry_at:
        said["retryAt"] = timestamp_of(ceil(record.retry_at))  # never too soon
    if record.ready_since:
        said["readySince"] = timestamp_of(record.ready_since)
    if record.verdict is not None:
        said["verdict"] = record.verdict.value
        said["why"] = record.why
    return said


def _executors(attended: Attended, situation: Situation) -> int:
    """That run, of the attempt that counts."""
    if attended.pod is None:
        return 0
    return sum(each.phase == "Running" and not each.goes for each in situation.observed.executors_of(attended.pod.name))


# What a status says of drivers.
OF_DRIVERS = ("tiers", "subgroups", "units", "strategy", *IMAGE)

# --- a query's -------------------------------------------------------------------------------------------------------


def status_of(situation: Situation) -> Raw:
    """Equal to what stands there unless something has happened, or figures are due."""
    observed, before = situation.observed, situation.observed.status
    attended, now = situation.attended, timestamp_of(situation.now)
    status: Raw = {
        "observedGeneration": observed.generation,
        "id": observed.query.id,
        "conditions": conditions_of(situation, before.get("conditions") or []),
        "tiers": [_driver(driver, each, situation) for driver, each in attended if driver.subgroup is None],
        "subgroups": [_driver(driver, each, situation) for driver, each in attended if driver.subgroup is not None],
        "units": _units(situation),
    }
    if observed.began is not None or "began" in before:
        status["began"] = before.get("began") or now
    if situation.mode is Mode.SUSPENDED and any(each.phase is not Phase.STOPPED for _, each in attended):
        status["stoppingSince"] = before.get("stoppingSince") or now
    if situation.course.runs is None:
        # Which drivers there are is not known now, and must not be forgotten: attempts are counted here.
        status |= {key: before[key] for key in OF_DRIVERS if key in before}
    else:
        status |= image_noted(situation)
        status["strategy"] = ", ".join(dict.fromkeys(s.strategy.value for s in situation.course.runs.plan.stages))
    if paused := list(_paused(situation)):
        status["paused"] = paused
    stood = {key: value for key, value in before.items() if key not in FIGURES}
    return {**status, **_figures(situation, before, written_anyway=status != stood)}


def deletion_status(observed: Observed, now: float) -> Raw:
    before = observed.status
    return {**before, "conditions": being_deleted(before.get("conditions") or [], observed.generation, now)}


def paused_status(observed: Observed, now: float) -> Raw:
    before = observed.status
    return {**before, "conditions": paused(before.get("conditions") or [], observed.generation, now)}


def _paused(situation: Situation) -> Iterator[Raw]:
    for _, says in _heard(situation):
        yield from ({"name": source, "why": why} for source, why in says.paused)


def _heard(situation: Situation) -> list[tuple[Driver, DriverSays]]:
    return [
        (driver, says)
        for driver, each in situation.attended
        if each.pod is not None and (says := situation.observed.told.get(each.pod.name)) is not None
    ]


def _units(situation: Situation) -> str:
    """Of joiners: how many run, of how many there are."""
    joiners = [(driver, each) for driver, each in situation.attended if driver.tier == "joiner"]
    run = sum(_running(driver, each, situation) for driver, each in joiners)
    return f"{run}/{sum(driver.units for driver, _ in joiners)}"


def _running(driver: Driver, attended: Attended, situation: Situation) -> int:
    if attended.phase is not Phase.READY or attended.pod is None:
        return 0
    says = situation.observed.told.get(attended.pod.name)
    return driver.units if says is None or not says.units else sum(unit.state == "runs" for unit in says.units)


def _figures(situation: Situation, before: Raw, written_anyway: bool) -> Raw:
    """None of a query that does not run."""
    if all(each.phase is not Phase.READY for _, each in situation.attended):
        return {}
    heard = _heard(situation)
    reading = [says.figures for driver, says in heard if driver.tier == "shuffler"]
    keeping = [says.figures for driver, says in heard if driver.holds_state]
    run, wanted = (int(number) for number in _units(situation).split("/"))
    return shown(figures_of(reading, keeping, run, wanted), before, written_anyway, situation.now)


# --- a subgroup's ----------------------------------------------------------------------------------------------------


def subgroup_status_of(situation: Situation, driver: Driver, attended: Attended, subgroup: Raw) -> Raw:
    """`replicas`: how many there are, which is what `kubectl scale` compares with what is asked for."""
    before = subgroup.get("status") or {}
    run = _running(driver, attended, situation)
    ready = run >= driver.units
    wanted = int((subgroup.get("spec") or {}).get("replicas") or 0)
    held = f"{driver.units} units are kept in place of {wanted}; a running query does not change their number yet"
    said = {
        reasons.READY: (
            "True" if ready else "False",
            reasons.RUNNING if ready else reasons.STARTING,
            "its units run" if ready else "waits for its units",
        ),
        reasons.SCALING_ACTIVE: (
            "False",
            *((reasons.HELD, held) if wanted != driver.units else (reasons.FIXED, "the number of units stays")),
        ),
    }
    generation = int(subgroup["metadata"].get("generation") or 0)
    stood = {one.get("type"): one for one in before.get("conditions") or ()}
    conditions = []
    for kind, (holds, reason, message) in said.items():
        was = stood.get(kind) or {}
        since = was.get("lastTransitionTime") if was.get("status") == holds else None
        conditions.append(
            {
                "type": kind,
                "status": holds,
                "reason": reason,
                "message": message,
                "observedGeneration": generation,
                "lastTransitionTime": since or timestamp_of(situation.now),
            }
        )
    query = situation.observed.query
    labels = {**query.selector("driver"), "biclique.dev/subgroup": driver.subgroup or ""}
    status: Raw = {
        "observedGeneration": generation,
        "replicas": driver.units,
        "units": f"{run}/{driver.units}",
        "attempt": attended.record.attempt,
        "restarts": attended.record.failures,
        "selector": ",".join(f"{key}={value}" for key, value in labels.items()),
        "conditions": conditions,
    }
    says = None
    if attended.pod is not None:
        status["pod"] = attended.pod.name
        says = situation.observed.told.get(attended.pod.name)
    if says is not None and says.units:
        status["members"] = [
            {"name": unit.name, "state": unit.state, **({"why": unit.why} if unit.why else {})} for unit in says.units
        ]
    if attended.phase is not Phase.READY:
        return status
    told = [] if says is None else [says.figures]
    written_anyway = status != {key: value for key, value in before.items() if key not in FIGURES}
    return {**status, **shown(figures_of(told, told, run, driver.units), before, written_anyway, situation.now)}
