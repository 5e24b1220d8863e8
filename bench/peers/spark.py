"""Spark's own stream-stream join, in the checkout's environment.

Its best honest number: parquet in and out, everything available in one micro-batch, state in memory (the HDFS-backed
store; RocksDB took three times as long), as many shuffle partitions as cores. There is no stream-stream join without an
equality, so two inequalities are not asked of it: a constant key would put all state under one key.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pyspark
from contract import CORES, JVM, REACH, WIDTH, drive
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

HEAP = JVM.split("-Xmx")[1].split()[0]
SETTINGS = {
    # The greatest heap has a setting of its own, and Spark refuses it among the options.
    "spark.driver.memory": HEAP,
    "spark.driver.extraJavaOptions": " ".join(option for option in JVM.split() if not option.startswith("-Xmx")),
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": str(CORES),
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
}


def session() -> SparkSession:
    builder = SparkSession.builder.master(f"local[{CORES}]").appName("peer")
    for key, value in SETTINGS.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def joined(workload: str, r: DataFrame, s: DataFrame) -> DataFrame:
    r = r.select(f.col("serial").alias("r_id"), f.col("a").alias("r_a"))
    s = s.select(f.col("serial").alias("s_id"), f.col("a").alias("s_a"))
    if workload == "equality":
        return r.join(s, f.expr("r_a = s_a")).select("r_id", "s_id")
    # Every s goes to each bucket that its band reaches, every r to its own; moved by REACH, so that none is negative.
    buckets = f"sequence(s_a div {WIDTH}, (s_a + {2 * REACH}) div {WIDTH})"
    left = r.withColumn("r_bucket", f.expr(f"(r_a + {REACH}) div {WIDTH}"))
    right = s.withColumn("s_bucket", f.explode(f.expr(buckets)))
    within = f.expr(f"r_bucket = s_bucket AND r_a >= s_a - {REACH} AND r_a <= s_a + {REACH}")
    return left.join(right, within).select("r_id", "s_id")


def join(workload: str, data: Path, output: Path) -> None:
    spark = session()
    sides = [spark.readStream.schema("serial INT, a INT").parquet(str(data / "parquet" / side)) for side in ("r", "s")]
    checkpoint = output.with_name(output.name + ".checkpoint")
    shutil.rmtree(checkpoint, ignore_errors=True)
    query = (
        joined(workload, *sides)
        .writeStream.format("parquet")
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start(str(output))
    )
    query.awaitTermination()


if __name__ == "__main__":
    session()
    drive(
        "Spark",
        pyspark.__version__,
        f"stream-stream join, parquet to parquet, one micro-batch, state in memory; band by buckets of {WIDTH}; {JVM}",
        join,
    )
    session().stop()
