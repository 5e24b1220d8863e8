"""The tiers as real processes over a real Kafka and a real Redis: what comes out is what the oracle says, each pair
once, also when a tier is killed while both sides flow, and what cannot be read is set aside as it came."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.kafka_server import KafkaServer
from infra.redis_server import RedisServer
from tests.dataplane.query import MANIFEST, KafkaQuery, keys_first

pytestmark = [pytest.mark.spark, pytest.mark.slow]
TIERS = ("shuffler", "dispatcher", "joiner")
BAD = (b'{"k": "one"}', b"\xff\x00", b'{"v": 1}{', b"")


@pytest.fixture
def query(kafka_server: KafkaServer, redis_server: RedisServer, tmp_path: Path) -> Iterator[KafkaQuery]:
    made = KafkaQuery(kafka_server, redis_server, tmp_path, subgroups=2, template=keys_first(MANIFEST))
    yield made
    made.stop()


def matches(left: list[int], right: list[int]) -> Counter[tuple[int, int]]:
    where = defaultdict(list)
    for number, key in enumerate(right):
        where[key].append(number)
    return Counter((number, other) for number, key in enumerate(left) for other in where[key])


@pytest.mark.long
def test_every_pair_and_every_bad_record_once_while_each_tier_is_killed(query: KafkaQuery) -> None:
    rng = random.Random(7)
    keys: dict[str, list[int]] = {"r": [], "s": []}

    def flow(rows: int) -> None:
        for side, known in keys.items():
            fresh = [rng.randrange(20_000) for _ in range(rows)]
            query.produce_rows(side, fresh, len(known))
            known.extend(fresh)

    flow(5_000)
    for value in BAD:
        query.produce("s", value)
    for tier in TIERS:
        query.start(tier)
    assert query.results(1, 180).total() > 0, query.log_of("joiner")
    for victim in (*TIERS, "joiner"):
        flow(3_000)
        query.kill(victim)
        flow(2_000)
        query.produce("r", b'{\n "k": -1,\n "v": -1\n}')
        query.start(victim)
    wanted = matches(keys["r"], keys["s"])
    found = query.results(wanted.total(), 240)
    assert found == wanted, query.log_of("joiner")
    assert sorted(query.dead()) == sorted(BAD)
    assert query.stop() == dict.fromkeys(TIERS, 0)
