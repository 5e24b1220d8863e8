"""What the two custom resources consist of beside the query: their statuses, and all of `JoinSubgroup`.

A status is for people and their tools, and Kubernetes is all the memory that the operator has: what it must not forget
over a restart of its own is here too (`began`, `stoppingSince`, and of each driver how its attempts went). From `began`
on the API server refuses what state cannot follow (rules.py). Names of fields are final: other people's queries use
them.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, Field, StrictInt, StrictStr

from biclique.query.manifest import DNS_LABEL, Block, Count, Manifest

SUBGROUP = r"^[0-9]{1,3}[LRM][0-9]{1,9}$"
NUMBER = {"format": "int64"}
Number = Annotated[StrictInt, Field(ge=0, json_schema_extra=NUMBER)]
Short = Annotated[StrictStr, Field(max_length=256)]
Sentence = Annotated[StrictStr, Field(max_length=32_768)]


def _by(key: str) -> dict[str, Any]:
    """Members are told apart by this key: a client that changes one of them leaves the others alone."""
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key]}


class Condition(Block):
    """As Kubernetes has it."""

    type: Annotated[StrictStr, Field(max_length=316)]
    """Ready, Progressing, Degraded, StateSafe, ScalingActive or Suspended."""
    status: Literal["True", "False", "Unknown"]
    """Whether it holds."""
    observed_generation: Number | None = None
    """The generation of the resource that this was said of."""
    last_transition_time: AwareDatetime
    """When `status` last changed."""
    reason: Annotated[
        StrictStr, Field(min_length=1, max_length=1024, pattern=r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$")
    ]
    """Why, as one word for programs."""
    message: Sentence
    """Why, as a sentence for people."""


class Figures(Block):
    """Sums over all units; absent: not known. Rounded, so that a steady load is a steady status."""

    units_wanted: Number | None = None
    """Units that there should be."""
    units_running: Number | None = None
    """Units that run."""
    rate_rows_per_second: Number | None = None
    """Rows that are read a second."""
    lag_rows: Number | None = None
    """Rows that wait in the user's topics and have not been read."""
    state_rows: Number | None = None
    """Rows that the units hold."""
    state_bytes: Number | None = None
    """Bytes of them."""
    checkpoint_age_seconds: Number | None = None
    """Since the checkpoint of the unit whose last one is oldest."""
    load: Annotated[float, Field(ge=0)] | None = None
    """Share of its time in which the busiest unit does not rest."""
    at: AwareDatetime | None = None
    """When they were written."""


class Driver(Block):
    pod: Short | None = None
    """The driver's pod, of its present attempt."""
    attempt: Number | None = None
    """Which start of it this is; from 1."""
    state: Short | None = None
    """What it does: Waiting, Starting, Running, NotReady, Stopping or Stopped."""
    why: Sentence | None = None
    """Why it does not simply run."""
    restarts: Number | None = None
    """Restarts that count against its budget; a long healthy run forgets them."""
    judged: Number | None = None
    """The last attempt whose end was counted."""
    verdict: Literal["ended", "mend", "failed", "spent"] | None = None
    """What became of it: it ended as asked, a person must mend something, it failed, or it failed too often."""
    retry_at: AwareDatetime | None = None
    """Before which no further attempt begins."""
    ready_since: AwareDatetime | None = None
    """Since when the present attempt has been ready."""
    executors: Number | None = None
    """Executor pods that it asks for."""
    executors_running: Number | None = None
    """Those of them that run."""


class TierStatus(Driver):
    name: Short
    """shuffler, dispatcher or merger; joiners are under `subgroups`."""


class SubgroupStatus(Driver):
    name: Short
    """Stage, side and number, as 0L0."""
    resource: Short | None = None
    """The JoinSubgroup of it."""
    units_wanted: Number | None = None
    """Units that there should be."""
    units_running: Number | None = None
    """Units that run."""


class PausedSource(Block):
    name: Short
    """The source."""
    why: Sentence
    """Why it is not read."""


class Observed(Block):
    """What both statuses have."""

    observed_generation: Number | None = None
    """The generation that the rest of the status is about."""
    conditions: Annotated[tuple[Condition, ...], Field(max_length=32, json_schema_extra=_by("type"))] | None = None
    """What holds, and why or why not."""
    units: Short | None = None
    """Units that run, of those that there should be, as 3/4."""
    rate: Short | None = None
    """Rows read a second, rounded, as 12k/s."""
    lag: Short | None = None
    """Rows that wait to be read, rounded, as 1.2M."""
    state: Short | None = None
    """How much is stored, rounded, as 1.2Gi."""
    figures: Figures | None = None
    """The same and more, as numbers."""


class JoinQueryStatus(Observed):
    id: Short | None = None
    """What the names of its topics, keys and objects begin with."""
    began: AwareDatetime | None = None
    """When its state began. From then on what state cannot follow cannot be changed: docs/data-plane.md."""
    stopping_since: AwareDatetime | None = None
    """When its drivers were asked to stop, as long as they have not."""
    image: Annotated[StrictStr, Field(max_length=4096)] | None = None
    """The installation's image that it runs with, where its manifest names none: kept until `restarted` is another."""
    restarted: Short | None = None
    """What the annotation biclique.dev/restart said when it came to run with this image."""
    strategy: Short | None = None
    """How tuples are spread over units, as the plan has it; of several stages, one for each."""
    tiers: Annotated[tuple[TierStatus, ...], Field(max_length=8, json_schema_extra=_by("name"))] | None = None
    """The drivers of all tiers but the joiners."""
    subgroups: Annotated[tuple[SubgroupStatus, ...], Field(json_schema_extra=_by("name"))] | None = None
    """The joiners, one driver for each subgroup."""
    paused: Annotated[tuple[PausedSource, ...], Field(json_schema_extra=_by("name"))] | None = None
    """Sources that are not read until a person has looked."""


class UnitStatus(Block):
    name: Short
    """Subgroup and number, as 0L0.2."""
    state: Short
    """What it does: runs, stands still, waits, starting or stopped."""
    why: Sentence | None = None
    """Why it does not simply run."""


class JoinSubgroupSpec(Block):
    query: Annotated[StrictStr, Field(pattern=DNS_LABEL)]
    """The JoinQuery that it belongs to."""
    subgroup: Annotated[StrictStr, Field(pattern=SUBGROUP)]
    """Stage, side and number, as 0L0."""
    replicas: Count
    """Its units; `kubectl scale` changes it."""


class JoinSubgroupStatus(Observed):
    pod: Short | None = None
    """The driver's pod, of its present attempt."""
    attempt: Number | None = None
    """Which start of it this is; from 1."""
    restarts: Number | None = None
    """Restarts that count against its budget; a long healthy run forgets them."""
    replicas: Number | None = None
    """Units that there are."""
    selector: Annotated[StrictStr, Field(max_length=4096)] | None = None
    """Labels of its pods, as `kubectl get pods -l` takes them."""
    members: Annotated[tuple[UnitStatus, ...], Field(json_schema_extra=_by("name"))] | None = None
    """Its units."""


class JoinQuery(Manifest):
    status: JoinQueryStatus | None = None  # of a manifest it may be anything
    """What the operator found; never written by people."""


class JoinSubgroup(Block):
    spec: JoinSubgroupSpec
    """Made by the operator, one for each subgroup of a query; only `replicas` is for others."""
    status: JoinSubgroupStatus | None = None
    """What the operator found; never written by people."""
