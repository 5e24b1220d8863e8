"""What there is of a query, as values: made of the API's objects by `observed_of`, which is the only reader of their
shape.

Nothing here asks the API. Whoever does hands over what it has, fresh or from a cache; a plan that would write anything
is made a second time of what is fresh (controller.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from typing import Any

from pydantic import TypeAdapter, ValidationError

from biclique.query.quantities import Cpu, Memory
from biclique_operator.desired.names import (
    ATTEMPT,
    COMPONENT,
    DRIVER,
    EXECUTOR,
    FINALIZER,
    IMAGE,
    RECONCILE,
    RESTART,
    ROLE,
    SECRETS,
    SPEC_HASH,
    STOP,
    SUBGROUP,
    QueryName,
)

Raw = dict[str, Any]
Key = tuple[str, str]  # kind, name
NOTHING = 0, 0
CPU, MEMORY = TypeAdapter(Cpu), TypeAdapter(Memory)


@dataclass(frozen=True, slots=True)
class Ended:
    """How a driver's container ended. `reason`: the kubelet's, as OOMKilled. `killed`: what a probe found, for
    which the kubelet ended it; its code may be that of any other end."""

    code: int
    reason: str
    message: str
    at: float
    killed: str = ""


@dataclass(frozen=True, slots=True)
class DriverPod:
    """`ended` without a container's end: the pod was evicted, or its node was lost before it began. `trouble`: why it
    does not begin, as (the kubelet's or the scheduler's reason, message). `asks`: of a node, in thousandths of a
    processor and in bytes."""

    name: str
    uid: str
    driver: str  # Driver.name
    attempt: int
    spec_hash: str
    phase: str
    ready: bool
    ready_since: float
    created: float
    deleting_until: float | None  # Kubernetes' own limit, grace included
    ip: str
    ended: Ended | None
    trouble: tuple[str, str] | None
    image: str = ""
    asks: tuple[int, int] = NOTHING
    secrets: int = 0  # the number of the Secret that it shares with its executors; 0: it does not say

    @property
    def is_over(self) -> bool:
        return self.phase in ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class ExecutorPod:
    """Made by Spark. `driver`: the name of the pod that it belongs to. `trouble`, `asks`: as of a driver."""

    name: str
    driver: str
    phase: str
    created: float
    goes: bool  # it is being removed
    trouble: tuple[str, str] | None
    asks: tuple[int, int] = NOTHING

    @property
    def is_pending(self) -> bool:
        return self.phase == "Pending" and not self.goes

    @property
    def is_there(self) -> bool:
        """It runs, or will."""
        return self.phase in ("Pending", "Running") and not self.goes


@dataclass(frozen=True, slots=True)
class Figures:
    """Of a driver, as its own server tells. None: not told."""

    rate_rows_s: float | None = None
    lag_rows: float | None = None
    state_rows: float | None = None
    state_bytes: float | None = None
    checkpoint_age_s: float | None = None
    load: float | None = None


@dataclass(frozen=True, slots=True)
class UnitSays:
    name: str
    state: str
    why: str


@dataclass(frozen=True, slots=True)
class DriverSays:
    """The answer of a driver's server. `why`: it is not ready; empty: it is. `paused`: sources, each with why."""

    figures: Figures
    why: str = ""
    units: tuple[UnitSays, ...] = ()
    paused: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Observed:
    """`objects`: by kind and name, as the API has them. `told`: by name of a driver pod; a pod that was not heard is
    missing. `events`: by name of a pod that does not begin, what Kubernetes said of it last. `noted`: what it leaves
    behind has been noted. `refused_since`: when the newest of those began that the API refuses
    (policies/refusals.py) or would, of executors that are missing (trials.py). `unanswered`: it has not told this
    operator yet whether it would."""

    query: QueryName
    generation: int
    spec: Raw
    annotations: Mapping[str, str]
    finalizers: tuple[str, ...]
    deleting_since: float | None
    status: Raw
    objects: Mapping[Key, Raw]
    pods: tuple[DriverPod, ...]
    executors: tuple[ExecutorPod, ...] = ()
    told: Mapping[str, DriverSays] = field(default_factory=dict)
    events: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    noted: bool = False
    refused_since: float | None = None
    unanswered: bool = False
    has_secret: bool = False  # something was made that mounts the Secret of its executors

    @property
    def paused(self) -> bool:
        return self.annotations.get(RECONCILE) == "paused"

    @property
    def restart(self) -> str:
        return self.annotations.get(RESTART, "")

    @property
    def has_finalizer(self) -> bool:
        return FINALIZER in self.finalizers

    def object(self, kind: str, name: str) -> Raw | None:
        return self.objects.get((kind, name))

    def owns(self, obj: Raw) -> bool:
        """Labels alone do not say it: `kubectl expose pod` copies those of a driver to a Service of somebody else's."""
        return any(one.get("uid") == self.query.uid for one in obj["metadata"].get("ownerReferences") or ())

    def pods_of(self, driver: str) -> tuple[DriverPod, ...]:
        """Oldest attempt first."""
        return tuple(pod for pod in self.pods if pod.driver == driver)

    def executors_of(self, pod: str) -> tuple[ExecutorPod, ...]:
        """Of a driver's pod."""
        return tuple(each for each in self.executors if each.driver == pod)

    @property
    def manifest_text(self) -> str | None:
        found = self.object("ConfigMap", self.query.manifest)
        return None if found is None else (found.get("data") or {}).get("join.yaml")

    @property
    def began(self) -> str | None:
        """What the tiers noted when the query began."""
        found = self.object("ConfigMap", self.query.routing)
        return None if found is None else (found.get("data") or {}).get("began")

    @property
    def lost(self) -> bool:
        """Its tiers have noted how it began, and that is gone, routing tables and all."""
        return self.began is None and "began" in self.status

    @property
    def stop_is_set(self) -> bool:
        found = self.object("ConfigMap", self.query.routing)
        return found is not None and annotations_of(found).get(STOP) == "true"


