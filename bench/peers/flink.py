"""Flink SQL in streaming mode, in an environment of its own.

Its best number of those tried, in single runs of 1M rows a side: CSV in and out (the parquet format of Maven Central
was a fifth slower), records reused, no checkpoints, state on the heap, mini-batches off, buckets of 20 (10, 40 and 80
were slower, the last hardly). The band is the bucket rewrite: every s in each bucket that its band reaches. Two
inequalities are plain: Flink compares every row with every other.
"""

from __future__ import annotations

import os
from importlib.metadata import version
from pathlib import Path

from contract import CORES, JVM, REACH, WIDTH, drive

os.environ["JDK_JAVA_OPTIONS"] = JVM  # FLINK_ENV_JAVA_OPTS would replace the options that Flink itself needs

from pyflink.table import EnvironmentSettings, TableEnvironment

COLUMNS = {"equality": "serial INT, a INT", "band": "serial INT, a INT", "two inequalities": "serial INT, a INT, b INT"}
QUERIES = {
    "equality": "SELECT r.serial, s.serial FROM r JOIN s ON r.a = s.a",
    "band": f"""
        SELECT r.serial, s.serial
        FROM (SELECT serial, a, (a + {REACH}) / {WIDTH} AS bucket FROM r) r
        JOIN (SELECT serial, a, a / {WIDTH} AS bucket FROM s
              UNION ALL
              SELECT serial, a, (a + {2 * REACH}) / {WIDTH} AS bucket FROM s
              WHERE (a + {2 * REACH}) / {WIDTH} <> a / {WIDTH}) s
        ON r.bucket = s.bucket AND r.a >= s.a - {REACH} AND r.a <= s.a + {REACH}""",
    "two inequalities": "SELECT r.serial, s.serial FROM r JOIN s ON r.a < s.a AND r.b > s.b",
}


def files(path: Path, more: str = "") -> str:
    return f"WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'csv'{more})"


def join(workload: str, data: Path, output: Path) -> None:
    tables = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    tables.get_config().set("parallelism.default", str(CORES))
    tables.get_config().set("pipeline.object-reuse", "true")
    for side in ("r", "s"):
        # It has no option to skip a header: that line is an error which it ignores.
        source = files(data / "csv" / side, ", 'csv.ignore-parse-errors' = 'true'")
        tables.execute_sql(f"CREATE TABLE {side} ({COLUMNS[workload]}) {source}")
    tables.execute_sql(f"CREATE TABLE pairs (r_id INT, s_id INT) {files(output)}")
    tables.execute_sql(f"INSERT INTO pairs {QUERIES[workload]}").wait()


if __name__ == "__main__":
    drive(
        "Flink",
        version("apache-flink"),
        f"SQL, streaming mode, CSV to CSV, state on the heap, no checkpoints; band by buckets of {WIDTH}; {JVM}",
        join,
    )
