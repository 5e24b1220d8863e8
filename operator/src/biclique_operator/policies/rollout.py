"""Which tiers a followed change concerns: those whose part of the manifest is another one now. The others run on.

A tier reads its manifest once, at its start; so a change reaches it by a new attempt. What a key concerns is in the
table below, and a key that is not there concerns every tier: to roll too much costs a pause, to roll too little leaves
a tier that does what nobody wants any more.

The image of the installation and all that this version of the operator makes of a driver are not part of it: an
operator that was upgraded touches nothing that runs. Whoever wants the new image sets the annotation
biclique.dev/restart."""

from __future__ import annotations

import hashlib
import json
from functools import lru_cache
from typing import Any

from biclique.query.manifest import JoinersSpec, PodOverride, Spec
from biclique_operator.desired.drivers import Driver

NOBODY: frozenset[str] = frozenset()
READERS = frozenset({"shuffler", "dispatcher"})
WRITERS = frozenset({"joiner", "merger"})

# Key of the manifest -> the tiers that it concerns. `[]` is each member of a list.
CONCERNS: dict[str, frozenset[str]] = {
    "suspend": NOBODY,
    "scaling": NOBODY,
    "joiners.minReplicas": NOBODY,
    "joiners.maxReplicas": NOBODY,
    "topics.replication": NOBODY,  # counts when topics are made
    "topics.createOutput": NOBODY,
    "sources[].eventTime.lateness": READERS,
    "sources[].eventTime.maxFutureSkew": READERS,
    "sources[].eventTime.idleAfter": READERS,
    "sources[].onBadRecord": READERS,
    "sources[].badRecordBurst": READERS,
    "sources[].kafka.format": READERS,
    "sources[].kafka.startingOffsets": NOBODY,  # chosen once, when the query began
    "output.kafka.topic": WRITERS,
    "output.kafka.format": WRITERS,
    "delivery": WRITERS,
    "state": WRITERS,
    "joiners.memory": frozenset({"joiner"}),
    "joiners.cpu": frozenset({"joiner"}),
    "joiners.image": frozenset({"joiner"}),
    "joiners.nodeSelector": frozenset({"joiner"}),
    "joiners.tolerations": frozenset({"joiner"}),
    "tiers": NOBODY,  # what comes of it for a tier's pods is looked at instead
}

# What the defaults were when the first pods were marked with a hash, in thousandths and in bytes. They stand for what
# is not written, and never change: a default that does would else roll every query that leaves it to us. The price:
# whoever comes to write just this figure, where nothing stood and the default is another one by now, has it with the
# next attempt, or with the annotation.
UNWRITTEN_CPU = 500
UNWRITTEN_MEMORY_BYTES = 1 << 30
UNWRITTEN_MEMORY_OF_UNIT_BYTES = 2 << 30


def spec_hash(driver: Driver, spec: Spec, restart: str) -> str:
    """What a driver is made of, as far as its user can say it."""
    # Without defaults: a key that a later version adds must not roll the queries of everybody who does not use it.
    return _spec_hash(
        driver.tier, _pods_of(driver, spec), spec.model_dump_json(by_alias=True, exclude_defaults=True), restart
    )


@lru_cache(maxsize=4096)
def _spec_hash(tier: str, pods: str, spec: str, restart: str) -> str:
    concerned = _pruned(json.loads(spec), "", tier)
    text = json.dumps([concerned, pods, restart], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _pods_of(driver: Driver, spec: Spec) -> str:
    pods = driver.pods
    cpu, memory_bytes = _written(driver.tier, spec)
    return json.dumps(
        [
            driver.executors,
            driver.units,
            memory_bytes,
            cpu,
            pods.image,
            pods.node_selector,
            pods.tolerations,
        ],
        sort_keys=True,
    )


def _written(tier: str, spec: Spec) -> tuple[int, int]:
    """Cpu and memory, each as it is written; where it is not, the figure that never changes, whatever the default is
    by now."""
    tiers = spec.tiers
    own: PodOverride = {
        "shuffler": tiers.shuffler,
        "dispatcher": tiers.dispatcher,
        "joiner": spec.joiners,
        "merger": tiers.merger,
    }[tier]
    cpu = tiers.cpu if "cpu" in tiers.model_fields_set else UNWRITTEN_CPU
    memory_bytes = tiers.memory if "memory" in tiers.model_fields_set else UNWRITTEN_MEMORY_BYTES
    if isinstance(own, JoinersSpec):
        memory_bytes = own.memory if "memory" in own.model_fields_set else UNWRITTEN_MEMORY_OF_UNIT_BYTES
    elif own.memory is not None:
        memory_bytes = own.memory
    return cpu if own.cpu is None else own.cpu, memory_bytes


def _pruned(value: Any, path: str, tier: str) -> Any:
    """The part of it that concerns a tier. A block of which nothing is left is as if it were not written."""
    if isinstance(value, dict):
        places = {key: f"{path}.{key}" if path else key for key in value}
        kept = {key: inner for key, inner in value.items() if tier in CONCERNS.get(places[key], {tier})}
        found = {key: _pruned(inner, places[key], tier) for key, inner in kept.items()}
        return {key: inner for key, inner in found.items() if inner != {}}
    if isinstance(value, list):
        return [_pruned(inner, f"{path}[]", tier) for inner in value]
    return value
