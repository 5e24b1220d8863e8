"""The log over TLS as a user with a password: the same transactions, and refusals that say what is wrong."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from biclique.hosts.units.connections import kafka_settings, source_topics
from biclique.hosts.units.founding import found
from biclique.hosts.units.spec import Surroundings
from biclique.plan.make import make_plan
from biclique.plan.table import first_table
from biclique.ports.control_folder import ControlFolder
from biclique.ports.kafka_log import KafkaLog
from biclique.ports.wire import Wire
from biclique.query.compile import compile_manifest
from biclique.tiers.dispatcher import dispatcher_producer
from biclique.tiers.progress import DispatcherProgress
from infra.kafka_server import KafkaServer

MANIFEST = """
apiVersion: biclique.dev/v1alpha1
kind: JoinQuery
metadata: {{name: secure}}
spec:
  sources:
    - name: r
      schema: "k INT, v INT"
      kafka: {{bootstrapServers: "{brokers}", topic: {name}-r, format: json, secretRef: {{name: {secret}}}}}
    - name: s
      schema: "k INT"
      kafka: {{bootstrapServers: "{brokers}", topic: {name}-s, format: json, secretRef: {{name: {secret}}}}}
  sql: "SELECT r.v FROM r JOIN s ON r.k = s.k"
  topics: {{partitions: 2, createOutput: true}}
  output: {{kafka: {{bootstrapServers: "{brokers}", topic: {name}-out, format: json}}}}
"""


def surroundings(server: KafkaServer, secrets: Path, secret: str) -> Surroundings:
    kafka = {"bootstrap.servers": server.bootstrap}
    return Surroundings(kafka, "", "", f"q{uuid.uuid4().hex[:8]}", secrets=str(secrets), kafka_secret=secret)


@pytest.mark.parametrize("secret", ["kafka", "kafka-plain"])
def test_a_query_is_founded_by_a_user_with_a_password(
    secure_kafka_server: KafkaServer, tmp_path: Path, secret: str
) -> None:
    assert secure_kafka_server.security is not None
    around = surroundings(secure_kafka_server, secure_kafka_server.security.secrets, secret)
    servers = secure_kafka_server.bootstrap
    made = make_plan(compile_manifest(MANIFEST.format(brokers=servers, name=around.prefix, secret=secret)))
    admin = AdminClient(secure_kafka_server.client)
    for future in admin.create_topics([NewTopic(f"{around.prefix}-{side}", 1, 1) for side in "rs"]).values():
        future.result(30)
    log, control = KafkaLog(kafka_settings(around), Wire(made)), ControlFolder(tmp_path)
    found(made, log, control, source_topics(around, made.query), 2)
    assert control.table(None) == first_table(made)
    client = log.client()
    assert client.read_progress(dispatcher_producer(0)) == DispatcherProgress()
    client.close()


def test_nobody_comes_in_without_a_password(secure_kafka_server: KafkaServer) -> None:
    assert secure_kafka_server.security is not None
    stranger = {**secure_kafka_server.client, "sasl.password": "hush", "log_level": 0}
    with pytest.raises(KafkaException):
        AdminClient(stranger).list_topics(timeout=2)
    plain = {"bootstrap.servers": secure_kafka_server.bootstrap, "log_level": 0}
    with pytest.raises(KafkaException):
        AdminClient(plain).list_topics(timeout=2)
