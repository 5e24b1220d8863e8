"""Makes what java_classes.py maps in: `biclique prepare`."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from biclique.hosts.java_classes import QUIET, archive_path
from biclique.hosts.spark_settings import on_this_machine, refuse_without_java

if TYPE_CHECKING:
    import pyarrow as pa

LIMIT_S = 300.0
LIKE_A_UNITS = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"


class NotMade(Exception):
    """The sentence says why."""


def make_archive() -> Path:
    """Starts Spark, lets it do once what tiers let it do, and keeps the classes that it has loaded by then. Raises
    NotMade."""
    refuse_without_java()
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkException
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    target = archive_path()
    target.parent.mkdir(parents=True, exist_ok=True)
    fresh, log = target.with_suffix(f".{os.getpid()}"), target.with_suffix(".log")
    java = f'{LIKE_A_UNITS} "-XX:ArchiveClassesAtExit={fresh}" {QUIET}'
    conf = SparkConf(loadDefaults=False).setAll(list(on_this_machine("prepare", 2, java, archived=False).items()))
    try:
        with log.open("wb") as said:
            gateway = launch_gateway(conf, {"stdout": said, "stderr": said})
        try:
            context = SparkContext(gateway=gateway, conf=conf)
            _train(SparkSession(context))
            context.stop()
        finally:
            gateway.shutdown()
            gateway.proc.stdin.close()  # its Java ends with it, and writes the file then
            gateway.proc.wait(LIMIT_S)
        if not fresh.exists():
            raise NotMade(f"Java has kept no classes (see {log}): is there room, and is it Java 17 or later?")
        fresh.replace(target)
    except (PySparkException, subprocess.TimeoutExpired) as error:
        raise NotMade(f"Spark failed: {str(error).splitlines()[0]} (see {log})") from None
    finally:
        fresh.unlink(missing_ok=True)
    log.unlink()
    return target


def _train(session: Any) -> None:
    """A streaming query like the shuffler's, but for Kafka: its classes come from jars that Spark loads later."""
    from pyspark.sql.functions import col, lit
    from pyspark.sql.functions import max as max_

    source = session.readStream.format("rate-micro-batch").option("rowsPerBatch", 100)
    rows = source.load().union(source.load()).select(lit(0).alias("source"), col("value"))
    packed = rows.mapInArrow(_as_they_are, "source int, value bigint").observe("packed", max_(col("value")))
    query = packed.writeStream.format("noop").trigger(availableNow=True).start()
    if not query.awaitTermination(LIMIT_S):
        query.stop()
        raise NotMade(f"Spark did not come to its first rows in {LIMIT_S:.0f} s")


def _as_they_are(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches
