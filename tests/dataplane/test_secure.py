"""Every tier over a Kafka with SASL and TLS and a Redis with TLS and rights: credentials by reference, nowhere else."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.kafka_server import KafkaServer
from infra.redis_server import RedisServer
from tests.dataplane.query import MANIFEST, KafkaQuery
from tests.dataplane.test_tiers import TIERS, matches

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.long]
# One source by SCRAM, the other by PLAIN; the tiers themselves as the output's user.
TEMPLATE = (
    MANIFEST.replace("{name}-r, format: json", "{name}-r, format: json, secretRef: {{name: kafka}}")
    .replace("{name}-s, format: json", "{name}-s, format: json, secretRef: {{name: kafka-plain}}")
    .replace("{name}-out, format: json", "{name}-out, format: json, secretRef: {{name: kafka}}")
    + '  state: {{redis: {{url: "{redis}", secretRef: {{name: redis}}}}}}\n'
)


@pytest.fixture
def query(secure_kafka_server: KafkaServer, secure_redis_server: RedisServer, tmp_path: Path) -> Iterator[KafkaQuery]:
    template = TEMPLATE.replace("{redis}", secure_redis_server.url)
    made = KafkaQuery(secure_kafka_server, secure_redis_server, tmp_path, template=template)
    yield made
    made.stop()


def test_every_pair_and_no_password_in_a_log_a_command_line_or_the_control_port(query: KafkaQuery) -> None:
    keys = {"r": [n % 500 for n in range(1000)], "s": list(range(400))}
    for side, known in keys.items():
        query.produce_rows(side, known, 0)
    for tier in TIERS:
        query.start(tier)
    wanted = matches(keys["r"], keys["s"])
    found = query.results(wanted.total(), 180)
    assert found == wanted, query.log_of("shuffler") + query.log_of("joiner")
    lines = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert query.stop() == dict.fromkeys(TIERS, 0)
    written = [path.read_bytes() for path in query.folder.rglob("*") if path.is_file()]
    assert query.kafka.security is not None
    for password in query.kafka.security.all_passwords():
        assert password not in lines
        assert not any(password.encode() in text for text in written)
