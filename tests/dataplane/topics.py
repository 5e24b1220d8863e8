"""What a topic holds, as a reader of what is committed finds it."""

from __future__ import annotations

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, TopicPartition


def committed(servers: str, topic: str) -> list[Message]:
    """All of it up to now, in no order between partitions."""
    settings = {"bootstrap.servers": servers, "group.id": "judge", "isolation.level": "read_committed"}
    consumer = Consumer({**settings, "enable.auto.commit": False, "enable.partition.eof": True})
    try:
        partitions = consumer.list_topics(topic, timeout=30).topics[topic].partitions
        assert partitions, f"there is no topic {topic}"
        consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in partitions])
        found, at_end = [], set()
        while len(at_end) < len(partitions):
            for message in consumer.consume(10_000, 1.0):
                error = message.error()
                if error is None:
                    found.append(message)
                elif error.code() == KafkaError._PARTITION_EOF:
                    at_end.add(message.partition())
                else:
                    raise KafkaException(error)
        return found
    finally:
        consumer.close()


def header(message: Message, name: str) -> str:
    return dict(message.headers() or ())[name].decode()
