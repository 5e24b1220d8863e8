"""The log over TLS as a user with a password: the same transactions, and refusals that say what is wrong."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from biclique.hosts.units.connections import kafka_settings
from biclique.hosts.units.founding import found
from biclique.hosts.units.spec import Surroundings
from biclique.plan.table import first_table
from biclique.ports.control_folder import ControlFolder
from biclique.ports.kafka_log import KafkaLog
from biclique.ports.wire import Wire
from biclique.tiers.dispatcher import dispatcher_producer
from biclique.tiers.progress import DispatcherProgress
from infra.kafka_server import KafkaServer
from tests.unit.tiers.building import plan

MADE = plan("SELECT r.v AS v FROM r JOIN s ON r.k = s.k")


def surroundings(server: KafkaServer, secrets: Path, secret: str) -> Surroundings:
    kafka = {"bootstrap.servers": server.bootstrap}
    return Surroundings(kafka, "", "", f"q{uuid.uuid4().hex[:8]}", secrets=str(secrets), kafka_secret=secret)


@pytest.mark.parametrize("secret", ["kafka", "kafka-plain"])
def test_a_query_is_founded_by_a_user_with_a_password(
    secure_kafka_server: KafkaServer, tmp_path: Path, secret: str
) -> None:
    assert secure_kafka_server.security is not None
    around = surroundings(secure_kafka_server, secure_kafka_server.security.secrets, secret)
    log, control = KafkaLog(kafka_settings(around), Wire(MADE)), ControlFolder(tmp_path)
    found(MADE, log, control, 1, 2)
    assert control.table(None) == first_table(MADE)
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
