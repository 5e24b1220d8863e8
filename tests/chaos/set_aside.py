"""What the query set aside, as a read-committed reader of its late and dead topics finds it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from tests.chaos.stage import Stage


def set_aside(stage: Stage) -> tuple[Counter[tuple[str, int]], Counter[bytes]]:
    """Late rows by side and number, dead ones as they came."""
    late: Counter[tuple[str, int]] = Counter()
    for message in _messages(stage, ".late"):
        headers = dict(message.headers())
        late[headers["source"].decode(), json.loads(message.value())["v"]] += 1
    return late, Counter(message.value() for message in _messages(stage, ".dead"))


def _messages(stage: Stage, topic: str) -> Iterator[Message]:
    places = stage.topics(topic)
    consumer = Consumer(
        {
            "bootstrap.servers": stage.kafka.bootstrap,
            "group.id": "auditor",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(place.topic, place.partition, 0) for place in places])
    ended = 0
    while ended < len(places):
        for message in consumer.consume(10_000, 1.0):
            error = message.error()
            if error is None:
                yield message
            elif error.code() == KafkaError._PARTITION_EOF:
                ended += 1
    consumer.close()
