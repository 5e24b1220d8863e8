"""The status of a JoinSubgroup: what is said of its query, of its own driver alone."""

from __future__ import annotations

from dataclasses import replace

from biclique_operator.desired.driver_pod import pod_stem
from biclique_operator.desired.drivers import Driver
from biclique_operator.desired.names import QueryName
from biclique_operator.observed import Observed, Raw
from biclique_operator.policies.attempts import Attended, Phase
from biclique_operator.policies.conditions import being_deleted, conditions_of, paused
from biclique_operator.policies.figures import KEYS as FIGURES
from biclique_operator.policies.figures import figures_of, shown
from biclique_operator.policies.lacking import called
from biclique_operator.policies.situation import Situation
from biclique_operator.policies.status import running


def subgroup_status_of(situation: Situation, driver: Driver, attended: Attended, subgroup: Raw) -> Raw:
    """`replicas`: how many there are, which is what `kubectl scale` compares with what is asked for."""
    before = subgroup.get("status") or {}
    run = running(driver, attended, situation)
    alone = _narrowed(situation, driver, _as_ready_as_its_units(driver, attended, run), subgroup)
    query = situation.observed.query
    labels = {**query.selector("driver"), "biclique.dev/subgroup": driver.subgroup or ""}
    status: Raw = {
        "observedGeneration": alone.observed.generation,
        "replicas": driver.units,
        "units": f"{run}/{driver.units}",
        "attempt": attended.record.attempt,
        "restarts": attended.record.failures,
        "selector": ",".join(f"{key}={value}" for key, value in labels.items()),
        "conditions": conditions_of(alone, before.get("conditions") or []),
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


def _as_ready_as_its_units(driver: Driver, attended: Attended, run: int) -> Attended:
    """Its driver may answer, and not all of its units run. What has ended before is not why."""
    if attended.phase is not Phase.READY or run >= driver.units:
        return attended
    return replace(attended, phase=Phase.NOT_READY, record=replace(attended.record, verdict=None, why=""))


def deletion_status_of(subgroup: Raw, now: float) -> Raw:
    before = subgroup.get("status") or {}
    return {**before, "conditions": being_deleted(before.get("conditions") or [], _generation(subgroup), now)}


def paused_status_of(subgroup: Raw, now: float) -> Raw:
    before = subgroup.get("status") or {}
    return {**before, "conditions": paused(before.get("conditions") or [], _generation(subgroup), now)}


def unknown_status_of(situation: Situation, subgroup: Raw) -> Raw:
    """While there is no manifest to run: what there was is kept, as in the query's."""
    before = subgroup.get("status") or {}
    alone = replace(situation, observed=_as_its_own(situation, subgroup), of_a_subgroup=True)
    return {**before, "conditions": conditions_of(alone, before.get("conditions") or [])}


def _narrowed(situation: Situation, driver: Driver, attended: Attended, subgroup: Raw) -> Situation:
    query, name = situation.observed.query, subgroup["metadata"]["name"]
    others = [stem for each, _ in situation.attended if each.name != driver.name for stem in _only_of(query, each)]
    others = [other for other in others if other not in _only_of(query, driver)]
    course = situation.course
    if attended.phase is Phase.READY:
        course = replace(course, refused=None)  # of its query: nothing of this one is amiss
    return replace(
        situation,
        course=course,
        observed=_as_its_own(situation, subgroup),
        attended=((driver, attended),),
        rolling=situation.rolling & {driver.name},
        refusals={what: why for what, why in situation.refusals.items() if not any(stem in what for stem in others)},
        scaled=tuple(one for one in situation.scaled if one[0] == name),
        of_a_subgroup=True,
    )


def _only_of(query: QueryName, driver: Driver) -> tuple[str, ...]:
    """What refusals name that concern this driver, and perhaps others of its tier."""
    own = () if driver.subgroup is None else (called("JoinSubgroup", query.subgroup(driver.subgroup)),)
    return pod_stem(query, driver), called("ConfigMap", query.spark(driver.tier)), *own


def _as_its_own(situation: Situation, subgroup: Raw) -> Observed:
    return replace(situation.observed, generation=_generation(subgroup), status=subgroup.get("status") or {})


def _generation(subgroup: Raw) -> int:
    return int(subgroup["metadata"].get("generation") or 0)
