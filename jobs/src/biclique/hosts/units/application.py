"""One tier as a Spark application in the foreground: what `biclique tier` runs, and what a driver pod will.

Every tier makes what it needs and finds missing (topics, the first routing table): whichever starts first does it, and
the others find it done.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from biclique.hosts.logs import begin_logging
from biclique.hosts.shuffle.packing import Packing
from biclique.hosts.spark import LOG_SETTINGS, refuse_without_java
from biclique.hosts.units.connections import kafka_settings, source_topics, spark_sink, spark_sources
from biclique.hosts.units.driver import JAVA_GONE, SparkJobs, TierDriver, java_is_gone
from biclique.hosts.units.founding import found
from biclique.hosts.units.patience import patiently
from biclique.hosts.units.process import unit_of
from biclique.hosts.units.spec import Surroundings, UnitSpec
from biclique.hosts.units.start_up import (
    cluster_of,
    look_at_store,
    note_what_begins,
    refuse_what_state_cannot_follow,
)
from biclique.hosts.units.trimming import Trimming, tables_of, trimmed_meanwhile
from biclique.plan.make import make_plan
from biclique.plan.model import Plan
from biclique.plan.table import first_table
from biclique.ports.control_folder import ControlFolder
from biclique.ports.kafka_log import KafkaLog
from biclique.ports.kafka_sources import SourceTopics
from biclique.ports.telemetry import Identity
from biclique.ports.telemetry_settings import open_telemetry, wanted_of
from biclique.ports.wire import Wire
from biclique.query.compile import compile_manifest
from biclique.routing.table import Subgroup, UnitId

LOG = logging.getLogger(__name__)
RECORDS_PER_BLOCK = 16_384
# Between two looks at topics with nothing new, each of which takes some 2 ms of CPU. Where there is news when a batch
# ends, the next follows at once, whatever this says.
POLLING_DELAY = "200ms"
TASK_DAEMON = "biclique.hosts.task_daemon"  # by name: what imports it has imported all of it
JAVA = "spark.driver.extraJavaOptions"
UNITS_JAVA = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"  # this Java only holds the units' sockets
# Compiled once and quickly: with the second compiler as well, a start took half as much CPU again, and a burst a third.
SHUFFLER_JAVA = "-XX:+UseParallelGC -XX:TieredStopAtLevel=1"


@dataclass(frozen=True)
class TierOptions:
    """`jars`: Spark's Kafka connector, for the shuffler. `units_max`: of one subgroup, however far it may grow."""

    manifest: str
    around: Surroundings
    jars: tuple[Path, ...] = ()
    replication: int = 1
    units_max: int = 8


def run_tier(tier: str, subgroup: Subgroup | None, options: TierOptions, stopping: Callable[[], bool]) -> None:
    plan, around = make_plan(compile_manifest(options.manifest)), options.around
    wanted_of(os.environ)  # refused before anything is started
    control = ControlFolder(Path(around.control))
    settings, topics = kafka_settings(around), source_topics(around, plan.query)
    begin_logging(plan.query.name, tier)
    if tier in ("joiner", "merger"):
        look_at_store(around, plan.query, control.table(None) is not None, stopping)

    def begin() -> None:
        cluster = cluster_of(settings)
        note_what_begins(plan, control, cluster)
        refuse_what_state_cannot_follow(plan, control, cluster)
        found(plan, KafkaLog(settings, Wire(plan)), control, topics, options.replication, options.units_max)

    if not patiently(begin, stopping):
        return
    LOG.info("the tier begins", extra={"event": "tier.started"})
    if tier == "shuffler":
        _run_shuffler(plan, options, control, topics, stopping)
        return
    specs = [UnitSpec(options.manifest, tier, name, around) for name in _names(plan, tier, subgroup)]
    name = f"driver {tier}" if subgroup is None else f"driver {tier} {subgroup}"
    attempt = control.next_attempt(name)
    context = _spark(f"{around.prefix}-{tier}", len(specs), {JAVA: UNITS_JAVA}).sparkContext
    driver = TierDriver(SparkJobs(context), specs, stopping, lambda: control.attempts(name) > attempt, control.tell)

    def units() -> frozenset[UnitId]:
        return frozenset(unit_of(plan, spec.name) for spec in specs if spec.name not in driver.left)

    log = KafkaLog(settings, Wire(plan))
    trimming = Trimming(plan, tier, name, log, partial(tables_of, control), units if tier == "joiner" else frozenset)
    try:
        with trimmed_meanwhile(trimming):
            driver.run()
    finally:
        if not java_is_gone(context):
            context.stop()


