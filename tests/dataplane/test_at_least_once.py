"""Delivery at least once while units die in the midst of what they send: a reader of everything, also of what nobody
committed, sees each pair, and by its id knows which it has seen."""

from __future__ import annotations

import json
import os
import signal
import time
from collections import Counter, defaultdict
from contextlib import suppress
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from infra.kafka_server import KafkaServer
from infra.redis_server import RedisServer
from tests.chaos.processes import workers_of
from tests.dataplane.query import MANIFEST, KafkaQuery, keys_first
from tests.dataplane.test_tiers import TIERS

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.long]
AT_LEAST_ONCE = keys_first(MANIFEST) + "  delivery: atLeastOnce\n"
ROWS, BURSTS_MAX = 250, 6  # a burst's rows all match: each is a transaction of some 60,000 results, and dies under way


class Everything:
    """A reader that does not wait for commits."""

    def __init__(self, query: KafkaQuery) -> None:
        self._consumer = Consumer({**query.client, "group.id": "reader", "isolation.level": "read_uncommitted"})
        self._consumer.assign([TopicPartition(f"{query.name}-out", 0, 0)])
        self.ids: dict[tuple[int, int], set[bytes]] = defaultdict(set)
        self.seen: Counter[tuple[int, int]] = Counter()

    def look(self, patience_s: float = 0.01) -> None:
        for message in self._consumer.consume(10_000, patience_s):
            if message.error() is None:
                row, key = json.loads(message.value() or b""), message.key()
                assert isinstance(key, bytes)
                self.ids[row["rv"], row["sv"]].add(key)
                self.seen[row["rv"], row["sv"]] += 1

    def wait_for(self, pairs: int, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while len(self.seen) < pairs:
            assert time.monotonic() < deadline, f"{len(self.seen)} of {pairs} pairs"
            self.look(0.1)

    def close(self) -> None:
        self._consumer.close()


def test_a_reader_can_drop_what_it_has_seen_though_units_die_between_sending_and_committing(
    kafka_server: KafkaServer, redis_server: RedisServer, tmp_path: Path
) -> None:
    query = KafkaQuery(kafka_server, redis_server, tmp_path, template=AT_LEAST_ONCE)
    reader, wanted = Everything(query), set[tuple[int, int]]()
    try:
        query.produce_rows("r", [0], 0)
        query.produce_rows("s", [0], 0)
        for tier in TIERS:
            query.start(tier)
        wanted.add((0, 0))
        reader.wait_for(1, 180)
        for burst in range(1, BURSTS_MAX + 1):
            rows = range(burst * ROWS, (burst + 1) * ROWS)
            query.produce_rows("r", [burst] * ROWS, rows.start)
            query.produce_rows("s", [burst] * ROWS, rows.start)
            before = len(wanted)
            wanted |= {(left, right) for left in rows for right in rows}
            reader.wait_for(before + 1, 60)
            for worker in workers_of(query.session("joiner")):
                with suppress(ProcessLookupError):
                    os.kill(worker, signal.SIGKILL)
            reader.wait_for(len(wanted), 60)
            if reader.seen.total() > len(wanted):
                break
        assert query.stop() == dict.fromkeys(TIERS, 0)
        reader.look(1.0)
        print(f"{reader.seen.total() - len(wanted):,} repeats of {len(wanted):,} pairs in {burst} bursts")
        assert reader.seen.total() > len(wanted), "nothing was sent twice, so nothing was shown"
        assert reader.seen.keys() == wanted
        assert {len(ids) for ids in reader.ids.values()} == {1}
        assert len(set().union(*reader.ids.values())) == len(wanted)
    finally:
        query.stop()
        reader.close()
