"""The users' topics that a query reads: how many partitions, from where to where, where a time is. Looked at, never
changed. Their brokers need not be those of the query's own topics.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from confluent_kafka import IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

from biclique.core.stamps import PARTITION_BITS
from biclique.ports.kafka_admin import identity_of, offsets_of, partitions_of, settings_of
from biclique.ports.log import Bounds
from biclique.ports.refusals import Refused, UnfitTopic, Unreachable
from biclique.query.model import Kafka, Query
from biclique.tiers.progress import SourcePartition

PARTITIONS_MAX = 1 << PARTITION_BITS
SETTINGS_S = 2.0  # within which a topic that was just made is heard of


class SourceTopics:
    """`clients`: librdkafka's settings for each source, with secrets already looked up."""

    def __init__(self, query: Query, clients: Mapping[int, Mapping[str, Any]]) -> None:
        self._topics = {
            n: source.input.topic for n, source in enumerate(query.sources) if isinstance(source.input, Kafka)
        }
        self._admins = {n: AdminClient({"log_level": 0, **clients[n]}) for n in self._topics}

    def topic(self, source: int) -> str:
        return self._topics[source]

    def identities(self) -> dict[str, str]:
        """By topic: one that was deleted and made anew has another."""
        return {
            topic: identity_of(self._admins[source], topic, f"looking for the topic {topic}, which a source reads")
            for source, topic in self._topics.items()
        }

    def compacted(self) -> tuple[str, ...]:
        """Those of which Kafka may remove records before they are read, whatever their retention, as far as we may look
        at their settings."""
        found = set()
        for source, topic in self._topics.items():
            try:
                policy = settings_of(self._admins[source], topic, SETTINGS_S)["cleanup.policy"].value
            except (Refused, Unreachable, KafkaException):
                continue  # who reads it says what is wrong with it
            if "compact" in policy:
                found.add(topic)
        return tuple(sorted(found))

    def partitions(self) -> tuple[SourcePartition, ...]:
        """Of all sources, as they are now."""
        return tuple(
            SourcePartition(source, number) for source in self._topics for number in range(self._count(source))
        )

    def _count(self, source: int) -> int:
        topic = self.topic(source)
        count = partitions_of(self._admins[source], topic, f"looking for the topic {topic}, which a source reads")
        if count > PARTITIONS_MAX:
            raise UnfitTopic(
                f"topic {topic} has {count} partitions, and a source has at most {PARTITIONS_MAX}:"
                " spread it over several sources"
            )
        return count

    def bounds(self, keys: Iterable[SourcePartition]) -> dict[SourcePartition, Bounds]:
        wanted = tuple(keys)
        starts, ends = self._offsets(wanted, OffsetSpec.earliest()), self.ends(wanted)
        return {key: Bounds(starts[key], ends[key]) for key in wanted}

    def ends(self, keys: Iterable[SourcePartition]) -> dict[SourcePartition, int]:
        """Last stable offsets: what a reader that reads committed can come to."""
        return self._offsets(tuple(keys), OffsetSpec.latest())

    def undecided(self, ends: Mapping[SourcePartition, int]) -> frozenset[SourcePartition]:
        """Those in which a transaction is open: more has been written than to their `ends`."""
        written = self._offsets(tuple(ends), OffsetSpec.latest(), IsolationLevel.READ_UNCOMMITTED)
        return frozenset(key for key, end in written.items() if end > ends[key])

    def from_time(self, keys: Iterable[SourcePartition], time_ms: int) -> dict[SourcePartition, int]:
        """The first record that was appended then or later; the end where there is none."""
        wanted = tuple(keys)
        found = self._offsets(wanted, OffsetSpec.for_timestamp(time_ms))
        ends = self.ends(key for key in wanted if found[key] < 0)
        return {key: ends.get(key, offset) for key, offset in found.items()}

    def _offsets(
        self,
        keys: tuple[SourcePartition, ...],
        spec: OffsetSpec,
        level: IsolationLevel = IsolationLevel.READ_COMMITTED,
    ) -> dict[SourcePartition, int]:
        found: dict[SourcePartition, int] = {}
        for source, admin in self._admins.items():
            places = {TopicPartition(self.topic(source), key.partition): key for key in keys if key.source == source}
            if places:
                found |= {places[place]: offset for place, offset in offsets_of(admin, places, spec, level).items()}
        return {key: found[key] for key in keys}
