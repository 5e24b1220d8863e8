"""A client of Kafka that waits reads what it would have read without waiting, and is woken by what comes."""

from __future__ import annotations

import random
import threading
import time
import uuid

from confluent_kafka.admin import AdminClient, NewTopic

from biclique.ports.kafka_log import KafkaClient, KafkaLog, KafkaSettings
from biclique.ports.wire import Wire
from biclique.tiers.messages import Address, Heartbeat, Record, Topic
from infra.kafka_server import KafkaServer
from tests.unit.tiers.building import plan

HERE = Address(Topic.SHUFFLED, 0)
LONG_S = 20.0


def log_of(server: KafkaServer) -> KafkaLog:
    client, prefix = {"bootstrap.servers": server.bootstrap}, f"waiting-{uuid.uuid4()}"
    admin = AdminClient(client)
    for future in admin.create_topics([NewTopic(f"{prefix}.shuffled", 1, 1)]).values():
        future.result(30)
    return KafkaLog(KafkaSettings(client, prefix), Wire(plan("SELECT r.v FROM r JOIN s ON r.k = s.k")))


def note(n: int) -> Heartbeat:
    return Heartbeat(0, 0, n, n, 0)


def read_on(client: KafkaClient, offset: int, limit: int) -> tuple[list[Record], int]:
    fetched = client.read(HERE, offset, limit)
    assert len(fetched.records) <= limit
    return [record for _, record in fetched.records], fetched.next_offset


def test_what_arrives_ends_a_wait_and_is_read_next(kafka_server: KafkaServer) -> None:
    log = log_of(kafka_server)
    client = log.client()
    assert read_on(client, 0, 10) == ([], 0)
    assert not client.wait(0.3)
    read_on(client, 0, 10)  # the end of the partition, which is news of a kind
    threading.Timer(0.3, log.append, (HERE, [note(1), note(2)])).start()
    began = time.monotonic()
    found: list[Record] = []
    while not found:
        client.wait(LONG_S)
        found, _ = read_on(client, 0, 1)
    assert found == [note(1)] and time.monotonic() - began < LONG_S
    client.close()


def test_reads_between_waits_lose_and_repeat_nothing(kafka_server: KafkaServer) -> None:
    rng, log = random.Random(11), log_of(kafka_server)
    client, offset = log.client(), 0
    found: list[Record] = []
    for n in range(60):
        log.append(HERE, [note(3 * n + i) for i in range(3)])
        for _ in range(rng.randrange(3)):
            client.wait(0.02)
        if rng.random() < 0.2:  # goes back, as one does who reads a record again, and comes back
            again = rng.randrange(offset + 1)
            client.read(HERE, again, 1)
            client.wait(0.01)
        records, offset = read_on(client, offset, rng.randrange(1, 6))
        found += records
    deadline = time.monotonic() + 30
    while len(found) < 180 and time.monotonic() < deadline:
        client.wait(0.05)
        records, offset = read_on(client, offset, 5)
        found += records
    assert found == [note(n) for n in range(180)]
    client.close()
