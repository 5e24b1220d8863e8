"""The shuffler as one Structured Streaming query: Kafka in, packed by `mapInArrow`, Kafka out; and its heartbeats.

At least once, and disposable: it begins where the dispatchers' progress says, whatever an earlier query's folder held.
A source partition is read by one task of a batch, so its records keep their order; a batch is over when its messages
are in Kafka, so a heartbeat that is sent afterwards comes behind them.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.functions import col, lit, when
from pyspark.sql.functions import max as max_
from pyspark.sql.streaming.query import StreamingQuery

from biclique.hosts.shuffle.packing import MESSAGE_SQL, Packing, dispatcher_of
from biclique.plan.model import Plan
from biclique.ports.kafka_log import KafkaLog
from biclique.query.model import Kafka
from biclique.tiers.dispatcher import dispatcher_producer
from biclique.tiers.messages import Address, Heartbeat, Topic
from biclique.tiers.progress import DispatcherProgress, SourcePartition

OBSERVED = "last"
EARLIEST, LATEST = -2, -1  # as Spark's Kafka source writes them
BEAT_S = 1  # between two heartbeats: idleness is known that much later at most
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
            starts |= {key: offset + 1 for key, offset in progress.last.items()}
    client.close()
    return starts


def start_query(
    spark: SparkSession, plan: Plan, packing: Packing, brokers: str, starts: Mapping[SourcePartition, int], folder: str
) -> StreamingQuery:
    """`starts`: where to begin in each source partition (`starts_of`); `folder`: empty."""
    frames = [_records(spark, plan, source, brokers, starts) for source in range(len(plan.query.sources))]
    records = frames[0]
    for frame in frames[1:]:
        records = records.unionAll(frame)
    observed = records.observe(OBSERVED, *_last_offsets(starts))
    return (
        observed.mapInArrow(packing, MESSAGE_SQL)
        .writeStream.format("kafka")
        .option("kafka.bootstrap.servers", brokers)
        .option("kafka.max.request.size", 8 << 20)
        .option("kafka.compression.type", "lz4")
        .option("checkpointLocation", folder)
        .trigger(processingTime="0 seconds")
        .start()
    )


def _records(
    spark: SparkSession, plan: Plan, source: int, brokers: str, starts: Mapping[SourcePartition, int]
) -> DataFrame:
    given = plan.query.sources[source].input
    assert isinstance(given, Kafka)
    known = {str(key.partition): offset for key, offset in starts.items() if key.source == source}
    return (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", brokers)
        .option("subscribe", given.topic)
        .option("startingOffsets", json.dumps({given.topic: known}))
        .option("maxOffsetsPerTrigger", RECORDS_PER_BATCH)
        .option("failOnDataLoss", "true")
        .option("kafka.isolation.level", "read_committed")
        .load()
        .select(
            lit(source).alias("source"),
            "partition",
            "offset",
            (col("timestamp").cast("double") * 1_000_000).cast("long").alias("time"),
            "value",
        )
    )


def _last_offsets(starts: Mapping[SourcePartition, int]) -> list[Column]:
    """Observed of each batch: the last record of each source partition. A batch's end may lie beyond it, behind control
    records, which no dispatcher ever sees."""
    return [
        max_(when((col("source") == key.source) & (col("partition") == key.partition), col("offset"))).alias(_name(key))
        for key in starts
    ]


def _name(key: SourcePartition) -> str:
    return f"s{key.source}p{key.partition}"


class Heartbeats:
    """Tells the dispatchers of each source partition that has been read to its end. `last`: the last record that the
    dispatchers had of each at the start; -1 where there was none."""

    def __init__(
        self, plan: Plan, log: KafkaLog, attempt: int, last: Mapping[SourcePartition, int], clock_ms: Callable[[], int]
    ) -> None:
        self._plan, self._log, self._attempt, self._clock_ms = plan, log, attempt, clock_ms
        self._last = dict(last)
        self._read_to: dict[SourcePartition, int] = {}

    def batch_ended(self, report: Mapping[str, Any]) -> None:
        """`report`: of a batch, as the query's progress has it. Nothing changes where it is told again."""
        for source, described in enumerate(report["sources"]):
            end = described["endOffset"]
            for partitions in ((json.loads(end) if isinstance(end, str) else end) or {}).values():
                for number, offset in partitions.items():
                    key = SourcePartition(source, int(number))
                    self._read_to[key] = max(self._read_to.get(key, 0), int(offset))
        observed = report.get("observedMetrics", {}).get(OBSERVED, {})
        for key in self._read_to:
            offset = observed.get(_name(key))
            if offset is not None:
                self._last[key] = max(self._last.get(key, -1), int(offset))

    def send(self) -> None:
        """The clock is read before the ends: what came after it is not what this beat is about."""
        now_ms, beats = self._clock_ms(), dict[int, list[Heartbeat]]()
        for key, read_to in self._read_to.items():
            given = self._plan.query.sources[key.source].input
            assert isinstance(given, Kafka)
            if self._log.end_of(given.topic, key.partition) <= read_to:
                number = dispatcher_of(key, self._plan.dispatchers)
                beats.setdefault(number, []).append(Heartbeat(*key, self._last.get(key, -1), now_ms, self._attempt))
        for number, found in beats.items():
            self._log.append(Address(Topic.SHUFFLED, number), found)


def follow(query: StreamingQuery, heartbeats: Heartbeats, stopping: Callable[[], bool]) -> None:
    """Until the query ends, or is to stop. Raises what ended it."""
    while not stopping():
        if query.awaitTermination(BEAT_S):
            return
        reports: list[Any] = query.recentProgress
        for report in reports:
            heartbeats.batch_ended(json.loads(report.json))
        heartbeats.send()
    query.stop()


def monotonic_ms() -> int:
    return time.monotonic_ns() // 1_000_000
