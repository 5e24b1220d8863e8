"""Units that pick blocks of payload: what that takes of the network, and that it does not wait."""

from __future__ import annotations

import json
import random
import time
import uuid
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from biclique.plan.semijoin import BLOCK_BYTES
from biclique.ports.kafka_log import PICKING
from biclique.ports.kafka_reading import Follower
from infra.kafka_server import KafkaServer

MESSAGES = 200
SECONDS = 30.0  # with a pause of a second behind each three, ninety came in it


@pytest.fixture
def blocks(kafka_server: KafkaServer) -> str:
    """A topic full of them; what they hold does not compress."""
    client, topic = kafka_server.client, f"refill-{uuid.uuid4().hex[:8]}"
    admin = AdminClient(client)
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)
    producer = Producer({**client, "batch.num.messages": 1})  # else one fetch brings many of them
    for number in range(MESSAGES):
        producer.produce(topic, random.Random(number).randbytes(BLOCK_BYTES))
    assert producer.flush(30) == 0
    return topic


def test_a_queue_of_one_message_costs_no_pauses(kafka_server: KafkaServer, blocks: str) -> None:
    """A reader whose client's queue was full reads on when there is room in it, and not a pause of librdkafka's
    later."""
    follower = Follower({**kafka_server.client, **PICKING}, blocks, 0, patience_s=0.02)
    began, at = time.monotonic(), 0
    while at < MESSAGES:
        assert time.monotonic() - began < SECONDS, f"{at} of {MESSAGES}"
        _, at, _ = follower.read(at, 20)
    follower.close()


def test_a_block_that_is_picked_takes_little_more_than_itself(kafka_server: KafkaServer, blocks: str) -> None:
    """The cost model counts blocks. Four times as much came where a fetch took what it could get."""
    received = [0]

    def count(statistics: str) -> None:
        received[0] = sum(broker["rxbytes"] for broker in json.loads(statistics)["brokers"].values())

    told: dict[str, Any] = {"statistics.interval.ms": 50, "stats_cb": count}
    follower = Follower({**kafka_server.client, **PICKING, **told}, blocks, 0, patience_s=0.02)
    picks = range(0, MESSAGES, 10)
    for at in picks:
        found: list[Any] = []
        while not found:
            found, _, _ = follower.read(at, 1)
    consumer, least = follower._consumer, len(picks) * BLOCK_BYTES
    consumer.pause(consumer.assignment())  # from now on nothing more is fetched, and what was is counted
    until = time.monotonic() + 1.0
    while time.monotonic() < until or received[0] < least:
        assert time.monotonic() < until + 30.0
        consumer.poll(0.05)
    follower.close()
    assert received[0] < 2.7 * least  # the next one may be on its way before the place is another one