def observed_of(
    joinquery: Raw,
    others: Iterable[Raw],
    told: Mapping[str, DriverSays] | None = None,
    events: Mapping[str, tuple[str, str]] | None = None,
) -> Observed:
    """`others`: whatever carries the labels of this query, pods among them."""
    about = joinquery["metadata"]
    others = tuple(others)
    secrets = max(map(secrets_of, others), default=0)
    objects: dict[Key, Raw] = {}
    pods: list[DriverPod] = []
    executors: list[ExecutorPod] = []
    for other in others:
        if other["kind"] == "Pod":
            if labels_of(other).get(ROLE) == DRIVER:
                pods.append(driver_pod_of(other))
            elif labels_of(other).get(ROLE) == EXECUTOR:
                executors.append(executor_pod_of(other))
        else:
            objects[other["kind"], other["metadata"]["name"]] = other
    return Observed(
        query=QueryName(about["name"], about["namespace"], about["uid"], max(secrets, 1)),
        generation=int(about.get("generation") or 0),
        spec=joinquery.get("spec") or {},
        annotations=about.get("annotations") or {},
        finalizers=tuple(about.get("finalizers") or ()),
        deleting_since=seconds_of(about.get("deletionTimestamp")),
        status=joinquery.get("status") or {},
        objects=objects,
        pods=tuple(sorted(pods, key=lambda pod: (pod.driver, pod.attempt))),
        executors=tuple(sorted(executors, key=lambda pod: pod.name)),
        told=told or {},
        events=events or {},
        has_secret=secrets > 0,
    )


def driver_pod_of(pod: Raw) -> DriverPod:
    about, status, labels = pod["metadata"], pod.get("status") or {}, labels_of(pod)
    conditions = {one["type"]: one for one in status.get("conditions") or ()}
    ready = conditions.get("Ready") or {}
    tier, subgroup = labels.get(COMPONENT, ""), labels.get(SUBGROUP)
    containers = status.get("containerStatuses") or ()
    return DriverPod(
        name=about["name"],
        uid=about.get("uid", ""),
        driver=tier if subgroup is None else f"{tier}-{subgroup}",
        attempt=attempt_of(pod),
        spec_hash=annotations_of(pod).get(SPEC_HASH, ""),
        phase=status.get("phase") or "Pending",
        ready=ready.get("status") == "True",
        ready_since=seconds_of(ready.get("lastTransitionTime")) or 0.0,
        created=seconds_of(about.get("creationTimestamp")) or 0.0,
        deleting_until=seconds_of(about.get("deletionTimestamp")),
        ip=status.get("podIP") or "",
        ended=_ended(status, containers),
        trouble=_trouble(status, conditions, containers),
        image=annotations_of(pod).get(IMAGE, ""),
        asks=_asks(pod),
        secrets=secrets_of(pod),
    )


