"""What there is of a query, in its namespace, Kafka and Redis. After its end: nothing but its user's own topics."""

from __future__ import annotations

import redis
from confluent_kafka.admin import AdminClient

from tests.e2e.kube import Kube

KINDS = "pods,services,joinsubgroups,configmaps,secrets,serviceaccounts,roles,rolebindings,networkpolicies,pdb"


def objects_of_queries(kube: Kube) -> list[str]:
    """That the operator and Spark have made."""
    found = kube.objects(KINDS, "--selector=app.kubernetes.io/name=biclique")
    return [f"{one['kind']}/{one['metadata']['name']}" for one in found]


def not_swept(kafka: str, redis_url: str, name: str, own: str) -> list[str]:
    """Topics and keys of a deleted query. `own`: its id, which begins with its name."""
    users = {f"{name}-{topic}" for topic in ("out", "r", "s")}
    found = AdminClient({"bootstrap.servers": kafka}).list_topics(timeout=20).topics
    topics = {topic for topic in found if topic.startswith(name)}
    assert users <= topics, "its user's own are nobody else's"
    return [*sorted(topics - users), *(key.decode() for key in keys_of(redis_url, own))]


def keys_of(url: str, own: str) -> list[bytes]:
    found: list[bytes] = redis.Redis.from_url(url, socket_timeout=10).keys(f"biclique:{{{own}*")
    return found
