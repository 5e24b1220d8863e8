"""The topics of a query: made before anything runs, and refused where one that is there could lose what we rely on.

Records stay until they are trimmed, so no retention by time or size; a topic that Kafka compacts or trims by itself
would lose them. Only progress is compacted, by key, and there the newest of each key is all that counts.
"""

from __future__ import annotations

import time
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from biclique.plan.model import Plan
from biclique.plan.table import first_table
from biclique.ports.kafka_log import MESSAGE_BYTES_MAX, PROGRESS
from biclique.ports.refusals import UnfitTopic

SECONDS = 30.0
KEPT = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
LONG_MAX = str((1 << 63) - 1)
LOG = {
    **KEPT,
    "max.message.bytes": str(MESSAGE_BYTES_MAX),
    "message.timestamp.type": "CreateTime",  # it says until when a record is needed (ports/kafka_log.py)
    "message.timestamp.before.max.ms": LONG_MAX,
    "message.timestamp.after.max.ms": LONG_MAX,
    "segment.ms": LONG_MAX,  # goes by timestamps
    "segment.bytes": str(1 << 27),  # what is trimmed is freed by the segment
}
NEWEST = {
    "cleanup.policy": "compact",
    "segment.bytes": str(1 << 20),
    "segment.ms": "600000",
    "min.cleanable.dirty.ratio": "0.1",
    "max.message.bytes": str(MESSAGE_BYTES_MAX),
}


def topics_of(plan: Plan, prefix: str, units_max: int) -> dict[str, tuple[int, dict[str, str]]]:
    """Name -> partitions and settings. `units_max`: of one subgroup, however far it may grow."""
    found: dict[str, tuple[int, dict[str, str]]] = {
        f"{prefix}.shuffled": (plan.dispatchers, LOG),
        f"{prefix}.shuffled{PROGRESS}": (plan.dispatchers, NEWEST),
        f"{prefix}.signals": (1, LOG),
        f"{prefix}.late": (plan.dispatchers, LOG),
        f"{prefix}.dead": (plan.dispatchers, LOG),
    }
    for subgroup, units in first_table(plan).probes.items():
        partitions = max(units_max, len(units))
        found[f"{prefix}.{subgroup}"] = partitions, LOG
        found[f"{prefix}.{subgroup}{PROGRESS}"] = partitions, NEWEST
    if plan.mergers:
        found[f"{prefix}.partials"] = plan.mergers, LOG
        found[f"{prefix}.partials{PROGRESS}"] = plan.mergers, NEWEST
    return found


def ensure_topics(client: dict[str, Any], wanted: dict[str, tuple[int, dict[str, str]]], replication: int) -> None:
    """Idempotent: of several processes that start at once, each finds them all."""
    admin = AdminClient(client)
    topics = [NewTopic(name, partitions, replication, config=config) for name, (partitions, config) in wanted.items()]
    for future in admin.create_topics(topics).values():
        try:
            future.result(SECONDS)
        except KafkaException as failure:
            if failure.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
    _refuse_unfit(admin, wanted)


def _refuse_unfit(admin: AdminClient, wanted: dict[str, tuple[int, dict[str, str]]]) -> None:
    for name, (_, settings) in wanted.items():
        found = _settings_of(admin, name)
        for setting, value in settings.items():
            if setting in KEPT and found[setting].value != value:
                raise UnfitTopic(
                    f"topic {name} has {setting}={found[setting].value}, and {value} is needed: "
                    "set it, or remove the topic so that it is made anew"
                )


def _settings_of(admin: AdminClient, name: str) -> Any:
    """A topic is made before every broker has heard of it."""
    resource, deadline = ConfigResource(ResourceType.TOPIC, name), time.monotonic() + SECONDS
    while True:
        try:
            return admin.describe_configs([resource])[resource].result(SECONDS)
        except KafkaException as failure:
            if failure.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART or time.monotonic() > deadline:
                raise
            time.sleep(0.05)
