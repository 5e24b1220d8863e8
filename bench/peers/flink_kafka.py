"""Flink SQL from Kafka to Kafka, exactly once, in its own environment: runs until it is killed.

As its users run it: SQL, interval joins on event time, an exactly-once sink, checkpoints every second onto the disk,
parallelism 2, records reused. State is on the heap, Flink's default and the one that serialises nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import time

from contract import CORES, JVM, REACH, WIDTH

os.environ["JDK_JAVA_OPTIONS"] = JVM

from pyflink.table import EnvironmentSettings, TableEnvironment

TIMES = "r.event_time BETWEEN s.event_time - INTERVAL {within} AND s.event_time + INTERVAL {within}"
QUERIES = {  # the last is a regular join: an interval join needs an equality
    "equality": "SELECT r.serial, s.serial FROM r JOIN s ON r.a = s.a AND {times}",
    "band": f"""
        SELECT r.serial, s.serial
        FROM (SELECT serial, a, event_time, (a + {REACH}) / {WIDTH} AS bucket FROM r) r
        JOIN (SELECT serial, a, event_time, a / {WIDTH} AS bucket FROM s
              UNION ALL
              SELECT serial, a, event_time, (a + {2 * REACH}) / {WIDTH} AS bucket FROM s
              WHERE (a + {2 * REACH}) / {WIDTH} <> a / {WIDTH}) s
        ON r.bucket = s.bucket AND r.a >= s.a - {REACH} AND r.a <= s.a + {REACH} AND {{times}}""",
    "two inequalities": "SELECT r.serial, s.serial FROM r JOIN s ON r.a < s.a AND r.b > s.b",
}


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("workload", "columns", "brokers", "name", "jar", "checkpoints", "within", "backend"):
        parser.add_argument(f"--{name}", required=True)
    asked = parser.parse_args()
    tables = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    settings = {
        "parallelism.default": str(CORES),
        "pipeline.object-reuse": "true",
        "pipeline.jars": f"file://{asked.jar}",
        "execution.checkpointing.interval": "1 s",
        "execution.checkpointing.dir": f"file://{asked.checkpoints}",
        "state.backend.type": asked.backend,
        "execution.checkpointing.incremental": "true",
    }
    for key, value in settings.items():
        tables.get_config().set(key, value)
    kafka = f"'connector' = 'kafka', 'properties.bootstrap.servers' = '{asked.brokers}', 'format' = 'json'"
    event_time = ""
    if "{times}" in QUERIES[asked.workload]:
        event_time = ", event_time TIMESTAMP_LTZ(3) METADATA FROM 'timestamp' VIRTUAL"
        event_time += ", WATERMARK FOR event_time AS event_time - INTERVAL '5' SECOND"
    for side in ("r", "s"):
        tables.execute_sql(
            f"CREATE TABLE {side} ({asked.columns}{event_time}) WITH ({kafka}, 'topic' = '{asked.name}-{side}', "
            "'scan.startup.mode' = 'earliest-offset', 'properties.isolation.level' = 'read_committed')"
        )
    tables.execute_sql(
        f"CREATE TABLE pairs (r_id INT, s_id INT) WITH ({kafka}, 'topic' = '{asked.name}-out', "
        f"'sink.delivery-guarantee' = 'exactly-once', 'sink.transactional-id-prefix' = '{asked.name}', "
        "'properties.transaction.timeout.ms' = '600000')"
    )
    amount, unit = asked.within.split()
    times = TIMES.format(within=f"'{amount}' {unit}")
    job = tables.execute_sql(f"INSERT INTO pairs {QUERIES[asked.workload].format(times=times)}").get_job_client()
    while job.get_job_status().result().name != "RUNNING":
        time.sleep(0.1)
    print(json.dumps({"running": True}), flush=True)
    job.get_job_execution_result().result()


if __name__ == "__main__":
    main()
