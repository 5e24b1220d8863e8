"""Which drivers a query has, in dataflow order, and what each of them is given: from its plan and its manifest.

A driver is a pod of the operator's. With executors Spark makes further pods, which hold the units; else the units run
in the driver.
"""

from __future__ import annotations

from dataclasses import dataclass

from biclique.plan.model import Plan
from biclique.plan.table import first_table
from biclique.query.manifest import PodOverride, Spec, Toleration
from biclique.query.model import Bucket, Kafka, Query, Volume

MIB = 1 << 20
# A tier's program: Java's heap and what Python needs before it holds any row. Units come on top.
PROGRAM_BYTES = 1024 * MIB
UNITS_BYTES_MIN = 1280 * MIB  # of a driver that runs dispatchers, mergers or the shuffler's tasks
EXECUTOR_BYTES_MIN = 1024 * MIB
CPU_OF_EMPTY_DRIVER = 100  # thousandths: one that has executors only looks after them


@dataclass(frozen=True, slots=True)
class Pods:
    """Of one tier. `cpu`: thousandths of a processor. `image` empty: the installation's."""

    cpu: int
    memory_bytes: int
    image: str
    node_selector: dict[str, str]
    tolerations: tuple[dict[str, object], ...]


@dataclass(frozen=True, slots=True)
class Driver:
    """`name` tells it apart among those of its query: the tier, and of a joiner its subgroup."""

    tier: str
    subgroup: str | None
    units: int
    executors: int
    pods: Pods

    @property
    def name(self) -> str:
        return self.tier if self.subgroup is None else f"{self.tier}-{self.subgroup}"

    @property
    def holds_state(self) -> bool:
        return self.tier in ("joiner", "merger")

    @property
    def memory_bytes(self) -> int:
        """Of the driver's own pod."""
        if self.executors:
            return PROGRAM_BYTES
        if self.tier == "joiner":
            return self.units * self.pods.memory_bytes + PROGRAM_BYTES
        return max(self.pods.memory_bytes, UNITS_BYTES_MIN)

    @property
    def executor_bytes(self) -> int:
        if self.tier == "joiner":
            return self.pods.memory_bytes + PROGRAM_BYTES
        return max(self.pods.memory_bytes, EXECUTOR_BYTES_MIN)

    @property
    def asks(self) -> tuple[int, int]:
        """Of nodes, executors and all: thousandths of a processor, and bytes."""
        cpu = self.driver_cpu + self.executors * self.pods.cpu
        return cpu, self.memory_bytes // MIB * MIB + self.executors * (self.executor_bytes // MIB * MIB)

    @property
    def driver_cpu(self) -> int:
        return min(self.pods.cpu, CPU_OF_EMPTY_DRIVER) if self.executors else self.pods.cpu


def drivers_of(plan: Plan, spec: Spec) -> tuple[Driver, ...]:
    tiers = spec.tiers
    found = [
        Driver("shuffler", None, 1, _executors(spec, tiers.shuffler.executors), _pods(spec, tiers.shuffler)),
        Driver(
            "dispatcher",
            None,
            plan.dispatchers,
            min(_executors(spec, tiers.dispatcher.executors), plan.dispatchers),
            _pods(spec, tiers.dispatcher),
        ),
    ]
    for subgroup, units in first_table(plan).stores.items():
        # A unit of a joiner has a pod of its own: memory is one unit's, and units come and go by pods.
        executors = len(units) if tiers.executors else 0
        found.append(Driver("joiner", str(subgroup), len(units), executors, _pods(spec, spec.joiners)))
    if plan.mergers:
        executors = min(_executors(spec, tiers.merger.executors), plan.mergers)
        found.append(Driver("merger", None, plan.mergers, executors, _pods(spec, tiers.merger)))
    return tuple(found)


def _executors(spec: Spec, own: int | None) -> int:
    return spec.tiers.executors if own is None else own


def _pods(spec: Spec, own: PodOverride) -> Pods:
    tiers = spec.tiers
    tolerations = tiers.tolerations if own.tolerations is None else own.tolerations
    return Pods(
        cpu=tiers.cpu if own.cpu is None else own.cpu,
        memory_bytes=tiers.memory if own.memory is None else own.memory,
        image=tiers.image if own.image is None else own.image,
        node_selector=dict(tiers.node_selector if own.node_selector is None else own.node_selector),
        tolerations=tuple(_toleration(one) for one in tolerations),
    )


def _toleration(written: Toleration) -> dict[str, object]:
    return written.model_dump(by_alias=True, exclude_none=True)


def secrets_of(query: Query) -> tuple[str, ...]:
    """All that the manifest names. Every tier may found the query, so every one of them may need each."""
    inputs = [source.input for source in query.sources]
    kafka = [each.secret for each in (*inputs, query.output) if isinstance(each, Kafka)]
    redis = [query.redis.secret] if query.redis is not None else []
    durable = [query.durable.secret] if isinstance(query.durable, Bucket) else []
    return tuple(dict.fromkeys(name for name in (*kafka, *redis, *durable) if name is not None))


def claim_of(query: Query, driver: Driver) -> str | None:
    """The PersistentVolumeClaim that a tier with state keeps its checkpoints on."""
    return query.durable.claim if driver.holds_state and isinstance(query.durable, Volume) else None
