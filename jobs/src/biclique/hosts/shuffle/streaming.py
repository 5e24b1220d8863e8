"""The shuffler as one Structured Streaming query: Kafka in, packed by `mapInArrow`, Kafka out; and its heartbeats.

At least once, and disposable: it begins where the dispatchers' progress says, whatever an earlier query's folder held.
A source partition is read by one task of a batch, so its records keep their order; a batch is over when its messages
are in Kafka, so a heartbeat that is sent afterwards comes behind them.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.functions import col, expr, lit, unix_micros, when
from pyspark.sql.functions import max as max_
from pyspark.sql.streaming.query import StreamingQuery

from biclique.core.places import next_offset, row_bits
from biclique.hosts.shuffle.heartbeats import OBSERVED, Heartbeats, last_name
from biclique.hosts.shuffle.packing import MESSAGE, PACKED_SQL, Packing, dispatcher_of
from biclique.hosts.shuffle.tracing import TRACEPARENT
from biclique.plan.model import Plan
from biclique.ports.kafka_log import KafkaLog
from biclique.ports.refusals import Unreachable
from biclique.ports.trace_context import HEADER
from biclique.query.model import Kafka
from biclique.tiers.dispatcher import dispatcher_producer
from biclique.tiers.messages import Address, Heartbeat, Topic
from biclique.tiers.progress import DispatcherProgress, SourcePartition

LOG = logging.getLogger(__name__)
EARLIEST, LATEST = -2, -1  # as Spark's Kafka source writes them
BEAT_S = 1  # between two heartbeats: idleness is known that much later at most
CONTEXT = f"get(filter(headers, header -> header.key = '{HEADER}'), 0).value"  # null where there is none
RECORDS_PER_BATCH = 400_000  # of all partitions of a source: bounds what a restart reads again


def starts_of(plan: Plan, log: KafkaLog) -> dict[SourcePartition, int]:
    """Behind the last record that a dispatcher has taken of each source partition, as far as any was."""
    client, starts = log.client(), dict[SourcePartition, int]()
    for source, declared in enumerate(plan.query.sources):
        assert isinstance(declared.input, Kafka)
        begin = EARLIEST if declared.input.starting_offsets == "earliest" else LATEST
        starts |= {SourcePartition(source, n): begin for n in range(log.partitions(declared.input.topic))}
    for number in range(plan.dispatchers):
        progress = client.read_progress(dispatcher_producer(number))
        if isinstance(progress, DispatcherProgress):
            starts |= {
                key: next_offset(place, row_bits(plan.query.sources[key.source]))
                for key, place in progress.last.items()
            }
    client.close()
    return starts


def start_query(
    spark: SparkSession,
    plan: Plan,
    packing: Packing,
    sources: Sequence[Mapping[str, str]],
    sink: Mapping[str, str],
    starts: Mapping[SourcePartition, int],
    folder: str,
) -> StreamingQuery:
    """`sources`, `sink`: how Spark's connector reaches Kafka, and by which user. `starts`: where to begin in each
    source partition (`starts_of`); `folder`: empty."""
    frames = [
        _records(spark, plan, source, sources[source], starts, packing.tracing)
        for source in range(len(plan.query.sources))
    ]
    records = frames[0]
    for frame in frames[1:]:
        records = records.unionAll(frame)
    packed = records.mapInArrow(packing, PACKED_SQL).observe(OBSERVED, *_observed(starts))
    return (
        packed.select(*MESSAGE)
        .writeStream.format("kafka")
        .options(**sink)
        .option("kafka.max.request.size", 8 << 20)
        .option("kafka.compression.type", "lz4")
        .option("checkpointLocation", folder)
        .option("asyncProgressTrackingEnabled", "true")  # nobody reads it: a batch need not wait for its files
        .trigger(processingTime="0 seconds")
        .start()
    )


def _records(
    spark: SparkSession,
    plan: Plan,
    source: int,
    access: Mapping[str, str],
    starts: Mapping[SourcePartition, int],
    tracing: bool,
) -> DataFrame:
    given = plan.query.sources[source].input
    assert isinstance(given, Kafka)
    known = {str(key.partition): offset for key, offset in starts.items() if key.source == source}
    return (
        spark.readStream.format("kafka")
        .options(**access)
        .option("subscribe", given.topic)
        .option("startingOffsets", json.dumps({given.topic: known}))
        .option("maxOffsetsPerTrigger", RECORDS_PER_BATCH)
        .option("failOnDataLoss", "true")
        .option("kafka.isolation.level", "read_committed")
        .option("includeHeaders", tracing)
        .load()
        .select(
            lit(source).alias("source"),
            "partition",
            "offset",
            unix_micros("timestamp").alias("time"),
            "value",
            *([expr(CONTEXT).alias(TRACEPARENT)] if tracing else []),
        )
    )


def _observed(starts: Mapping[SourcePartition, int]) -> list[Column]:
    """Of each batch: the place of the last record of each source partition."""
    return [
        max_(when((col("source") == key.source) & (col("source_partition") == key.partition), col("last"))).alias(
            last_name(key)
        )
        for key in starts
    ]


def send_beats(plan: Plan, log: KafkaLog, heartbeats: Heartbeats) -> None:
    now_ms, ends = monotonic_ms(), dict[SourcePartition, int]()
    for key in heartbeats.partitions:
        given = plan.query.sources[key.source].input
        assert isinstance(given, Kafka)
        ends[key] = log.end_of(given.topic, key.partition)
    beats: dict[int, list[Heartbeat]] = {}
    for beat in heartbeats.beats(ends, now_ms):
        number = dispatcher_of(SourcePartition(beat.source, beat.partition), plan.dispatchers)
        beats.setdefault(number, []).append(beat)
    for number, found in beats.items():
        log.append(Address(Topic.SHUFFLED, number), found)


def follow(
    query: StreamingQuery, plan: Plan, log: KafkaLog, heartbeats: Heartbeats, stopping: Callable[[], bool]
) -> None:
    """Until the query ends, or is to stop. Raises what ended it."""
    seen = -1
    while not stopping():
        if query.awaitTermination(BEAT_S):
            return
        newest: Any = query.lastProgress
        if newest is not None and newest.batchId != seen:
            seen = newest.batchId
            reports: list[Any] = query.recentProgress  # all of them travel from Java, so not when there is no news
            for report in reports:
                heartbeats.batch_ended(json.loads(report.json))
        try:
            send_beats(plan, log, heartbeats)
        except Unreachable as trouble:
            LOG.warning("a heartbeat could not be sent, the next one tells the same: %s", trouble)
    query.stop()


def monotonic_ms() -> int:
    return time.monotonic_ns() // 1_000_000
