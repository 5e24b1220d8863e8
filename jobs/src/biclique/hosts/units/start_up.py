"""What a tier looks at before it begins: Kafka, its store of checkpoints, and whether the state that is there is this
manifest's.

Kafka must answer, since nothing goes without it: what passes is waited for (patience.py), a password that is refused
is not. The store need not answer, since it saves time and never results: it is waited for a little, and a unit works
on without it. But a query that has not begun yet loses nothing by being told at once that its store refuses it; and a
Redis that may evict is refused always, since it would lose checkpoints in silence.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from biclique.hosts.shuffle.starts import ANEW
from biclique.hosts.units.connections import bucket_of, redis_store, volume_of
from biclique.hosts.units.spec import Surroundings
from biclique.plan.fingerprint import changed, fingerprint
from biclique.plan.model import Plan
from biclique.ports.checkpoints import StoreRefusal, StoreUnavailable, UnfitStore
from biclique.ports.control import Control
from biclique.ports.kafka_log import KafkaSettings
from biclique.ports.refusals import Refused, UnfitTopic, Unreachable
from biclique.query.model import Bucket, Query, Volume

LOG = logging.getLogger(__name__)
KAFKA_ANSWERS_S = 10.0
KAFKA_LOOK_S = 2.0  # after so long it is asked why there is no answer yet: that nobody listens is known at once
STORE_PATIENCE_S, STORE_PAUSE_S = 5.0, 0.5  # a unit that restores has a patience of its own
CLUSTER = "spec.output.kafka.bootstrapServers"
TOPIC = "topic "  # of what is noted: whether it is still the same one, whatever the manifest says
OF_SECRETS = "correct its Secret or its secretRef in spec.state"
OF_VOLUMES = "give it the right to, or name another claim in spec.state.durable.volume"
REFUSALS = {
    KafkaError._AUTHENTICATION: "correct the user or the password in its Secret",
    KafkaError._SSL: "correct ca.crt in its Secret, or the brokers' names in bootstrapServers",
}


def cluster_of(settings: KafkaSettings) -> str:
    """The id of the Kafka that answers. Why a connection came to nothing is told apart from the call that waited for
    it, so it is asked for when the call has failed."""
    heard: list[KafkaError] = []
    client: dict[str, Any] = {**settings.client, "error_cb": heard.append, "log_level": 0}
    admin, deadline = AdminClient(client), time.monotonic() + KAFKA_ANSWERS_S
    at = settings.client["bootstrap.servers"]
    while True:
        try:
            return str(admin.list_topics(timeout=min(KAFKA_LOOK_S, KAFKA_ANSWERS_S)).cluster_id)
        except KafkaException as failure:
            admin.poll(0.1)
            for error in heard:
                if error.code() in REFUSALS:
                    raise Refused(f"Kafka at {at} refuses us ({_clause(error)}): {REFUSALS[error.code()]}") from None
            nobody_there = any(error.code() == KafkaError._ALL_BROKERS_DOWN for error in heard)
            if nobody_there or time.monotonic() > deadline:
                error = next((e for e in heard if e.code() != KafkaError._ALL_BROKERS_DOWN), failure.args[0])
                raise Unreachable(f"Kafka at {at} does not answer ({_clause(error)})") from None


def _clause(error: KafkaError) -> str:
    """librdkafka puts the connection before and statistics behind."""
    said = error.str()
    return said.split("]: ", 1)[-1].split(" (after ", 1)[0].strip()


def look_at_store(around: Surroundings, query: Query, has_begun: bool, stopping: Callable[[], bool]) -> None:
    """Where this tier's checkpoints go."""
    match query.durable:
        case Bucket(name=name) as bucket:
            _look(f"bucket {name}", bucket_of(around, bucket).refuse_missing, OF_SECRETS, has_begun, stopping)
        case Volume(claim=claim) as volume:
            _look(f"claim {claim}", volume_of(around, volume).refuse_unwritable, OF_VOLUMES, has_begun, stopping)
        case None:
            redis = redis_store(around)
            _look(f"Redis at {redis.address}", redis.refuse_eviction, OF_SECRETS, has_begun, stopping)


def _look(place: str, ask: Callable[[], None], remedy: str, has_begun: bool, stopping: Callable[[], bool]) -> None:
    deadline = time.monotonic() + STORE_PATIENCE_S
    while not stopping():
        try:
            ask()
            return
        except UnfitStore as unfit:
            raise Refused(f"{place}: {unfit}") from None
        except StoreRefusal as refusal:
            if not has_begun:
                raise Refused(f"{place}: {refusal}; {remedy}") from None
            told = {"event": "checkpoints.refused", "place": place}
            LOG.warning("%s: %s; units work on without checkpoints until it is corrected", place, refusal, extra=told)
            return
        except StoreUnavailable as trouble:
            if time.monotonic() > deadline:
                waited = f"{STORE_PATIENCE_S:.0f} s"
                told = {"event": "checkpoints.away", "place": place}
                LOG.warning(
                    "%s: %s (waited %s); units work on without checkpoints until then",
                    place,
                    trouble,
                    waited,
                    extra=told,
                )
                return
        time.sleep(STORE_PAUSE_S)


def note_what_begins(plan: Plan, control: Control, cluster: str, topics: Mapping[str, str]) -> None:
    """Before the first table: until there is one, there is no state that a manifest could belie. `topics`: those that
    sources read, by name, each with what tells it from another one of that name."""
    if control.table(None) is None or control.noted() is None:
        known = {f"{TOPIC}{name}": identity for name, identity in topics.items()}
        control.note(json.dumps({**fingerprint(plan), CLUSTER: cluster, **known}, indent=1, ensure_ascii=False))


def refuse_what_state_cannot_follow(plan: Plan, control: Control, cluster: str, topics: Mapping[str, str]) -> None:
    """`topics`: as far as they were looked at."""
    text = control.noted()
    if text is None:
        return
    noted = json.loads(text)
    then = {key: value for key, value in noted.items() if not key.startswith(TOPIC)}
    if (sentence := changed(then, {**fingerprint(plan), CLUSTER: cluster})) is not None:
        raise Refused(sentence)
    for name, identity in topics.items():
        if noted.get(f"{TOPIC}{name}", identity) != identity:
            raise made_anew(name)


def made_anew(topic: str) -> UnfitTopic:
    """It may hold as many records as the one before, or more: offsets alone do not tell, and those that were taken of
    the other would be missed."""
    return UnfitTopic(f"topic {topic} was deleted and made anew since the query began: {ANEW}")
