"""From what is observed of a query to what is done about it. Pure: the same values give the same plan.

A plan that is empty is the normal case. What it holds is done in its order: what is to be swept later is noted, then
objects, pods and what is told of them, the status that says what was done, and the events of what it says. Every part
may be done twice, and a plan may end anywhere: the next look makes the rest of it, from what is there then."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from biclique_operator.checked import Checked, check, manifest_text
from biclique_operator.desired import config_maps
from biclique_operator.desired.all import KINDS, mounts_of_driver, objects_of
from biclique_operator.desired.driver_pod import driver_pod, pod_name
from biclique_operator.desired.drivers import Driver, drivers_of
from biclique_operator.desired.executor_pod import trial
from biclique_operator.desired.names import FINALIZER, owner_reference
from biclique_operator.differences import differs, sealed
from biclique_operator.observed import Observed, Raw, seconds_of
from biclique_operator.policies import reasons
from biclique_operator.policies.attempts import Attended, Phase, attend, rest, rolled
from biclique_operator.policies.events import Event, events_of_conditions, events_of_drivers, taken_away
from biclique_operator.policies.image import image_of
from biclique_operator.policies.lacking import called, lacking
from biclique_operator.policies.lifecycle import Course, course_of
from biclique_operator.policies.restarts import Record
from biclique_operator.policies.rollout import spec_hash
from biclique_operator.policies.situation import Mode, Situation
from biclique_operator.policies.status import (
    deletion_status,
    paused_status,
    records_of,
    status_of,
)
from biclique_operator.policies.subgroup_status import (
    deletion_status_of,
    paused_status_of,
    subgroup_status_of,
    unknown_status_of,
)
from biclique_operator.policies.turns import outdated_of, smaller_of, stuck_of, to_roll_of, why_rolled
from biclique_operator.settings import Installation

STOP_PATIENCE_S = 45.0  # so long drivers may take to stop by themselves when a query is suspended
# And so long when it is deleted, which must end within a minute: what has not stopped has 20 s more when it is told to.
DELETE_PATIENCE_S = 12.0
# While something begins: why it does not is told by events, which nobody watches. What has not begun for long is looked
# at more rarely; when it does, a watch tells.
STARTING_LOOK_S, STARTING_LOOK_MAX_S, STARTING_SHARE = 5.0, 60.0, 0.25
RUNNING_LOOK_S = 30.0  # figures
MISSING_LOOK_S = 10.0  # while a driver has fewer executors than it asks for


@dataclass(frozen=True, slots=True)
class Removal:
    """Of exactly the object that was seen: by uid."""

    kind: str
    name: str
    uid: str
    why: str


@dataclass(frozen=True)
class Plan:
    """`needs_secret`: the one of executors is made, unless it is there. `trials`: executors that are missing, by what
    they are called in a sentence; whether the API would take them is to be asked. `status` None: as it stands.
    `subgroups`: statuses of JoinSubgroups, by name. `deeds`: by the pods that they are about, told as soon as those
    were made and removed: who finds them so at the next look does not know that nobody was told. `finalizers` None: as
    they stand. `leftovers`: the manifest whose topics and keys are to be swept later, noted before anything else.
    `look_again_s` None: when something changes."""

    apply: tuple[Raw, ...] = ()
    needs_secret: bool = False
    create: tuple[Raw, ...] = ()
    remove: tuple[Removal, ...] = ()
    status: Raw | None = None
    subgroups: tuple[tuple[str, Raw], ...] = ()
    leftovers: str | None = None
    finalizers: tuple[str, ...] | None = None
    deeds: tuple[tuple[str, Event], ...] = ()
    events: tuple[Event, ...] = ()
    trials: tuple[tuple[str, Raw], ...] = ()
    look_again_s: float | None = None

    @property
    def writes(self) -> bool:
        return bool(
            self.apply
            or self.create
            or self.remove
            or self.status is not None
            or self.subgroups
            or self.leftovers is not None
            or self.finalizers is not None
        )


@dataclass(frozen=True)
class _Decided:
    """What is decided about the drivers of a query."""

    attended: tuple[tuple[Driver, Attended], ...]
    hashes: Mapping[str, str]
    rolling: frozenset[str] = frozenset()


def plan(
    observed: Observed,
    installation: Installation,
    now: float,
    refusals: Mapping[str, tuple[int, str]] | None = None,
) -> Plan:
    """`refusals`: of pods that the API did not take the last time, or would not take, of what they need, and of what it
    did not let go of (policies/lacking.py), as (code, message)."""
    if observed.deleting_since is not None:
        return _deletion(observed, now)
    if observed.paused:
        return _only_said(observed, now)
    if not observed.has_finalizer:
        # Before anything exists that would have to be swept.
        return Plan(finalizers=(*observed.finalizers, FINALIZER), look_again_s=0.0)
    lost = observed.query.routing if observed.lost else None
    course = course_of(observed.query.name, observed.spec, observed.manifest_text, observed.began, lost)
    mode = _mode(observed)
    drivers = () if course.runs is None else drivers_of(course.runs.plan, course.runs.spec)
    refused = refusals or {}
    installation = installation.of_image(image_of(observed, installation.images.spark))
    decided = _decide(observed, course, mode, drivers, installation, refused, now)
    decided = _without_what_cannot_begin(decided, observed, refused)
    trials = () if course.runs is None else tuple(_trials(observed, course.runs, decided, installation))
    situation = Situation(
        observed=observed,
        course=course,
        mode=mode,
        attended=decided.attended,
        rolling=decided.rolling,
        refusals=refused,
        scaled=tuple(_scaled(observed, drivers)),
        unanswered=bool(trials) and observed.unanswered,
        now=now,
    )
    status = status_of(situation)
    changed = None if status == observed.status else status
    told = tuple(events_of_conditions(observed.status, status))
    if course.runs is None:
        apply, remove = _rests_anyway(observed, now) if mode is Mode.SUSPENDED else ((), ())
        away = {removal.name: removal.why for removal in remove}
        return Plan(
            apply=apply,
            remove=remove,
            deeds=tuple((name, taken_away(name, why)) for name, why in away.items()),
            status=changed,
            subgroups=tuple(_of_subgroups(observed, lambda subgroup: unknown_status_of(situation, subgroup))),
            events=told if changed else (),
            look_again_s=_look_again(situation, now),
        )
    wanted = objects_of(
        observed.query, course.runs, drivers, _replicas(observed, drivers), mode is Mode.SUSPENDED, installation
    )
    create = tuple(_pods(observed, course.runs, decided, installation))
    remove = tuple(_removals(observed, drivers, decided, wanted))
    apply = tuple(_applied(observed, wanted))
    # Before whatever mounts it: a driver, or a template of executors, which a driver that runs reads for each of them.
    shared = any(driver.executors for driver in drivers) and bool(apply or create)
    return Plan(
        apply=apply,
        needs_secret=shared,
        create=create,
        remove=remove,
        status=changed,
        subgroups=tuple(_subgroups(situation)),
        deeds=tuple(events_of_drivers(decided.attended, create, refused)),
        events=told if changed else (),
        trials=trials,
        look_again_s=_look_again(situation, now, _waits_for_subgroup(observed, decided, refused), trials),
    )


def _rests_anyway(observed: Observed, now: float) -> tuple[tuple[Raw, ...], tuple[Removal, ...]]:
    """Whatever its manifest has become, what runs of a query can be told to stop. What has ended stays: how far its
    attempts have come is not known otherwise."""
    alive = [pod for pod in observed.pods if not pod.is_over]
    asked_at = seconds_of(observed.status.get("stoppingSince")) or now
    overdue = now >= asked_at + STOP_PATIENCE_S
    away = (Removal("Pod", pod.name, pod.uid, "it did not stop by itself") for pod in alive if not pod.deleting_until)
    return _asks_to_stop(observed) if alive else (), tuple(away) if overdue else ()


def _asks_to_stop(observed: Observed) -> tuple[Raw, ...]:
    routing = observed.object("ConfigMap", observed.query.routing)
    if routing is None or routing["metadata"].get("deletionTimestamp") or observed.stop_is_set:
        return ()
    return (sealed(config_maps.routing(observed.query, stopping=True)),)


def _only_said(observed: Observed, now: float) -> Plan:
    """That nothing is changed."""
    subgroups = tuple(_of_subgroups(observed, lambda subgroup: paused_status_of(subgroup, now)))
    status = paused_status(observed, now)
    if status == observed.status:
        return Plan(subgroups=subgroups)
    return Plan(status=status, subgroups=subgroups, events=tuple(events_of_conditions(observed.status, status)))


def _mode(observed: Observed) -> Mode:
    return Mode.SUSPENDED if observed.spec.get("suspend") is True else Mode.RUNS


# --- drivers ---------------------------------------------------------------------------------------------------------


def _decide(
    observed: Observed,
    course: Course,
    mode: Mode,
    drivers: tuple[Driver, ...],
    installation: Installation,
    refusals: Mapping[str, tuple[int, str]],
    now: float,
) -> _Decided:
    records = records_of(observed.status)
    if course.runs is None:
        return _Decided((), {})
    hashes = {driver.name: spec_hash(driver, course.runs.spec, observed.restart) for driver in drivers}
    if mode is Mode.SUSPENDED:
        asked_at = seconds_of(observed.status.get("stoppingSince")) or now
        until = asked_at + STOP_PATIENCE_S
        resting = [
            (driver, rest(records.get(driver.name, Record()), observed.pods_of(driver.name), now >= until, until))
            for driver in drivers
        ]
        return _Decided(tuple(resting), hashes)
    attended = {
        driver.name: attend(
            driver.name,
            records.get(driver.name, Record()),
            observed.pods_of(driver.name),
            hashes[driver.name],
            now,
        )
        for driver in drivers
    }
    if observed.lost:
        return _Decided(tuple((driver, _held_back(attended[driver.name])) for driver in drivers), hashes)
    outdated = outdated_of(drivers, attended, hashes, installation.images.spark, observed.query.secrets)
    stuck = stuck_of(observed, drivers, attended, refusals) - outdated
    # Whoever would come after one that goes could not begin.
    to_roll: frozenset[str] = frozenset()
    if lacking(observed, refusals) is None:
        to_roll = frozenset(to_roll_of(attended, outdated, stuck, smaller_of(observed, drivers, attended)))

    def followed(driver: Driver, each: Attended) -> Attended:
        if driver.name not in to_roll:
            return each
        return rolled(each, why_rolled(driver, each, hashes[driver.name], observed.query.secrets))

    found = tuple((driver, followed(driver, attended[driver.name])) for driver in drivers)
    if _was_rolling(observed):
        # A roll is under way until what was begun for it is ready.
        outdated |= {
            driver.name for driver, each in found if each.phase is not Phase.READY and not each.record.failures
        }
    return _Decided(found, hashes, outdated)


def _without_what_cannot_begin(
    decided: _Decided, observed: Observed, refusals: Mapping[str, tuple[int, str]]
) -> _Decided:
    """An attempt whose pod was not taken, or whose subgroup is still to be made, has not begun: it is tried again under
    its number."""
    found = []
    for driver, each in decided.attended:
        if each.start is not None:
            refused = pod_name(observed.query, driver, each.start) in refusals
            if refused or _owner(observed, driver) is None:
                each = replace(each, phase=Phase.WAITING, record=replace(each.record, attempt=each.start - 1))
        found.append((driver, each))
    return replace(decided, attended=tuple(found))


def _held_back(attended: Attended) -> Attended:
    """What runs, runs on; what has ended begins, under its number, when it can be told with what."""
    if attended.start is None:
        return replace(attended, take_away=())
    record = replace(attended.record, attempt=attended.start - 1)
    return Attended(record, Phase.WAITING)


def _was_rolling(observed: Observed) -> bool:
    return any(
        one.get("type") == reasons.PROGRESSING and one.get("reason") == reasons.ROLLING
        for one in observed.status.get("conditions") or ()
    )


def _pods(observed: Observed, runs: Checked, decided: _Decided, installation: Installation) -> Iterator[Raw]:
    for driver, attended in decided.attended:
        owner = _owner(observed, driver)
        if attended.start is None or owner is None:
            continue
        yield driver_pod(
            observed.query,
            driver,
            attended.start,
            decided.hashes[driver.name],
            observed.generation,
            owner,
            runs.text,
            mounts_of_driver(observed.query, runs, driver),
            installation,
        )


def _trials(
    observed: Observed, runs: Checked, decided: _Decided, installation: Installation
) -> Iterator[tuple[str, Raw]]:
    """One for each driver that runs and has fewer executors than it asks for: nobody else tells why."""
    for driver, attended in decided.attended:
        pod = attended.pod
        if pod is None or pod.phase != "Running" or pod.deleting_until is not None or attended.phase is Phase.ENDING:
            continue
        if sum(executor.is_there for executor in observed.executors_of(pod.name)) < driver.executors:
            mounts = mounts_of_driver(observed.query, runs, driver)
            found = trial(observed.query, driver, pod.name, mounts, installation.images)
            yield f"an executor of {pod.name}", found


def _owner(observed: Observed, driver: Driver) -> Raw | None:
    """None: of a joiner whose subgroup is still to be made."""
    if driver.subgroup is None:
        return observed.query.owner()
    name = observed.query.subgroup(driver.subgroup)
    found = observed.object("JoinSubgroup", name)
    return None if found is None else owner_reference("JoinSubgroup", name, found["metadata"]["uid"])


def _waits_for_subgroup(observed: Observed, decided: _Decided, refusals: Mapping[str, tuple[int, str]]) -> bool:
    """That is made now: of one that the API does not take, looking again at once would find the same."""
    return any(
        each.start is not None
        and _owner(observed, driver) is None
        and called("JoinSubgroup", observed.query.subgroup(driver.subgroup or "")) not in refusals
        for driver, each in decided.attended
    )


# --- objects ---------------------------------------------------------------------------------------------------------


def _replicas(observed: Observed, drivers: tuple[Driver, ...]) -> dict[str, int]:
    """Of subgroups that are there."""
    found = {}
    for driver in drivers:
        if driver.subgroup is not None:
            subgroup = observed.object("JoinSubgroup", observed.query.subgroup(driver.subgroup))
            if subgroup is not None:
                found[driver.subgroup] = int(subgroup["spec"]["replicas"])
    return found


def _applied(observed: Observed, objects: tuple[Raw, ...]) -> Iterator[Raw]:
    for desired in objects:
        wanted = sealed(desired)
        name = wanted["metadata"]["name"]
        if observed.lost and name == observed.query.routing and observed.object("ConfigMap", name) is None:
            # Drivers that run live on what they have heard of it. An empty one would be news to them, and would be in
            # the way of whoever restores it.
            continue
        if differs(wanted, observed.object(str(desired["kind"]), name)):
            yield wanted


def _removals(
    observed: Observed, drivers: tuple[Driver, ...], decided: _Decided, objects: tuple[Raw, ...]
) -> Iterator[Removal]:
    for _, attended in decided.attended:
        for pod, why in attended.take_away:
            yield Removal("Pod", pod.name, pod.uid, why)
    names = {driver.name for driver in drivers}
    for pod in observed.pods:
        if pod.driver not in names and pod.deleting_until is None:
            yield Removal("Pod", pod.name, pod.uid, "the query has no such tier any more")
    wanted = {(str(one["kind"]), one["metadata"]["name"]) for one in objects}
    for (kind, name), found in observed.objects.items():
        about = found["metadata"]
        if kind not in KINDS or (kind, name) in wanted or about.get("deletionTimestamp"):
            continue
        if observed.owns(found):
            yield Removal(kind, name, about.get("uid", ""), "the query wants it no more")


def _scaled(observed: Observed, drivers: tuple[Driver, ...]) -> Iterator[tuple[str, int, int]]:
    for driver in drivers:
        if driver.subgroup is None:
            continue
        found = observed.object("JoinSubgroup", observed.query.subgroup(driver.subgroup))
        wanted = None if found is None else int(found["spec"]["replicas"])
        if wanted is not None and wanted != driver.units:
            yield observed.query.subgroup(driver.subgroup), wanted, driver.units


def _subgroups(situation: Situation) -> Iterator[tuple[str, Raw]]:
    joiners = {
        situation.observed.query.subgroup(driver.subgroup): (driver, attended)
        for driver, attended in situation.attended
        if driver.subgroup is not None
    }

    def said(subgroup: Raw) -> Raw | None:
        found = joiners.get(subgroup["metadata"]["name"])
        return None if found is None else subgroup_status_of(situation, *found, subgroup)

    return _of_subgroups(situation.observed, said)


def _of_subgroups(observed: Observed, said: Callable[[Raw], Raw | None]) -> Iterator[tuple[str, Raw]]:
    """Statuses that are not what stands there. One that goes is left alone."""
    for (kind, name), found in observed.objects.items():
        if kind == "JoinSubgroup" and observed.owns(found) and not found["metadata"].get("deletionTimestamp"):
            status = said(found)
            if status is not None and status != (found.get("status") or {}):
                yield name, status


# --- deletion --------------------------------------------------------------------------------------------------------


def _deletion(observed: Observed, now: float) -> Plan:
    """Drivers are asked to stop, and have a little time for it; then the query goes, whatever they do, and Kubernetes
    removes what it owned. What is in Kafka and Redis is noted at the first look and swept later: neither has to answer
    now, and what tells of it may be removed before the drivers are."""
    if not observed.has_finalizer:
        return Plan()
    assert observed.deleting_since is not None, "it is being deleted"
    until = observed.deleting_since + DELETE_PATIENCE_S
    alive = [pod for pod in observed.pods if pod.phase not in ("Pending", "Succeeded", "Failed")]
    ask = _asks_to_stop(observed)
    leaves = None if observed.noted else _what_tells_of_leftovers(observed)
    if alive and now < until:
        status = deletion_status(observed, now)
        return Plan(
            apply=ask,
            status=None if status == observed.status else status,
            subgroups=tuple(_of_subgroups(observed, lambda subgroup: deletion_status_of(subgroup, now))),
            leftovers=leaves,
            look_again_s=min(until - now, STARTING_LOOK_S),
        )
    removals = tuple(
        Removal("Pod", pod.name, pod.uid, "the query is deleted") for pod in observed.pods if pod.deleting_until is None
    )
    others = tuple(name for name in observed.finalizers if name != FINALIZER)
    return Plan(apply=ask if alive else (), remove=removals, leftovers=leaves, finalizers=others)


def _what_tells_of_leftovers(observed: Observed) -> str | None:
    """The manifest that the tiers were given; where it is gone, as after a deletion in the foreground or with the whole
    namespace, what the query says. None: neither could ever run."""
    texts = observed.manifest_text, manifest_text(observed.query.name, observed.spec)
    return next((text for text in texts if text is not None and isinstance(check(text), Checked)), None)


# --- when to look again ----------------------------------------------------------------------------------------------


def _look_again(
    situation: Situation, now: float, at_once: bool = False, trials: tuple[tuple[str, Raw], ...] = ()
) -> float | None:
    """`trials`: of executors that are missing."""
    if at_once:
        return 0.0
    observed = situation.observed
    times = [each.look_again_at - now for _, each in situation.attended if each.look_again_at]
    waited_for = [each for _, each in situation.attended if each.phase is not Phase.READY]
    pending = [executor.created for executor in observed.executors if executor.is_pending]
    stood = 0.0 if observed.refused_since is None else now - observed.refused_since
    if situation.refusals or waited_for or pending:
        created = [*pending, *(each.pod.created for each in waited_for if each.pod is not None)]
        ages = [now - at for at in created]
        ages += [stood] if situation.refusals else []
        times.append(rarer(STARTING_LOOK_S, min(ages, default=0.0)))
    elif situation.mode is Mode.RUNS and situation.attended:
        times.append(RUNNING_LOOK_S)
    elif situation.mode is Mode.SUSPENDED and not situation.attended and situation.not_stopped:
        times.append(STARTING_LOOK_S)  # until it is told, and then until its time is up
    if trials:
        # One that is not refused, or not known to be, may be at any time.
        all_refused = situation.refusals.keys() >= {name for name, _ in trials}
        times.append(rarer(MISSING_LOOK_S, stood if all_refused else 0.0))
    return max(0.5, min(times)) if times else None


def rarer(least_s: float, stood_s: float) -> float:
    """Until that is looked at again which has stood for so long."""
    return min(max(least_s, STARTING_SHARE * stood_s), STARTING_LOOK_MAX_S)
