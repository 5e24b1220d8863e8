"""The topics of a query: made before anything runs, and refused where one that is there could lose what we rely on.

Records stay until they are trimmed, so no retention by time or size; a topic that Kafka compacts or trims by itself
would lose them. Only progress is compacted, by key, and there the newest of each key is all that counts.
"""

from __future__ import annotations

from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    NewTopic,
)

from biclique.plan.model import Plan
from biclique.plan.table import first_table
from biclique.ports.kafka_admin import SECONDS, partitions_of, settings_of
from biclique.ports.kafka_errors import told
from biclique.ports.kafka_log import MESSAGE_BYTES_MAX, PROGRESS
from biclique.ports.refusals import Refused, UnfitTopic
from biclique.query.model import Format, Kafka, Query

COPIES = 3  # where nobody says how many, and there are as many brokers: one may be away and another be lost
COPIES_WRITTEN = 2  # of three or more, before anything counts as written: with the brokers' default of one, what was
# committed while the others were away would be lost with a single disk
NOT_LOST = {"unclean.leader.election.enable": "false"}  # what was committed stays, whoever becomes leader
KEPT = {**NOT_LOST, "cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
TIMES = frozenset({"message.timestamp.type", "message.timestamp.after.max.ms"})
RELIED_ON = frozenset((*KEPT, "max.message.bytes")) | TIMES
BOUNDABLE = frozenset({"retention.ms", "retention.bytes"})  # of late and dead records, which people read, and no tier
ASIDE = (".late", ".dead")
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
    **NOT_LOST,
    "cleanup.policy": "compact",
    "segment.bytes": str(1 << 20),
    "segment.ms": "600000",
    "min.cleanable.dirty.ratio": "0.1",
    # How long the mark at the end of each transaction is kept, too: for a day by default, which of thirty a second is
    # more than all that a restart has to read.
    "delete.retention.ms": "600000",
    "max.message.bytes": str(MESSAGE_BYTES_MAX),
    # The broker's: one that may not be ahead of it would let nobody commit whose clock is.
    "message.timestamp.type": "LogAppendTime",
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


def ensure_topics(
    client: dict[str, Any], wanted: dict[str, tuple[int, dict[str, str]]], replication: int | None
) -> None:
    """Idempotent: of several processes that start at once, each finds them all. `replication`: None: see `_copies`."""
    admin = AdminClient({"log_level": 0, **client})
    copies = _copies(admin, replication)
    made = [NewTopic(n, count, copies, config={**config, **written(copies)}) for n, (count, config) in wanted.items()]
    _create(admin, made)
    refuse_unfit(client, wanted)


def written(copies: int) -> dict[str, str]:
    """Settings of a topic with so many copies."""
    return {"min.insync.replicas": str(COPIES_WRITTEN)} if copies > COPIES_WRITTEN else {}


def _copies(admin: AdminClient, wanted: int | None) -> int:
    if wanted is not None:
        return wanted
    with told("asking how many brokers there are"):
        return min(COPIES, len(admin.list_topics(timeout=SECONDS).brokers))


def _create(admin: AdminClient, topics: list[NewTopic]) -> None:
    for name, future in admin.create_topics(topics, request_timeout=SECONDS).items():
        try:
            with told(f"creating topic {name}"):
                future.result(SECONDS)
        except KafkaException as failure:
            code = failure.args[0].code()
            if code == KafkaError.INVALID_REPLICATION_FACTOR:
                raise UnfitTopic(
                    f"topic {name} cannot have that many copies ({failure.args[0].str()}): "
                    "choose topics.replication up to the number of brokers"
                ) from None
            if code != KafkaError.TOPIC_ALREADY_EXISTS:
                raise UnfitTopic(
                    f"topic {name} cannot be made ({failure.args[0].str()}): "
                    "mend what is said there, or make the topic yourself"
                ) from None


def refuse_unfit(client: dict[str, Any], wanted: dict[str, tuple[int, dict[str, str]]]) -> None:
    """Where one of our topics is gone, has too few partitions, or would lose what we rely on."""
    admin = AdminClient({"log_level": 0, **client})
    for name, (partitions, settings) in wanted.items():
        found = settings_of(admin, name, SECONDS)
        relied_on = RELIED_ON - BOUNDABLE if name.endswith(ASIDE) else RELIED_ON
        relied_on -= TIMES if name.endswith(PROGRESS) else frozenset()  # an older version's are as good
        for setting, value in settings.items():
            if setting in relied_on and setting in found and found[setting].value != value:
                raise UnfitTopic(
                    f"topic {name} has {setting}={found[setting].value}, and {value} is needed: "
                    "set it, or remove the topic so that it is made anew"
                )
        if (there := partitions_of(admin, name, f"looking at topic {name}")) < partitions:
            raise UnfitTopic(
                f"topic {name} has {there} partitions, and {partitions} are needed: another query has made it, so "
                "choose another BICLIQUE_PREFIX, or remove it if nothing needs it any more"
            )


def refuse_unfit_output(client: dict[str, Any], query: Query) -> None:
    """A user's topic: it must be there, or be wanted made, and take what we write. Whoever may write to it may perhaps
    not look at its settings; then its broker says no when it is written to."""
    assert isinstance(query.output, Kafka)
    admin, topic = AdminClient({"log_level": 0, **client}), query.output.topic
    if query.create_output:
        _create(admin, [NewTopic(topic, query.hints.partitions, _copies(admin, query.replication))])
    try:
        policy = settings_of(admin, topic, patience_s=SECONDS if query.create_output else 2.0)["cleanup.policy"].value
    except UnfitTopic:
        raise UnfitTopic(f"output topic {topic} does not exist: create it, or set topics.createOutput") from None
    except Refused:
        return
    if "compact" in policy and query.output.format is Format.ARROW:
        raise UnfitTopic(
            f"output topic {topic} has cleanup.policy={policy}, which needs a key of each message, and a message of "
            "format arrow holds many rows and has none: choose format json, or a topic that is not compacted"
        )
