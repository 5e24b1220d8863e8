"""The users' topics that a query reads: how many partitions, from where to where, where a time is. Looked at, never
changed. Their brokers need not be those of the query's own topics.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any

from confluent_kafka import IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

from biclique.core.stamps import PARTITION_BITS
from biclique.ports.kafka_errors import PASSING, UNKNOWN_TOPIC, told
from biclique.ports.log import Bounds
from biclique.ports.refusals import UnfitTopic
from biclique.query.model import Kafka, Query
from biclique.tiers.progress import SourcePartition

SECONDS = 30.0
HEARD_OF_S = 10.0  # within which everybody has heard of a partition that has just been made
PARTITIONS_MAX = 1 << PARTITION_BITS


class SourceTopics:
    """`clients`: librdkafka's settings for each source, with secrets already looked up."""

    def __init__(self, query: Query, clients: Mapping[int, Mapping[str, Any]]) -> None:
        self._topics = {
            n: source.input.topic for n, source in enumerate(query.sources) if isinstance(source.input, Kafka)
        }
        self._admins = {n: AdminClient({"log_level": 0, **clients[n]}) for n in self._topics}

    def topic(self, source: int) -> str:
        return self._topics[source]

    def partitions(self) -> tuple[SourcePartition, ...]:
        """Of all sources, as they are now."""
        return tuple(
            SourcePartition(source, number) for source in self._topics for number in range(self._count(source))
        )

    def _count(self, source: int) -> int:
        topic = self.topic(source)
        with told(f"looking for the topic {topic}, which a source reads"):
            found = self._admins[source].list_topics(topic, SECONDS).topics[topic]
            if found.error is not None:
                raise KafkaException(found.error)
        if len(found.partitions) > PARTITIONS_MAX:
            raise UnfitTopic(
                f"topic {topic} has {len(found.partitions)} partitions, and a source has at most {PARTITIONS_MAX}:"
                " spread it over several sources"
            )
        return len(found.partitions)

    def bounds(self, keys: Iterable[SourcePartition]) -> dict[SourcePartition, Bounds]:
        wanted = tuple(keys)
        starts, ends = self._offsets(wanted, OffsetSpec.earliest()), self.ends(wanted)
        return {key: Bounds(starts[key], ends[key]) for key in wanted}

    def ends(self, keys: Iterable[SourcePartition]) -> dict[SourcePartition, int]:
        """Last stable offsets: what a reader that reads committed can come to."""
        return self._offsets(tuple(keys), OffsetSpec.latest())

    def from_time(self, keys: Iterable[SourcePartition], time_ms: int) -> dict[SourcePartition, int]:
        """The first record that was appended then or later; the end where there is none."""
        wanted = tuple(keys)
        found = self._offsets(wanted, OffsetSpec.for_timestamp(time_ms))
        ends = self.ends(key for key in wanted if found[key] < 0)
        return {key: ends.get(key, offset) for key, offset in found.items()}

    def _offsets(self, keys: tuple[SourcePartition, ...], spec: OffsetSpec) -> dict[SourcePartition, int]:
        found: dict[SourcePartition, int] = {}
        for source, admin in self._admins.items():
            places = {TopicPartition(self.topic(source), key.partition): key for key in keys if key.source == source}
            found |= _asked(admin, places, spec) if places else {}
        return {key: found[key] for key in keys}


def _asked(
    admin: AdminClient, places: Mapping[TopicPartition, SourcePartition], spec: OffsetSpec
) -> dict[SourcePartition, int]:
    """A partition that has just been made may be unknown for a moment to who is asked for its ends, and to our client
    until it looks again."""
    began = time.monotonic()
    while True:
        asked = admin.list_offsets(dict.fromkeys(places, spec), isolation_level=IsolationLevel.READ_COMMITTED)
        try:
            return {places[place]: future.result(SECONDS).offset for place, future in asked.items()}
        except KafkaException as failure:
            unknown, waited_s = failure.args[0].code() in UNKNOWN_TOPIC, time.monotonic() - began
            topics = sorted({place.topic for place in places})
            if waited_s > (HEARD_OF_S if unknown else SECONDS) or not (unknown or failure.args[0].code() in PASSING):
                with told(f"looking at the ends of topic {', '.join(topics)}"):
                    raise
            if unknown:
                for topic in topics:
                    admin.list_topics(topic, SECONDS)
            time.sleep(0.05)
