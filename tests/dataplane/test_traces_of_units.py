"""Traces through dispatcher, joiner and merger over a real Kafka, in one process without Spark: contexts travel in the
headers of its messages, and the last of them stands in those of the user's topic."""

from __future__ import annotations

import itertools
import time
import uuid
from collections.abc import Iterator
from dataclasses import replace

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from biclique.plan.make import make_plan
from biclique.ports.kafka_log import KafkaLog, KafkaSettings
from biclique.ports.kafka_topics import ensure_topics, topics_of
from biclique.ports.memory import MemoryStore
from biclique.ports.outlets import Outlets
from biclique.ports.telemetry import Identity
from biclique.ports.telemetry_memory import MemoryTelemetry
from biclique.ports.trace_context import Context, context_of
from biclique.ports.wire import Wire
from biclique.query.compile import compile_manifest
from biclique.tiers.messages import Address, Producer, Topic
from infra.kafka_server import KafkaServer
from tests.model.observed_tiers import ObservedTiers
from tests.unit.tiers.building import source_block

pytestmark = pytest.mark.slow
USER = Context(0xABC, 0xDEF, True)
MANIFEST = """
apiVersion: biclique.dev/v1alpha1
kind: JoinQuery
metadata: {{name: followed}}
spec:
  sources:
    - {{name: r, schema: "k INT", kafka: {{bootstrapServers: "{brokers}", topic: r, format: json}}}}
    - {{name: s, schema: "k INT", kafka: {{bootstrapServers: "{brokers}", topic: s, format: json}}}}
  sql: "SELECT r.k, COUNT(*) AS n FROM r JOIN s ON r.k = s.k GROUP BY r.k"
  topics: {{partitions: 2}}
  output: {{kafka: {{bootstrapServers: "{brokers}", topic: {prefix}-out, format: json}}}}
"""


def headers_of(client: dict[str, str], topic: str) -> Iterator[dict[str, bytes] | None]:
    """Of each message, as a reader of committed ones sees them; None where there is nothing yet."""
    consumer = Consumer({**client, "group.id": "reader", "isolation.level": "read_committed"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    try:
        while True:
            message = consumer.poll(0.2)
            yield dict(message.headers() or ()) if message is not None and message.error() is None else None
    finally:
        consumer.close()


def test_a_group_carries_the_trace_of_what_changed_it(kafka_server: KafkaServer) -> None:
    prefix, client = f"traces-{uuid.uuid4().hex[:8]}", {"bootstrap.servers": kafka_server.bootstrap}
    query = compile_manifest(MANIFEST.format(brokers=kafka_server.bootstrap, prefix=prefix))
    plan = make_plan(query)
    admin = AdminClient(client)
    for future in admin.create_topics([NewTopic(f"{prefix}-out", 1, 1)]).values():
        future.result(30)
    ensure_topics(client, topics_of(plan, prefix, 1), 1)
    log = KafkaLog(KafkaSettings(client, prefix, patience_s=0.02), Wire(plan), Outlets(query))
    ids, made = itertools.count(1), list[MemoryTelemetry]()

    def telemetry(owner: Producer) -> MemoryTelemetry:
        made.append(MemoryTelemetry(Identity(query.name, *owner, 1), lambda: False, ids))
        return made[-1]

    tiers = ObservedTiers(plan, log, MemoryStore(), telemetry)
    messages = headers_of(client, f"{prefix}-out")

    def result() -> dict[str, bytes]:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            tiers.settle(1)
            found = next(messages)
            if found is not None:
                return found
        raise AssertionError("no result in a minute")

    def feed(source: int, offset: int, trace: str = "") -> None:
        block = source_block([offset], source=source, predecessor=offset - 1)
        log.append(Address(Topic.SHUFFLED, source % plan.dispatchers), [replace(block, trace=trace)])
        tiers.settle(2)

    feed(1, 0)
    feed(0, 0)
    assert "traceparent" not in result()
    feed(0, 1, str(USER))  # a group is written once for all that has come by then
    context = context_of(result()["traceparent"].decode())
    messages.close()  # type: ignore[attr-defined]
    assert context is not None and context.trace_id == USER.trace_id
    spans = {span.span_id: span for one in made for span in one.spans}
    path, at = [], spans[context.span_id]
    while at.parent != USER.span_id:
        path.append((at.tier, at.name))
        at = spans[at.parent]
    assert [*path, (at.tier, at.name)] == [("merger", "merge"), ("joiner", "join"), ("dispatcher", "dispatch")]
