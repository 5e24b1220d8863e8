"""Every tier over a Kafka with SASL and TLS and a Redis with TLS and rights: credentials by reference, nowhere else.
Results are Arrow, and every tier is fetched from by Prometheus."""

from __future__ import annotations

import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
import redis

from infra.kafka_server import KafkaServer
from infra.redis_server import RedisServer
from tests.dataplane import prometheus
from tests.dataplane.query import MANIFEST, KafkaQuery, keys_first
from tests.dataplane.test_telemetry import RARE

ALL_TIERS = ("shuffler", "dispatcher", "joiner", "merger")

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.long]
# One source by SCRAM, the other by PLAIN; the tiers themselves as the output's user.
TEMPLATE = (
    keys_first(MANIFEST)
    .replace("{name}-r, format: json", "{name}-r, format: json, secretRef: {{name: kafka}}")
    .replace("{name}-s, format: json", "{name}-s, format: json, secretRef: {{name: kafka-plain}}")
    .replace("{name}-out, format: json", "{name}-out, format: arrow, secretRef: {{name: kafka}}")
    .replace("SELECT r.v AS rv, s.v AS sv", "SELECT s.v AS sv, COUNT(*) AS n, MAX(r.v) AS most")
    .replace("ON {predicate}", "ON {predicate} GROUP BY s.v")
    + '  state: {{redis: {{url: "{redis}", secretRef: {{name: redis}}}}}}\n'
)


@pytest.fixture
def query(secure_kafka_server: KafkaServer, secure_redis_server: RedisServer, tmp_path: Path) -> Iterator[KafkaQuery]:
    template = TEMPLATE.replace("{redis}", secure_redis_server.url)
    made = KafkaQuery(secure_kafka_server, secure_redis_server, tmp_path, template=template)
    yield made
    made.stop()


def groups(query: KafkaQuery, wanted: dict[int, tuple[int, int]], seconds: float) -> set[bytes]:
    """Until each group's newest row is the one that is wanted. The ids: one for each group."""
    found: dict[int, tuple[int, int]] = {}
    ids: dict[int, bytes] = {}
    deadline = time.monotonic() + seconds
    for message in query.messages(f"{query.name}-out"):
        if message is None:
            if found == wanted or time.monotonic() > deadline:
                break
            continue
        table = pa.ipc.open_stream(message).read_all()
        assert table.column_names == ["sv", "n", "most", "_result_id"]
        for group, count, most, id_ in zip(*(column.to_pylist() for column in table.columns), strict=True):
            assert ids.setdefault(group, id_) == id_
            assert found.get(group, (0, 0))[0] < count, "a group is written when it has changed"
            found[group] = count, most
    assert found == wanted, "".join(query.log_of(tier) for tier in ALL_TIERS)
    return set(ids.values())


def test_every_group_every_number_and_no_password_in_a_log_a_command_line_or_the_control_port(
    query: KafkaQuery,
) -> None:
    left, right = [n % 500 for n in range(1000)], list(range(400))
    query.produce_rows("r", left, 0)
    query.produce_rows("s", right, 0)
    for tier in ALL_TIERS:
        query.start(tier, **prometheus.SETTINGS)
    counts, most = Counter(left), {key: number for number, key in enumerate(left)}
    wanted = {number: (counts[key], most[key]) for number, key in enumerate(right)}
    assert len(groups(query, wanted, 180)) == len(wanted)
    lines = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    store = redis.Redis.from_url(query.redis.url, **query.redis.admin)
    deadline = time.monotonic() + 30  # within which each unit with state makes a checkpoint
    while not all(
        any(store.scan_iter(f"*{query.name}*:manifests:{tier}*", count=1000)) for tier in ("joiner", "merger")
    ):
        assert time.monotonic() < deadline, list(store.scan_iter("*"))
        time.sleep(0.2)
    for tier in ALL_TIERS:
        absent = RARE | ({"biclique.results"} if tier == "joiner" else set())  # of groups: they are the merger's
        assert not prometheus.untold(query, tier, absent, 20), tier
    assert query.stop() == dict.fromkeys(ALL_TIERS, 0)
    written = [path.read_bytes() for path in query.folder.rglob("*") if path.is_file()]
    assert query.kafka.security is not None
    for password in query.kafka.security.all_passwords():
        assert password not in lines
        assert not any(password.encode() in text for text in written)
