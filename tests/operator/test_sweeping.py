"""What a deleted query has left is removed from a real Kafka and a real Redis, and nothing of another's."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
import redis
from confluent_kafka.admin import AdminClient, NewTopic

from biclique_operator.leftovers import Leftover, Leftovers
from biclique_operator.sweeping import GIVEN_UP_S, Sweeper
from infra.kafka_server import KafkaServer
from infra.redis_server import RedisServer
from tests.operator.memory_cluster import MemoryCluster
from tests.operator.scenes import Killed, killed_at
from tests.operator.stage import Clock

Raw = dict[str, Any]
ID = "orders-0a1b2c3d"
OURS = (f"{ID}.shuffled", f"{ID}.0L0", f"{ID}.dead")
OTHERS = ("orders", "orders-0a1b2c3dd.shuffled", "orders-ffffffff.shuffled", f"x{ID}.shuffled")
OUR_KEYS = (f"biclique:{{{ID}}}:a", f"biclique:{{{ID}@7}}:b")
OTHER_KEYS = (f"biclique:{{{ID}d}}:a", "biclique:{orders}:a", "orders")


def noted(cluster: MemoryCluster, clock: Clock, **changes: Any) -> Leftovers:
    about = {
        "prefix": ID,
        "namespace": "default",
        "query": "orders",
        "uid": "7",
        "bootstrap_servers": "127.0.0.1:1",
        "kafka_secret": None,
        "redis_url": "redis://127.0.0.1:1/0",
        "redis_secret": None,
        "noted_at": clock(),
    }
    data = {ID: json.dumps({**about, **changes})}
    name = {"name": "biclique-leftovers", "namespace": "biclique-system"}
    cluster.create({"kind": "ConfigMap", "metadata": name, "data": data})
    return Leftovers(cluster, "biclique-system", "biclique-leftovers", clock)  # type: ignore[arg-type]


def sweeper(cluster: MemoryCluster, leftovers: Leftovers, clock: Clock) -> Sweeper:
    return Sweeper(cluster, leftovers, clock)  # type: ignore[arg-type]


def topics_left(admin: AdminClient) -> set[str]:
    """A deletion is answered before every request is told of it."""
    deadline = time.monotonic() + 10
    while not (left := set(admin.list_topics(timeout=10).topics)).isdisjoint(OURS) and time.monotonic() < deadline:
        time.sleep(0.1)
    return left


@pytest.mark.slow
def test_topics_and_keys_of_the_query_go_and_no_others(kafka_server: KafkaServer, redis_server: RedisServer) -> None:
    admin, store = AdminClient(kafka_server.admin), redis.Redis.from_url(redis_server.url)
    for future in admin.create_topics([NewTopic(name, 1, 1) for name in (*OURS, *OTHERS)]).values():
        future.result()
    for key in (*OUR_KEYS, *OTHER_KEYS):
        store.set(key, "1")
    clock = Clock()
    cluster = MemoryCluster(clock)
    leftovers = noted(cluster, clock, bootstrap_servers=kafka_server.bootstrap, redis_url=redis_server.url)
    labels = {"biclique.dev/query-uid": "7"}
    pod = cluster.create({"kind": "Pod", "metadata": {"name": "p", "namespace": "default", "labels": labels}})
    sweeper(cluster, leftovers, clock).sweep_all()
    assert store.exists(*OUR_KEYS) == 2, "while a pod of it is there, nothing is swept"
    cluster.remove("Pod", "default", "p", pod["metadata"]["uid"])
    cluster.before_write, _ = killed_at(0, Killed)
    with pytest.raises(Killed):
        sweeper(cluster, leftovers, clock).sweep_all()
    assert len(leftovers.all()) == 1, "all of it is swept, and nobody wrote that down"
    sweeper(cluster, leftovers, clock).sweep_all()
    left = topics_left(admin)
    assert left.isdisjoint(OURS) and left.issuperset(OTHERS)
    assert store.exists(*OUR_KEYS) == 0 and store.exists(*OTHER_KEYS) == 3
    assert leftovers.all() == ()


def test_a_redis_that_does_not_answer_is_waited_for_a_week(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("biclique_operator.sweeping.KAFKA_S", 0.2)
    clock = Clock()
    cluster = MemoryCluster(clock)
    leftovers = noted(cluster, clock)
    sweeping = sweeper(cluster, leftovers, clock)
    sweeping.sweep_all()
    sweeping.sweep_all()
    assert len(leftovers.all()) == 1
    assert caplog.text.count("cannot be swept yet") == 1
    clock.passes(GIVEN_UP_S + 1)
    sweeping.sweep_all()
    assert leftovers.all() == ()
    assert f"topics {ID}.* and keys biclique:{{{ID}}}* remain" in caplog.text


def test_a_secret_that_is_gone_is_said(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    cluster = MemoryCluster(clock)
    leftovers = noted(cluster, clock, kafka_secret="kafka-user")
    sweeper(cluster, leftovers, clock).sweep_all()
    assert "the Secret kafka-user is not there any more" in caplog.text
    assert isinstance(leftovers.all()[0], Leftover)


def test_what_another_version_has_noted_is_read_too() -> None:
    clock = Clock()
    cluster = MemoryCluster(clock)
    leftovers = noted(cluster, clock)
    said = {"namespace": "default", "query": "old", "uid": "8", "bootstrap_servers": "kafka:9092", "known_then": 1}
    cluster.merge("ConfigMap", "biclique-system", "biclique-leftovers", {"data": {"old-1": json.dumps(said)}})
    assert [(one.prefix, one.redis_url) for one in leftovers.all() if one.query == "old"] == [("old-1", None)]


def test_a_secret_that_makes_no_sense_keeps_nobody_else_waiting(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    cluster = MemoryCluster(clock)
    leftovers = noted(cluster, clock, kafka_secret="broken")
    secret = {"metadata": {"name": "broken", "namespace": "default"}, "data": {"password": "bm8KbGluZQ=="}}
    cluster.create({"kind": "Secret", **secret})
    sweeper(cluster, leftovers, clock).sweep_all()
    assert "its key password" in caplog.text
    assert len(leftovers.all()) == 1


def test_a_namespace_that_may_not_be_looked_at_keeps_nobody_else_waiting(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("biclique_operator.sweeping.KAFKA_S", 0.2)
    clock = Clock()
    cluster = MemoryCluster(clock)
    leftovers = noted(cluster, clock, namespace="closed")
    said = {"namespace": "default", "query": "next", "uid": "8", "bootstrap_servers": "127.0.0.1:1"}
    cluster.merge("ConfigMap", "biclique-system", "biclique-leftovers", {"data": {"next-1": json.dumps(said)}})
    cluster.closed.add("closed")
    sweeper(cluster, leftovers, clock).sweep_all()
    assert f"{ID} cannot be swept yet: the pods of closed may not be listed (403)" in caplog.text
    assert "next-1 cannot be swept yet: Kafka" in caplog.text
    assert [one.prefix for one in leftovers.all()] == [ID, "next-1"]


def test_many_whose_kafka_is_gone_for_good_keep_nobody_else_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """One after the other they took ten seconds each, and whoever came behind waited for all of them."""
    monkeypatch.setattr("biclique_operator.sweeping.KAFKA_S", 1.0)
    clock = Clock()
    cluster = MemoryCluster(clock)
    leftovers = noted(cluster, clock)
    said = {"namespace": "default", "query": "gone", "uid": "8", "bootstrap_servers": "127.0.0.1:1"}
    gone = {f"gone-{number}": json.dumps({**said, "noted_at": clock()}) for number in range(7)}
    cluster.merge("ConfigMap", "biclique-system", "biclique-leftovers", {"data": gone})
    began = time.monotonic()
    sweeper(cluster, leftovers, clock).sweep_all()
    assert time.monotonic() - began < 4.0
    assert len(leftovers.all()) == 8


def test_what_somebody_wrote_among_them_is_left_alone_and_ends_nothing() -> None:
    clock = Clock()
    cluster = MemoryCluster(clock)
    leftovers = noted(cluster, clock)
    strange = {"a": "no JSON", "b": "[]", "c": "{}", "d": '{"namespace": 7}', "e": "null"}
    cluster.merge("ConfigMap", "biclique-system", "biclique-leftovers", {"data": strange})
    assert [leftover.prefix for leftover in leftovers.all()] == [ID]
