"""Topics that would not do are refused before anything runs, each with one sentence that names it and the remedy."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from biclique.plan.make import make_plan
from biclique.ports.kafka_topics import ensure_topics, refuse_unfit, refuse_unfit_output, topics_of
from biclique.ports.refusals import UnfitTopic
from biclique.query.compile import compile_manifest
from biclique.query.model import Query
from infra.kafka_server import KafkaServer
from tests.conformance.test_kafka_log import Kafka

MANIFEST = """
apiVersion: biclique.dev/v1alpha1
kind: JoinQuery
metadata: {{name: out}}
spec:
  sources:
    - {{name: r, schema: "k INT, s STRING", kafka: {{bootstrapServers: "b:1", topic: r, format: json}}}}
    - {{name: s, schema: "k INT", kafka: {{bootstrapServers: "b:1", topic: s, format: json}}}}
  sql: "SELECT r.s FROM r JOIN s ON r.k = s.k"
  topics: {{partitions: 3, createOutput: {create}}}
  output: {{kafka: {{bootstrapServers: "b:1", topic: {topic}, format: {shape}}}}}
"""


def query(topic: str, shape: str = "json", create: str = "false") -> Query:
    return compile_manifest(MANIFEST.format(topic=topic, shape=shape, create=create))


@pytest.fixture
def kafka(kafka_server: KafkaServer) -> Iterator[Kafka]:
    made = Kafka(kafka_server)
    yield made
    made.remove()


def wanted(kafka: Kafka) -> dict[str, tuple[int, dict[str, str]]]:
    return topics_of(make_plan(query("out")), kafka.prefix, 2)


def test_what_is_made_is_fit_and_made_once(kafka: Kafka) -> None:
    for _ in range(2):
        ensure_topics(dict(kafka.client), wanted(kafka), 1)
    refuse_unfit(dict(kafka.client), wanted(kafka))


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (
            {"cleanup_policy": "compact"},
            r"topic .*signals has cleanup.policy=compact, and delete is needed: set",
        ),
        ({"retention_ms": "1000"}, r"topic .*signals has retention.ms=1000, and -1 is needed"),
        (
            {"retention_ms": "-1", "max_message_bytes": "1000"},
            r"has max.message.bytes=1000, and 8388608 is needed",
        ),
    ],
)
def test_a_topic_that_would_lose_records_is_refused(kafka: Kafka, settings: dict[str, str], sentence: str) -> None:
    kafka.topic("signals", **settings)
    with pytest.raises(UnfitTopic, match=sentence):
        ensure_topics(dict(kafka.client), wanted(kafka), 1)


def test_too_few_partitions_are_another_querys(kafka: Kafka) -> None:
    kafka.topic(
        "shuffled",
        **{key.replace(".", "_"): value for key, value in wanted(kafka)[f"{kafka.prefix}.shuffled"][1].items()},
    )
    with pytest.raises(UnfitTopic, match=r"shuffled has 1 partitions, and 3 are needed: another query has made it"):
        ensure_topics(dict(kafka.client), wanted(kafka), 1)


def test_more_copies_than_brokers_are_refused(kafka: Kafka) -> None:
    with pytest.raises(UnfitTopic, match=r"cannot have that many copies .* choose topics.replication"):
        ensure_topics(dict(kafka.client), wanted(kafka), 3)


def test_one_of_ours_that_is_gone_is_named(kafka: Kafka, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("biclique.ports.kafka_topics.SECONDS", 5.0)
    with pytest.raises(UnfitTopic, match=r"topic log-\w+\.shuffled: the topic or partition does not exist"):
        refuse_unfit(dict(kafka.client), wanted(kafka))


def test_the_output_topic_is_there_or_wanted(kafka: Kafka) -> None:
    topic, client = f"{kafka.prefix}.out", dict(kafka.client)
    with pytest.raises(UnfitTopic, match=rf"output topic {topic} does not exist: create it, or set topics"):
        refuse_unfit_output(client, query(topic), 1)
    for _ in range(2):
        refuse_unfit_output(client, query(topic, create="true"), 1)
    refuse_unfit_output(client, query(topic, "arrow"), 1)


def test_a_compacted_output_takes_rows_with_keys_only(kafka: Kafka) -> None:
    topic = kafka.topic("out", cleanup_policy="compact")
    refuse_unfit_output(dict(kafka.client), query(topic), 1)
    with pytest.raises(UnfitTopic, match=r"out has cleanup.policy=compact, .* choose format json, or"):
        refuse_unfit_output(dict(kafka.client), query(topic, "arrow"), 1)
