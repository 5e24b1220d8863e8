"""What Kafka says is wrong, in the two kinds of ports/refusals.py. Any other KafkaException is a failure like any other
of a process, within its budget of restarts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import KafkaError, KafkaException

from biclique.ports.refusals import Refused, UnfitTopic, Unreachable

PASSING = frozenset(
    {
        KafkaError._TRANSPORT,
        KafkaError._RESOLVE,
        KafkaError._TIMED_OUT,
        KafkaError._MSG_TIMED_OUT,
        KafkaError._TIMED_OUT_QUEUE,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._NOENT,  # "no leaders found", of a broker that has just started and is asked for offsets
        KafkaError._WAIT_COORD,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError.BROKER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.REPLICA_NOT_AVAILABLE,
        KafkaError.LISTENER_NOT_FOUND,
        KafkaError.FENCED_LEADER_EPOCH,  # our client, or the broker, has yet to hear of an election
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.OFFSET_NOT_AVAILABLE,  # of a leader that was elected just now, and must not go back
        KafkaError.KAFKA_STORAGE_ERROR,  # of one disk; another broker takes its partitions over
        KafkaError.NOT_CONTROLLER,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.CONCURRENT_TRANSACTIONS,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.NOT_ENOUGH_REPLICAS,
        KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        KafkaError.PREFERRED_LEADER_NOT_AVAILABLE,
        KafkaError.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        KafkaError.THROTTLING_QUOTA_EXCEEDED,
    }
)  # what a broker that starts, moves or is cut off answers
FENCED = frozenset({KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED})
UNKNOWN_TOPIC = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION})
RIGHTS = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "grant this principal Describe, DescribeConfigs, Create, Read and Write",
    KafkaError.GROUP_AUTHORIZATION_FAILED: "grant this principal Read on the group",
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: "grant this principal Create on the cluster and IdempotentWrite",
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: (
        "grant this principal Describe and Write on transactional ids with the query's prefix"
    ),
    KafkaError._AUTHENTICATION: "correct the user, password or certificate",
    KafkaError.SASL_AUTHENTICATION_FAILED: "correct the user, password or certificate",
}
TOO_LARGE = frozenset({KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE})


def trouble(error: KafkaError, doing: str) -> Exception | None:
    """None: neither kind. `doing`: what was tried, as in "reading topic x"."""
    code = error.code()
    if code in RIGHTS:
        return Refused(f"Kafka does not allow {doing} ({error.str()}): {RIGHTS[code]}")
    if code in PASSING:
        return Unreachable(f"Kafka does not answer while {doing} ({error.str()})")
    if code in UNKNOWN_TOPIC:
        return UnfitTopic(f"{doing}: the topic or partition does not exist; create it, or correct its name")
    return None


@contextmanager
def told(doing: str) -> Iterator[None]:
    """Whatever Kafka says in here is said as one of the two kinds, if it is one; and what it does not say: an answer
    that is waited for may be longer on its way than we wait."""
    try:
        yield
    except TimeoutError:
        raise Unreachable(f"Kafka does not answer while {doing}") from None
    except KafkaException as failure:
        found = trouble(failure.args[0], doing)
        if found is None:
            raise
        raise found from failure
