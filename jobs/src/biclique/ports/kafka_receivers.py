"""How far those have come who read what a unit sends, by what they have committed: one consumer over all their progress
topics, which is looked at now and then and never waited for.

It is advice: somebody of whom nothing has been seen, because Kafka is away or he has not begun, is not known. Only the
newest progress of each counts, so it begins a few records before the end of each partition.

Clients do not survive a fork: make this object in the process that uses it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from confluent_kafka import Consumer, KafkaException, TopicPartition

from biclique.ports.kafka_errors import PASSING
from biclique.ports.kafka_log import PROGRESS, KafkaSettings, input_of, topic_of
from biclique.ports.progress_json import decode_progress
from biclique.tiers.messages import Producer
from biclique.tiers.progress import Progress

LOOK_S = 0.25  # between two looks
PLACES_S = 5.0  # between two questions where the partitions end, while the brokers do not say
TAIL = 16  # offsets: a progress, its marker, and those of transactions that were given up
RECORDS_PER_LOOK = 2_000
REQUEST_S = 2.0


class Receivers:
    def __init__(self, settings: KafkaSettings, clock: Callable[[], float]) -> None:
        self._settings, self._clock = settings, clock
        self._consumer: Consumer | None = None
        self._owners: tuple[Producer, ...] = ()
        self._wanted: set[tuple[str, int]] = set()
        self._is_placed = False
        self._found: dict[str, Progress] = {}
        self._next_look = self._next_places = float("-inf")

    def close(self) -> None:
        if self._consumer is not None:
            self._consumer.close()

    def progress(self, owners: Sequence[Producer]) -> list[Progress | None]:
        """Of each, as last seen."""
        if tuple(owners) != self._owners:
            self._begin(tuple(owners))
        now = self._clock()
        if self._owners and now >= self._next_look:
            self._next_look = now + LOOK_S
            if not self._is_placed and now >= self._next_places:
                self._next_places = now + PLACES_S
                self._place()
            self._take()
        return [self._found.get(str(owner)) for owner in owners]

    def _begin(self, owners: tuple[Producer, ...]) -> None:
        self._owners, self._is_placed = owners, False
        self._wanted = {topic_of(self._settings.prefix, input_of(owner)) for owner in owners}
        self._found = {str(owner): self._found[str(owner)] for owner in owners if str(owner) in self._found}
        self._next_look = self._next_places = float("-inf")

    def _place(self) -> None:
        """Where reading begins in each partition."""
        if self._consumer is None:
            self._consumer = Consumer(
                {
                    "fetch.wait.max.ms": 500,
                    "queued.max.messages.kbytes": 1024,
                    **self._settings.quiet,
                    "group.id": "none",
                    "enable.auto.commit": False,
                    "auto.offset.reset": "latest",
                    "isolation.level": "read_committed",
                }
            )
        places = []
        for topic, partition in sorted(self._wanted):
            place = TopicPartition(topic + PROGRESS, partition)
            try:
                low, high = self._consumer.get_watermark_offsets(place, REQUEST_S)
            except KafkaException:
                return  # whoever needs this topic for its work says what is wrong with it
            place.offset = max(low, high - TAIL)
            places.append(place)
        self._consumer.assign(places)
        self._is_placed = True

    def _take(self) -> None:
        if self._consumer is None or not self._is_placed:
            return
        newest: dict[str, bytes] = {}
        for message in self._consumer.consume(RECORDS_PER_LOOK, 0.0):
            error = message.error()
            if error is None:
                newest[(message.key() or b"").decode()] = message.value() or b""
            elif error.code() not in PASSING:
                self._is_placed = False  # whoever needs this topic for its work says what is wrong with it
        wanted = {str(owner) for owner in self._owners}
        for owner, text in newest.items():
            if owner in wanted and text:
                self._found[owner] = decode_progress(json.loads(text))
