"""`TUMBLE` and `DISTINCT` through a merger, every tier a process: each group of a span, and each row, comes out as
often as the oracle says, though units are killed in between. What their checkpoints and restarts tell a collector is
looked at on the way, and a volume keeps the checkpoints of one of the two."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Set
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from biclique.ports.tables import RESULT_ID
from biclique.query.compile import compile_manifest
from infra.collector import CollectedSpan, Collector
from infra.kafka_server import KafkaServer
from infra.redis_server import RedisServer
from tests.dataplane.query import MANIFEST, KafkaQuery, keys_first
from tests.model.oracle import Row, Tuple, differences, expected

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.long]
TIERS = ("shuffler", "dispatcher", "joiner", "merger")
VICTIMS = ("joiner", "merger")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SECOND = 1_000_000
TIMED = MANIFEST.replace(
    '"k INT, v BIGINT"',
    '"k INT, v BIGINT, at TIMESTAMP"\n      eventTime: {{column: at, lateness: 10s, idleAfter: 1h}}',
)
SELECT = "SELECT r.v AS rv, s.v AS sv FROM r JOIN s ON {predicate}"
SPANS = TIMED.replace(
    SELECT,
    "SELECT r.k AS k, TUMBLE(10 SECONDS) AS span, COUNT(*) AS n, SUM(s.v) AS total FROM r JOIN s ON {predicate}"
    " WITHIN 20 SECONDS GROUP BY r.k, TUMBLE(10 SECONDS)",
)
ROWS_ONCE = (
    keys_first(TIMED).replace(
        SELECT, "SELECT DISTINCT r.k AS k, s.v % 3 AS part FROM r JOIN s ON {predicate} WITHIN 20 SECONDS"
    )
    + "  state: {{durable: {{volume: {{claimName: joins}}}}}}\n"
)
PART, KEYS, STEP, JITTER = 200, 40, SECOND // 4, 2 * SECOND  # rows of a side at a time, and what times they have


class Flow:
    """The input in parts, a little out of order, and what the oracle is to know of it."""

    def __init__(self, query: KafkaQuery) -> None:
        self._query, self._rng = query, random.Random(query.predicate)
        self._began = (int(time.time()) - 3600) * SECOND
        self.rows: dict[str, list[Tuple]] = {"r": [], "s": []}

    def part(self) -> None:
        for side, rows in self.rows.items():
            for _ in range(PART):
                number = len(rows)
                at = self._began + number * STEP - self._rng.randrange(JITTER)
                self._send(side, self._rng.randrange(KEYS), at, number % 2 if side == "r" else 0)
        assert self._query.producer.flush(30) == 0

    def end(self) -> None:
        """Of each partition, a row beyond all windows, that matches nothing: time goes on by records alone."""
        for side, partition, key in (("r", 0, -1), ("r", 1, -1), ("s", 0, -2)):
            self._send(side, key, self._began + 3000 * SECOND, partition)
        assert self._query.producer.flush(30) == 0

    def _send(self, side: str, key: int, at: int, partition: int) -> None:
        rows = self.rows[side]
        rows.append(Tuple(len(rows), at, (key, len(rows), at)))
        said = (EPOCH + timedelta(microseconds=at)).isoformat().replace("+00:00", "Z")
        self._query.produce(
            side, b'{"k": %d, "v": %d, "at": "%s"}' % (key, rows[-1].id, said.encode()), None, partition
        )

    def wanted(self) -> Counter[Row]:
        return expected(compile_manifest(self._query.manifest.read_text()), [self.rows["r"], self.rows["s"]])


def results(query: KafkaQuery, wanted: int, seconds: float) -> Counter[Row]:
    def read(row: dict[str, Any]) -> Row:
        del row[RESULT_ID]
        return (), tuple(_micros(value) if name == "span" else value for name, value in row.items())

    return query.counted(wanted, seconds, read)


def _micros(said: str) -> int:
    return (datetime.fromisoformat(said) - EPOCH) // timedelta(microseconds=1)


def until(done: Callable[[], bool], what: Callable[[], object]) -> None:
    deadline = time.monotonic() + 90
    while not done():
        assert time.monotonic() < deadline, what()
        time.sleep(0.2)


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    made = Collector().start()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", made.endpoint)
    yield made
    made.stop()


def told(collector: Collector, tier: str) -> list[CollectedSpan]:
    """What is rare, of whichever process of the tier."""
    names = {"checkpoint", "restore", "replay"}
    return [
        span for span in collector.spans if span.name in names and span.resource["service.name"] == f"biclique-{tier}"
    ]


def sealed(collector: Collector, tier: str) -> list[CollectedSpan]:
    """The checkpoints with something in them: a unit that has no rows yet makes an empty one."""
    return [
        span
        for span in told(collector, tier)
        if span.name == "checkpoint" and not span.failure and span.attributes["biclique.bytes"] > 0
    ]


def killed_behind_checkpoints(query: KafkaQuery, flow: Flow, collector: Collector) -> None:
    """And started again: until both have told of it."""

    def have(known: Set[str], *names: str) -> Callable[[], bool]:
        """Of each of the two, behind what was known."""
        return lambda: all(
            set(names) <= {span.name for span in told(collector, tier) if span.span not in known and not span.failure}
            for tier in VICTIMS
        )

    def logs() -> str:
        return "\n".join(map(query.log_of, VICTIMS))

    flow.part()
    until(lambda: all(sealed(collector, tier) for tier in VICTIMS), logs)
    for victim in VICTIMS:
        query.kill(victim)
    known = {span.span for span in collector.spans}
    flow.part()
    for victim in VICTIMS:
        query.start(victim)
    until(have(known, "restore", "replay"), logs)
    flow.part()


def test_each_group_of_a_span_once_and_what_checkpoints_and_restarts_tell_a_collector(
    kafka_server: KafkaServer, redis_server: RedisServer, tmp_path: Path, collector: Collector
) -> None:
    query = KafkaQuery(kafka_server, redis_server, tmp_path, template=SPANS)
    flow = Flow(query)
    try:
        flow.part()
        for tier in TIERS:
            query.start(tier)
        assert results(query, 1, 180).total() > 0, query.log_of("merger")
        killed_behind_checkpoints(query, flow, collector)
        flow.end()
        wanted = flow.wanted()
        found = results(query, wanted.total(), 120)
        assert not differences(wanted, found), query.log_of("merger")
        assert query.stop() == dict.fromkeys(TIERS, 0)
    finally:
        query.stop()
    for victim in VICTIMS:
        spans = told(collector, victim)
        by_id = {span.span: span for span in spans}
        assert all(span.started_ns <= span.ended_ns for span in spans)
        replays = [span for span in spans if span.name == "replay"]
        assert replays and all(by_id[span.parent].name == "restore" for span in replays)
        parts = {span.name for span in collector.spans if span.parent in by_id and span.name != "replay"}
        assert {"fence", "progress", "manifests", "blob"} <= parts


def test_each_distinct_row_once_in_a_window_with_checkpoints_on_a_volume(
    kafka_server: KafkaServer, redis_server: RedisServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim = tmp_path / "volumes" / "joins"
    claim.mkdir(parents=True)
    monkeypatch.setenv("BICLIQUE_VOLUMES", str(claim.parent))
    query = KafkaQuery(kafka_server, redis_server, tmp_path, template=ROWS_ONCE)
    flow = Flow(query)
    try:
        flow.part()
        for tier in TIERS:
            query.start(tier)
        assert results(query, 1, 180).total() > 0, query.log_of("merger")
        flow.part()
        until(lambda: len(list(claim.glob("*/manifests/*/*"))) >= 3, lambda: query.log_of("joiner"))
        for victim in VICTIMS:
            query.kill(victim)
        flow.part()
        for victim in VICTIMS:
            query.start(victim)
        flow.part()
        flow.end()
        wanted = flow.wanted()
        found = results(query, wanted.total(), 120)
        assert not differences(wanted, found), query.log_of("merger")
        assert max(wanted.values()) > 1, "a row is written again when a window has passed"
        assert query.stop() == dict.fromkeys(TIERS, 0)
    finally:
        query.stop()
