"""`biclique run` on topics of a real Kafka that asks for TLS and passwords: killed, it goes on, and it ends where they
ended when it first began."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path

import pytest
from confluent_kafka import Producer

from infra.kafka_server import KafkaServer
from infra.redis_server import RedisServer
from tests.dataplane.query import BICLIQUE, MANIFEST, KafkaQuery
from tests.dataplane.test_tiers import matches

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.long]
TO_FILES = (
    MANIFEST.replace("{name}-r, format: json", "{name}-r, format: json, secretRef: {{name: kafka}}")
    .replace("{name}-s, format: json", "{name}-s, format: csv, secretRef: {{name: kafka-plain}}")
    .partition("  topics:")[0]
    + "  output: {{files: {{path: out, format: json}}}}\n"
)
ROWS, KEYS = 300_000, 500_000  # so that it takes some seconds, of which the first part is out after a fraction of one
PART = 50_000  # of what the client holds at a time
DONE = 0


def test_killed_and_gone_on_with_up_to_where_the_topics_ended(
    secure_kafka_server: KafkaServer, redis_server: RedisServer, tmp_path: Path
) -> None:
    query = KafkaQuery(secure_kafka_server, redis_server, tmp_path, template=TO_FILES)
    out, rng = tmp_path / "out", random.Random(5)
    left, right = ([rng.randrange(KEYS) for _ in range(ROWS)] for _ in range(2))

    def found() -> Counter[tuple[int, int]]:
        lines = (line for path in out.glob("part-*") for line in path.read_text().splitlines())
        return Counter((row["rv"], row["sv"]) for row in map(json.loads, lines))

    def started() -> subprocess.Popen[bytes]:
        assert query.kafka.security is not None
        environment = {**os.environ, "BICLIQUE_SECRETS": str(query.kafka.security.secrets)}
        command = [BICLIQUE, "run", query.manifest, "--barrier", "0.2"]
        with (tmp_path / "log").open("ab") as log:
            return subprocess.Popen(
                command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    for first in range(0, ROWS, PART):
        query.produce_rows("r", left[first : first + PART], first)
        for number, key in enumerate(right[first : first + PART], first):
            query.produce("s", b"%d,%d" % (key, number))
        assert query.producer.flush(30) == 0
    query.produce("s", b"1,2,3")
    assert query.producer.flush(30) == 0
    aborted = Producer({**query.client, "transactional.id": query.name})
    aborted.init_transactions(30)
    aborted.begin_transaction()
    for number in range(100):
        aborted.produce(f"{query.name}-r", b'{"k": 1, "v": %d}' % (ROWS + number))
    assert aborted.flush(30) == 0
    aborted.abort_transaction(30)

    first = started()
    deadline = time.monotonic() + 120
    while not list(out.glob("part-*")):
        assert first.poll() is None and time.monotonic() < deadline, (tmp_path / "log").read_text()
        time.sleep(0.01)
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    wanted = matches(left, right)
    assert found().total() < wanted.total(), "killed before its end"
    query.produce_rows("r", [1], ROWS)  # not of this run any more
    assert started().wait(120) == DONE, (tmp_path / "log").read_text()
    assert found() == wanted
    (dead,) = [json.loads(line) for path in out.glob("_dead/part-*") for line in path.read_text().splitlines()]
    assert (dead["source"], dead["partition"], dead["offset"], dead["raw"]) == ("s", 0, ROWS, "1,2,3")
