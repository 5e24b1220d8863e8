"""Messages of some partitions of a user's topic, each from its own offset, as one reader that reads committed has them.

Where a partition begins is never chosen here: an offset that is not there is a refusal, and no reset.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Consumer, KafkaError, TopicPartition

from biclique.ports.kafka_errors import PASSING, trouble
from biclique.ports.kafka_reading import REFILL_MS
from biclique.ports.refusals import UnfitTopic, Unreachable

FETCHED_KBYTES = 32_768
TIME_MAX_MS = (1 << 61) // 1000  # a producer may write what is no time at all, and microseconds have 64 bits


class Input(NamedTuple):
    offset: int
    time_us: int  # the record's own; negative: it has none
    value: bytes | None


class TopicInput:
    """`begins`: the next offset of each partition to read."""

    def __init__(self, client: Mapping[str, Any], topic: str, begins: Mapping[int, int]) -> None:
        self._topic = topic
        self.position = dict(begins)  # everything below has been handed on, or is no record
        self._consumer = Consumer(
            {
                "fetch.wait.max.ms": 50,
                "fetch.error.backoff.ms": 50,
                "queued.max.messages.kbytes": FETCHED_KBYTES,
                "fetch.queue.backoff.ms": REFILL_MS,
                "log_level": 0,
                **client,
                "group.id": "none",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
            }
        )
        self._consumer.assign([TopicPartition(topic, number, offset) for number, offset in begins.items()])

    def add(self, begins: Mapping[int, int]) -> None:
        self.position |= begins
        places = [TopicPartition(self._topic, number, offset) for number, offset in begins.items()]
        self._consumer.incremental_assign(places)

    def drop(self, partition: int) -> None:
        """Read to its end: what comes later is not wanted."""
        self._consumer.incremental_unassign([TopicPartition(self._topic, partition)])

    def read(self, limit: int, patience_s: float) -> dict[int, list[Input]]:
        """By partition, in order; empty after a while without any."""
        found: dict[int, list[Input]] = {}
        for message in self._consumer.consume(limit, patience_s):
            error, partition, offset = message.error(), message.partition(), message.offset()
            assert partition is not None
            if error is None:
                assert offset is not None
                kind, time_ms = message.timestamp()
                time_us = -1 if kind == TIMESTAMP_NOT_AVAILABLE else min(time_ms, TIME_MAX_MS) * 1000
                found.setdefault(partition, []).append(Input(offset, time_us, message.value()))
                self.position[partition] = offset + 1
            elif error.code() == KafkaError._PARTITION_EOF:
                assert offset is not None
                self.position[partition] = max(self.position[partition], offset)
            elif error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
                raise UnfitTopic(
                    f"offset {self.position.get(partition)} of partition {partition} of topic {self._topic} is gone:"
                    " its retention is shorter than this run was behind, or the topic was made anew;"
                    " begin anew with --restart"
                )
            elif error.code() not in PASSING:
                doing = f"reading topic {self._topic}"
                raise trouble(error, doing) or Unreachable(f"Kafka fails while {doing} ({error.str()})")
        return found

    def close(self) -> None:
        self._consumer.close()
