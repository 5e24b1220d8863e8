"""One record with a trace of its own, through tiers that are processes, and what a collector and a reader saw of it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from confluent_kafka import Consumer, TopicPartition

from infra.collector import CollectedSpan, Collector
from tests.dataplane.query import KafkaQuery

TIERS = ("shuffler", "dispatcher", "joiner")
PARTNERS = 3  # of the followed record
USER_TRACE, USER_SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
TRACEPARENT = f"00-{USER_TRACE}-{USER_SPAN}-01"
FOLLOWED_ROW = 1000
SECONDS = 180.0


def settings_of(collector: Collector) -> dict[str, str]:
    """For the tiers' environment: no trace but those that records bring, and numbers at once."""
    return {
        "OTEL_EXPORTER_OTLP_ENDPOINT": collector.endpoint,
        "OTEL_TRACES_SAMPLER": "parentbased_always_off",
        "OTEL_METRIC_EXPORT_INTERVAL": "1000",
    }


@dataclass(frozen=True)
class Followed:
    """`headers`: of each result that the record had a part in. `spans`: of its trace, as far as they have come."""

    headers: tuple[Mapping[str, bytes], ...]
    spans: tuple[CollectedSpan, ...]


def follow_one(query: KafkaQuery, collector: Collector) -> Followed:
    """Its partners are stored before it comes, so it is what probes."""
    for tier in TIERS:
        query.start(tier)
    query.produce_rows("s", [1] * PARTNERS, 0)
    query.produce_rows("r", [1], 0)
    assert query.results(PARTNERS, SECONDS).total() == PARTNERS, query.log_of("shuffler")
    query.produce("r", b'{"k": 1, "v": %d}' % FOLLOWED_ROW, {"traceparent": TRACEPARENT})
    assert query.producer.flush(30) == 0
    headers = tuple(found for row, found in _results(query, 2 * PARTNERS) if row["rv"] == FOLLOWED_ROW)
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and not _whole(collector):
        time.sleep(0.2)
    return Followed(headers, tuple(span for span in collector.spans if span.trace == USER_TRACE))


def _whole(collector: Collector) -> bool:
    """Both joiners have told, and every span's parent has come."""
    spans = [span for span in collector.spans if span.trace == USER_TRACE]
    known = {USER_SPAN, *(span.span for span in spans)}
    return sum(span.name == "join" for span in spans) >= 2 and all(span.parent in known for span in spans)


def _results(query: KafkaQuery, wanted: int) -> Iterator[tuple[dict[str, int], dict[str, bytes]]]:
    consumer = Consumer({**query.client, "group.id": "reader", "isolation.level": "read_committed"})
    consumer.assign([TopicPartition(f"{query.name}-out", 0, 0)])
    deadline, found = time.monotonic() + SECONDS, 0
    try:
        while found < wanted and time.monotonic() < deadline:
            message = consumer.poll(1.0)
            if message is not None and message.error() is None:
                found += 1
                yield json.loads(message.value() or b""), dict(message.headers() or ())
    finally:
        consumer.close()
