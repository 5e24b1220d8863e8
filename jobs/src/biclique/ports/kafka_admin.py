"""What Kafka is asked about a topic: how many partitions it has, where they end, where a time is. Patiently: a broker
that starts or moves, or has not heard of what was made a moment ago, is asked again for a while.

And so that nobody makes a topic by asking: brokers that make missing ones by themselves (`auto.create.topics.enable`,
on unless somebody turns it off) do so when a client looks for one by name, as `list_topics(name)` does. A misspelt
source would then be there, and empty. Describing a topic is another request, which makes nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from typing import Any, TypeVar

from confluent_kafka import IsolationLevel, TopicCollection, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ConfigResource,
    OffsetSpec,
    ResourceType,
    TopicDescription,
)

from biclique.ports.kafka_errors import told
from biclique.ports.refusals import UnfitTopic, Unreachable

SECONDS = 30.0  # of one request, and of all of them to one question
HEARD_OF_S = 10.0  # within which everybody has heard of a partition that has just been made
PAUSE_S, PAUSE_MAX_S = 0.05, 0.5
T = TypeVar("T")


def partitions_of(admin: AdminClient, topic: str, doing: str) -> int:
    return len(_described(admin, topic, doing).partitions)


def topics_there(admin: AdminClient) -> dict[str, int]:
    """How many partitions each has, of those that we may see."""
    with told("asking which topics there are"):
        return {name: len(found.partitions) for name, found in admin.list_topics(timeout=SECONDS).topics.items()}


def identity_of(admin: AdminClient, topic: str, doing: str) -> str:
    """Of this topic and of none that was made under the same name before or will be."""
    return str(_described(admin, topic, doing).topic_id)


def settings_of(admin: AdminClient, topic: str, patience_s: float) -> Any:
    """By name. `patience_s`: how long a topic that was made may be unheard of."""
    resource = ConfigResource(ResourceType.TOPIC, topic)

    def ask(left_s: float, anew: bool) -> Any:
        return admin.describe_configs([resource], request_timeout=left_s)[resource].result(left_s)

    return _patiently(f"looking at the settings of topic {topic}", ask, patience_s)


def _described(admin: AdminClient, topic: str, doing: str) -> TopicDescription:
    def ask(left_s: float, anew: bool) -> TopicDescription:
        asked = admin.describe_topics(TopicCollection([topic]), request_timeout=left_s)
        found: TopicDescription = asked[topic].result(left_s)
        return found

    return _patiently(doing, ask)


def offsets_of(
    admin: AdminClient,
    places: Collection[TopicPartition],
    spec: OffsetSpec,
    level: IsolationLevel = IsolationLevel.READ_COMMITTED,
) -> dict[TopicPartition, int]:
    """By place; negative where there is none for a time. Our client goes by what it knows of leaders and their epochs,
    for many minutes, and no answer teaches it better: behind an election every question would be refused, so what it
    knows is fetched anew before a question is asked again."""

    def ask(left_s: float, anew: bool) -> dict[TopicPartition, int]:
        if anew:
            admin.list_topics(timeout=left_s)  # of all
        asked = admin.list_offsets(dict.fromkeys(places, spec), isolation_level=level, request_timeout=left_s)
        return {place: future.result(left_s).offset for place, future in asked.items()}

    topics = sorted({place.topic for place in places})
    return _patiently(f"looking at the ends of topic {', '.join(topics)}", ask)


def _patiently(doing: str, ask: Callable[[float, bool], T], heard_of_s: float | None = None) -> T:
    """What has just been made may be unknown for a moment to who is asked, and to our client until it looks again.
    `ask`: is told how long it may take, and whether it has been asked in vain before."""
    began, pause_s = time.monotonic(), 0.0
    while True:
        try:
            with told(doing):
                return ask(max(1.0, began + SECONDS - time.monotonic()), pause_s > 0)
        except (UnfitTopic, Unreachable) as trouble:
            heard_s = HEARD_OF_S if heard_of_s is None else heard_of_s
            if time.monotonic() - began > (heard_s if isinstance(trouble, UnfitTopic) else SECONDS):
                raise
        pause_s = min(2 * pause_s, PAUSE_MAX_S) or PAUSE_S
        time.sleep(pause_s)