def _names(plan: Plan, tier: str, subgroup: Subgroup | None) -> Sequence[str]:
    match tier:
        case "dispatcher":
            return [str(number) for number in range(plan.dispatchers)]
        case "merger":
            return [str(number) for number in range(plan.mergers)]
        case _:
            units = first_table(plan).units()
            return [str(unit) for unit in units if subgroup is None or unit.subgroup == subgroup]


def _run_shuffler(
    plan: Plan, options: TierOptions, control: ControlFolder, topics: SourceTopics, stopping: Callable[[], bool]
) -> None:
    from biclique.hosts.shuffle.driver import ShufflerDriver
    from biclique.hosts.shuffle.heartbeats import Heartbeats
    from biclique.hosts.shuffle.measured import MeasuredHeartbeats

    around = options.around
    attempt = control.next_attempt("shuffler")
    log = KafkaLog(kafka_settings(around, attempt), Wire(plan))
    spark = _spark(f"{around.prefix}-shuffler", os.cpu_count() or 1, _shuffling(options.jars))
    telemetry = open_telemetry(os.environ, Identity(plan.query.name, "shuffler", "driver", attempt))
    access, sink = spark_sources(around, plan.query), spark_sink(around)
    beats = Heartbeats(attempt, {}, {})
    if telemetry is not None:
        beats = MeasuredHeartbeats(attempt, {}, {}, telemetry, plan)
    packing = Packing(options.manifest, around.prefix, attempt, wanted_of(os.environ).traces)

    def ended() -> bool:
        return stopping() or control.attempts("shuffler") > attempt

    try:
        ShufflerDriver(spark, plan, packing, log, topics, access, sink, control, beats, ended).run()
    except Exception:
        if java_is_gone(spark.sparkContext):
            raise JAVA_GONE from None
        raise
    finally:
        if telemetry is not None:
            telemetry.close()
        if not java_is_gone(spark.sparkContext):
            spark.stop()


def _shuffling(jars: Sequence[Path]) -> dict[str, str]:
    """A micro-batch is short, so what each of them costs beside its rows counts. What the query writes to its
    checkpoint folder is never read again: see hosts/shuffle."""
    return {
        "spark.jars": ",".join(map(str, jars)),
        "spark.sql.execution.arrow.maxRecordsPerBatch": str(RECORDS_PER_BLOCK),
        "spark.sql.execution.arrow.maxBytesPerBatch": str(16 << 20),
        "spark.sql.adaptive.enabled": "false",  # not for streams; saves a warning
        "spark.sql.streaming.pollingDelay": POLLING_DELAY,
        "spark.sql.streaming.noDataMicroBatches.enabled": "false",
        "spark.sql.streaming.minBatchesToRetain": "2",
        "spark.sql.streaming.numRecentProgressUpdates": "1000",  # see hosts/shuffle/streaming.py, `reports_of`
        "spark.locality.wait": "0s",
        "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
        # Without Hadoop's checksum files, each of which would be a file more to make and to rename.
        "spark.hadoop.fs.AbstractFileSystem.file.impl": "org.apache.hadoop.fs.local.RawLocalFs",
        JAVA: SHUFFLER_JAVA,
    }


def _logging(query: str, tier: str) -> str:
    """What Java logs is lines of JSON too, where no person is looking."""
    if sys.stderr.isatty():
        return f"-Dlog4j2.configurationFile={LOG_SETTINGS}"
    settings = LOG_SETTINGS.with_name("log4j2-tier.properties")
    return f"-Dlog4j2.configurationFile={settings} -Dbiclique.query={query} -Dbiclique.tier={tier}"


def _spark(name: str, slots: int, more: Mapping[str, str]) -> Any:
    refuse_without_java()
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    settings = {
        "spark.master": f"local[{slots}]",
        "spark.app.name": name,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "512m",
        "spark.python.daemon.module": TASK_DAEMON,
        # Over TCP a task's small messages wait for acknowledgements, some 40 ms in each batch.
        "spark.python.unix.domain.socket.enabled": "true",
        **more,
        JAVA: f"{_logging(*name.rsplit('-', 1))} {more[JAVA]}",
    }
    builder = SparkSession.builder
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()
