"""Looking for a topic makes none, also where brokers make what is asked for: a misspelt source is a sentence."""

from __future__ import annotations

import time

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from biclique.ports.kafka_admin import identity_of, partitions_of
from biclique.ports.refusals import UnfitTopic
from infra import processes
from infra.jars import BROKER, NoJars, jars_of
from infra.kafka_server import KafkaServer
from tests.conformance.test_kafka_log import Kafka


@pytest.mark.slow
def test_a_missing_topic_stays_missing(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    try:
        jars_of(BROKER)
    except NoJars as reason:
        pytest.skip(f"needs Kafka. {reason}")
    monkeypatch.setattr("biclique.ports.kafka_admin.HEARD_OF_S", 1.0)
    ports = processes.free_port(), processes.free_port()
    server = KafkaServer(tmp_path_factory.mktemp("making"), *ports, makes_topics=True)
    process = server.start()
    try:
        admin = AdminClient({**server.client, "log_level": 0})
        with pytest.raises(UnfitTopic, match="looking for it: the topic or partition does not exist"):
            partitions_of(admin, "ordres", "looking for it")
        admin.list_topics("made", 30)  # this broker makes what it is asked for by name, a moment later
        deadline = time.monotonic() + 30
        while "made" not in (there := admin.list_topics(timeout=30).topics):
            assert time.monotonic() < deadline
            time.sleep(0.1)
        assert "ordres" not in there
    finally:
        processes.stop(process)


def test_partitions_are_counted(kafka_server: KafkaServer) -> None:
    kafka = Kafka(kafka_server)
    try:
        assert partitions_of(kafka.admin, kafka.topic("looked-at"), "looking") == 1
    finally:
        kafka.remove()


def test_a_topic_that_is_made_anew_is_another_one(kafka_server: KafkaServer) -> None:
    kafka = Kafka(kafka_server)
    try:
        topic = kafka.topic("again")
        before = identity_of(kafka.admin, topic, "looking")
        assert identity_of(kafka.admin, topic, "looking") == before
        kafka.admin.delete_topics([topic])[topic].result(30)
        deadline = time.monotonic() + 30
        while True:
            try:
                kafka.topic("again")
                break
            except KafkaException:
                assert time.monotonic() < deadline
                time.sleep(0.1)
        while identity_of(kafka.admin, topic, "looking") == before:  # as far as the broker has heard
            assert time.monotonic() < deadline
            time.sleep(0.05)
    finally:
        kafka.remove()
