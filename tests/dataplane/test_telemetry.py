"""A record's trace goes through every tier, as processes, to its results; and every tier tells its numbers."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from biclique.ports.metrics import METRICS
from infra.collector import CollectedSpan, Collector
from infra.kafka_server import KafkaServer
from infra.redis_server import RedisServer
from tests.dataplane.followed import PARTNERS, TIERS, USER_SPAN, USER_TRACE, follow_one, settings_of
from tests.dataplane.query import KafkaQuery

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.long]
# Java's launcher knows no log, and what librdkafka says while a client closes goes past every setting of ours.
NOT_OURS = ("WARNING: Using incubator modules", "%")
RARE = {"biclique.checkpoint.duration", "biclique.fetch.duration"}  # of what need not happen in a short run


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    made = Collector().start()
    for name, value in settings_of(made).items():
        monkeypatch.setenv(name, value)
    yield made
    made.stop()


def path_of(span: CollectedSpan, spans: dict[str, CollectedSpan]) -> tuple[str, ...]:
    """From the user's span down: tier and name of each."""
    above = () if span.parent == USER_SPAN else path_of(spans[span.parent], spans)
    return (*above, f"{span.resource['service.name'].removeprefix('biclique-')} {span.name}")


def test_from_the_record_to_its_results(
    kafka_server: KafkaServer, redis_server: RedisServer, tmp_path: Path, collector: Collector
) -> None:
    query = KafkaQuery(kafka_server, redis_server, tmp_path)
    try:
        followed = follow_one(query, collector)
        deadline = time.monotonic() + 20
        wanted = {metric.name for metric in METRICS if set(metric.tiers) & set(TIERS)} - RARE
        while time.monotonic() < deadline and not wanted <= {point.name for point in collector.points}:
            time.sleep(0.5)
    finally:
        query.stop()
    assert {span.trace for span in collector.spans} == {USER_TRACE}, "nobody else is followed"
    spans = {span.span: span for span in followed.spans}
    read, dispatch = ("shuffler read",), ("shuffler read", "dispatcher dispatch")
    join = (*dispatch, "joiner join")
    parts = {"read", "store", "probe", "emit", "commit"}
    paths = [path_of(span, spans) for span in spans.values()]
    assert set(paths) == {
        read,
        dispatch,
        *((*dispatch, f"dispatcher {part}") for part in ("read", "route", "commit")),
        join,
        *((*join, f"joiner {part}") for part in parts),
    }, query.log_of("joiner")
    assert paths.count(read) == paths.count(dispatch) == 1
    stored, probed = sorted(
        (span for span in spans.values() if span.name == "join"),
        key=lambda span: span.attributes["biclique.role"],
        reverse=True,
    )
    assert (stored.attributes["biclique.role"], probed.attributes["biclique.role"]) == ("store", "probe")
    assert stored.resource["biclique.unit"] != probed.resource["biclique.unit"]
    assert len(followed.headers) == PARTNERS
    assert {found["traceparent"] for found in followed.headers} == {f"00-{USER_TRACE}-{probed.span}-01".encode()}
    for span in spans.values():
        assert span.started_ns <= span.ended_ns
        if span.parent in spans:
            assert spans[span.parent].started_ns <= span.started_ns
    told = {point.name for point in collector.points}
    assert wanted <= told, f"nobody told {sorted(wanted - told)}"
    good = [
        point.value
        for point in collector.points
        if point.name == "biclique.tuples"
        and point.attributes["biclique.fate"] == "good"
        and point.attributes["biclique.source"] == "s"
    ]
    assert max(good) == PARTNERS
    for tier in TIERS:
        lines = (tmp_path / f"{tier}.log").read_text().splitlines()
        said = [json.loads(line) for line in lines if not line.startswith(NOT_OURS)]
        assert said[0]["event"] == "tier.started"
        assert {(line["query"], line["tier"]) for line in said} == {(query.name, tier)}
        units = {line["unit"] for line in said if line["event"] == "unit.started"}
        assert units == {"shuffler": set(), "dispatcher": {"0", "1"}, "joiner": {"0L0.0", "0R0.0"}}[tier]