def executor_pod_of(pod: Raw) -> ExecutorPod:
    """Whose it is, its owner says."""
    about, status = pod["metadata"], pod.get("status") or {}
    conditions = {one["type"]: one for one in status.get("conditions") or ()}
    owners = [one["name"] for one in about.get("ownerReferences") or () if one.get("kind") == "Pod"]
    return ExecutorPod(
        name=about["name"],
        driver=owners[0] if owners else "",
        phase=status.get("phase") or "Pending",
        created=seconds_of(about.get("creationTimestamp")) or 0.0,
        goes="deletionTimestamp" in about,
        trouble=_trouble(status, conditions, status.get("containerStatuses") or ()),
        asks=_asks(pod),
    )


def _asks(pod: Raw) -> tuple[int, int]:
    """Without what a cluster adds of its own. What is written as neither we nor Spark write it counts as nothing."""
    requests = [
        (one.get("resources") or {}).get("requests") or {}
        for one in (pod.get("spec") or {}).get("containers") or ()
        if one.get("name") in (DRIVER, EXECUTOR)
    ]
    try:
        cpu = sum(CPU.validate_python(one["cpu"]) for one in requests if "cpu" in one)
        return cpu, sum(MEMORY.validate_python(one["memory"]) for one in requests if "memory" in one)
    except ValidationError:
        return NOTHING


def _ended(status: Raw, containers: Iterable[Raw]) -> Ended | None:
    if status.get("phase") not in ("Succeeded", "Failed"):
        return None
    for container in containers:
        end = (container.get("state") or {}).get("terminated")
        if end is not None:
            at = seconds_of(end.get("finishedAt")) or 0.0
            return Ended(int(end.get("exitCode") or 0), end.get("reason") or "", end.get("message") or "", at)
    # Evicted, or its node was lost: no container says anything.
    return Ended(137, status.get("reason") or "Lost", status.get("message") or "", 0.0)


def _trouble(status: Raw, conditions: Mapping[str, Raw], containers: Iterable[Raw]) -> tuple[str, str] | None:
    scheduled = conditions.get("PodScheduled") or {}
    if scheduled.get("status") == "False":
        return scheduled.get("reason") or "Unschedulable", scheduled.get("message") or ""
    for container in containers:
        waiting = (container.get("state") or {}).get("waiting")
        if waiting is not None and waiting.get("reason") not in ("ContainerCreating", "PodInitializing", None):
            return waiting["reason"], waiting.get("message") or ""
    return None


def says_of(answer: Raw) -> DriverSays:
    """Of a driver's own `GET /status`, whatever is missing in it."""
    told = answer.get("figures") or {}
    units = answer.get("units") or {}
    return DriverSays(
        Figures(**{one.name: told.get(one.name) for one in fields(Figures)}),
        str(answer.get("why") or ""),
        tuple(UnitSays(name, str(one.get("state") or ""), str(one.get("why") or "")) for name, one in units.items()),
        tuple((str(source), str(why)) for source, why in (answer.get("paused") or {}).items()),
    )


def attempt_of(pod: Raw) -> int:
    """Of a pod that lost its annotation: as its name says, since names are not used twice."""
    written = annotations_of(pod).get(ATTEMPT) or pod["metadata"]["name"].rpartition("-")[2]
    return int(written) if written.isdigit() else 0


def secrets_of(obj: Raw) -> int:
    """The number of the Secret that a driver pod, or what it tells Spark, mounts; 0: it says none."""
    written = annotations_of(obj).get(SECRETS, "")
    return int(written) if written.isdigit() else 0


def labels_of(obj: Raw) -> dict[str, str]:
    return obj["metadata"].get("labels") or {}


def annotations_of(obj: Raw) -> dict[str, str]:
    return obj["metadata"].get("annotations") or {}


def seconds_of(written: str | None) -> float | None:
    """Kubernetes' timestamps, as seconds since 1970."""
    return None if written is None else datetime.fromisoformat(written.replace("Z", "+00:00")).timestamp()


def timestamp_of(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
