"""The shuffler as a Spark application: one attempt of it, from its own Spark to its end."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from biclique.hosts.shuffle.driver import ShufflerDriver
from biclique.hosts.shuffle.measured import MeasuredHeartbeats
from biclique.hosts.shuffle.packing import Packing
from biclique.hosts.shuffle.watched import WatchedHeartbeats
from biclique.hosts.spark_pods import Executors
from biclique.hosts.units.board import Board
from biclique.hosts.units.connections import kafka_settings, spark_sink, spark_sources
from biclique.hosts.units.driver import java_is_gone, raise_if_gone
from biclique.hosts.units.session import Place, Whose, tier_spark
from biclique.hosts.units.spec import Surroundings
from biclique.hosts.units.standing import KAFKA
from biclique.plan.model import Plan
from biclique.ports.control import Condition, Control, State
from biclique.ports.kafka_log import KafkaLog
from biclique.ports.kafka_sources import SourceTopics
from biclique.ports.telemetry import Identity
from biclique.ports.telemetry_settings import open_telemetry, wanted_of
from biclique.ports.wire import Wire

LOG = logging.getLogger(__name__)
COMPACTED = (
    "topic %s, which a source reads, is compacted: of records with the same key Kafka keeps the last, and what it "
    "removes before it is read is not joined; set its cleanup.policy to delete if all of them count"
)
RECORDS_PER_BLOCK = 16_384
# Between two looks at topics with nothing new, each of which takes a millisecond or two of CPU. Where there is news
# when a batch ends, the next follows at once, whatever this says.
POLLING_DELAY = "100ms"
# Compiled once and quickly: with the second compiler as well, a start took half as much CPU again, and a burst a third.
JAVA = "-XX:+UseParallelGC -XX:TieredStopAtLevel=1"


def run_shuffler(
    manifest: str,
    plan: Plan,
    around: Surroundings,
    place: Place,
    executors: Executors,
    jars: Sequence[Path],
    attempt: int,
    control: Control,
    topics: SourceTopics,
    board: Board,
    ended: Callable[[], bool],
) -> None:
    """`jars`: Spark's Kafka connector. `ended`: it is to stop, or a later one has begun."""
    for topic in topics.compacted():
        LOG.warning(COMPACTED, topic, extra={"event": "source.compacted", "topic": topic})
    log = KafkaLog(kafka_settings(around, attempt), Wire(plan))
    spark = tier_spark(Whose(plan.query.name, "shuffler", around.prefix), place, executors, JAVA, _shuffling(jars))
    telemetry = open_telemetry(os.environ, Identity(plan.query.name, "shuffler", "driver", attempt))
    beats = (
        WatchedHeartbeats(attempt, {}, (), plan)
        if telemetry is None
        else MeasuredHeartbeats(attempt, {}, (), telemetry, plan)
    )
    packing = Packing(manifest, around.prefix, attempt, wanted_of(os.environ).traces)

    def show(why: str) -> None:
        board.say(why)
        paused = control.paused()
        for name, report in beats.reports().items():
            board.reported(name, report)
            pause = paused.get(name)
            board.tell(name, None if pause is None else Condition(State.STANDS, f"it is paused: {pause.why}"))

    access, sink = spark_sources(around, plan.query), spark_sink(around)

    def asking() -> AbstractContextManager[None]:
        return board.awaiting(KAFKA)

    try:
        ShufflerDriver(spark, plan, packing, log, topics, access, sink, control, beats, ended, show, asking).run()
    except Exception:  # Py4J's own says of a Java that has ended only that it does not answer
        raise_if_gone(spark.sparkContext)
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
    }
