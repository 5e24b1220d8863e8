"""What the shuffler reads, over a real Kafka: every format, wherever a query begins, and however its topics change."""

from __future__ import annotations

import io
import random
from collections import Counter
from itertools import takewhile
from pathlib import Path

import pyarrow as pa
import pytest

from infra.kafka_server import KafkaServer
from infra.redis_server import RedisServer
from tests.dataplane.query import MANIFEST, KafkaQuery
from tests.dataplane.test_tiers import TIERS, matches

pytestmark = [pytest.mark.spark, pytest.mark.slow]
FORMATS = MANIFEST.replace("topic: {name}-r, format: json", "topic: {name}-r, format: csv").replace(
    "topic: {name}-s, format: json", "topic: {name}-s, format: arrow"
)


def arrow(keys: list[int], first: int) -> bytes:
    batch = pa.RecordBatch.from_pydict({"v": pa.array(range(first, first + len(keys))), "k": keys})
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue()


def test_csv_and_arrow_with_a_shuffler_killed_between(
    kafka_server: KafkaServer, redis_server: RedisServer, tmp_path: Path
) -> None:
    query = KafkaQuery(kafka_server, redis_server, tmp_path, template=FORMATS)
    rng = random.Random(11)
    left: list[int] = []
    right: list[int] = []

    def flow() -> None:
        for _ in range(2_000):
            left.append(rng.randrange(3_000))
            query.produce("r", b"%d,%d\n" % (left[-1], len(left) - 1))
        for _ in range(40):
            keys = [rng.randrange(3_000) for _ in range(rng.randint(1, 90))]
            query.produce("s", arrow(keys, len(right)))
            right.extend(keys)
        assert query.producer.flush(30) == 0

    try:
        flow()
        query.produce("r", b"1,2,3")
        query.produce("s", b"no Arrow")
        for tier in TIERS:
            query.start(tier)
        assert query.results(1, 180).total() > 0, query.log_of("shuffler")
        flow()
        query.kill("shuffler")
        flow()
        query.start("shuffler")
        wanted: Counter[tuple[int, int]] = matches(left, right)
        assert query.results(wanted.total(), 180) == wanted, query.log_of("shuffler")
        found = [takewhile(lambda value: value is not None, query.messages(f"{query.name}.dead", n)) for n in (0, 1)]
        assert sorted(value for values in found for value in values if value is not None) == [b"1,2,3", b"no Arrow"]
        assert query.stop() == dict.fromkeys(TIERS, 0)
    finally:
        query.stop()
