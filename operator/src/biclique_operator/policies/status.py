"""The status of a JoinQuery, and how it remembers what became of each driver."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil

from biclique_operator.desired.drivers import Driver
from biclique_operator.observed import DriverSays, Observed, Raw, seconds_of, timestamp_of
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
        said["unitsRunning"] = running(driver, attended, situation)
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
    if situation.mode is Mode.SUSPENDED and situation.not_stopped:
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
    """Every driver tells of every source that is paused; the API takes a name once."""
    said = dict(pair for _, says in _heard(situation) for pair in says.paused)
    yield from ({"name": source, "why": why} for source, why in said.items())


def _heard(situation: Situation) -> list[tuple[Driver, DriverSays]]:
    return [
        (driver, says)
        for driver, each in situation.attended
        if each.pod is not None and (says := situation.observed.told.get(each.pod.name)) is not None
    ]


def _units(situation: Situation) -> str:
    """Of joiners: how many run, of how many there are."""
    joiners = [(driver, each) for driver, each in situation.attended if driver.tier == "joiner"]
    run = sum(running(driver, each, situation) for driver, each in joiners)
    return f"{run}/{sum(driver.units for driver, _ in joiners)}"


def running(driver: Driver, attended: Attended, situation: Situation) -> int:
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
