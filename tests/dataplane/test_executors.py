"""Units on executors: Spark places them, and when an executor's Java or a unit's Python dies, they go on elsewhere, and
every pair is there once."""

from __future__ import annotations

import json
import os
import random
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.kafka_server import KafkaServer
from infra.redis_server import RedisServer
from tests.chaos.processes import workers_of
from tests.dataplane.query import MANIFEST, KafkaQuery, keys_first
from tests.dataplane.spark_cluster import HERE, SparkCluster
from tests.dataplane.test_tiers import TIERS, matches

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.long]


STOPPED = 4


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[SparkCluster]:
    made = SparkCluster(tmp_path / "spark")
    yield made
    made.stop()


def test_units_run_on_executors_and_go_on_when_they_die(
    kafka_server: KafkaServer, redis_server: RedisServer, cluster: SparkCluster, tmp_path: Path
) -> None:
    query = KafkaQuery(kafka_server, redis_server, tmp_path, template=keys_first(MANIFEST))
    rng = random.Random(3)
    keys: dict[str, list[int]] = {"r": [], "s": []}

    def flow() -> None:
        for side, known in keys.items():
            fresh = [rng.randrange(5_000) for _ in range(3_000)]
            query.produce_rows(side, fresh, len(known))
            known.extend(fresh)

    def all_there() -> bool:
        wanted = matches(keys["r"], keys["s"])
        return query.results(wanted.total(), 120) == wanted

    try:
        flow()
        query.start("joiner", BICLIQUE_MASTER=cluster.master, SPARK_LOCAL_IP=HERE)
        for tier in ("shuffler", "dispatcher"):
            query.start(tier)
        assert all_there(), query.log_of("joiner")
        assert not workers_of(query.session("joiner")), "no unit is a process of its driver's"
        units = workers_of_executor(cluster)
        assert len(units) == 2
        flow()
        os.kill(units[0], signal.SIGKILL)
        flow()
        assert all_there(), query.log_of("joiner")
        cluster.kill_executor()
        flow()
        assert all_there(), query.log_of("joiner")
        assert not set(units) & set(workers_of_executor(cluster))
        assert query.stop() == dict.fromkeys(TIERS, 0)
    finally:
        query.stop()


def test_a_cluster_that_is_none_is_one_sentence(
    kafka_server: KafkaServer, redis_server: RedisServer, tmp_path: Path
) -> None:
    query = KafkaQuery(kafka_server, redis_server, tmp_path)
    query.start("joiner", BICLIQUE_MASTER="cluster:7077", SPARK_LOCAL_IP=HERE)
    assert query.exit_of("joiner", 90) == STOPPED
    said = json.loads(query.log_of("joiner").splitlines()[-1])["message"]
    assert said.startswith("Spark did not start at cluster:7077 (")
    assert said.endswith("): correct BICLIQUE_MASTER, or start what should be there")
    assert "Traceback" not in query.log_of("joiner")


def workers_of_executor(cluster: SparkCluster) -> list[int]:
    (executor,) = cluster.executors
    return workers_of(executor.session)
