"""The shuffler's Structured Streaming query: Kafka in, packed by `mapInArrow`, Kafka out.

At least once, and disposable: it begins where it is told, in an empty folder, whatever an earlier query's folder held.
A source partition is read by one task of a batch, so its records keep their order; a batch is reported when its
messages are in Kafka.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.functions import col, expr, lit, unix_micros, when
from pyspark.sql.functions import max as max_
from pyspark.sql.functions import min as min_
from pyspark.sql.functions import sum as sum_
from pyspark.sql.streaming.query import StreamingQuery

from biclique.hosts.shuffle.bursts import counted_names
from biclique.hosts.shuffle.heartbeats import OBSERVED, last_name
from biclique.hosts.shuffle.packing import MESSAGE, PACKED_SQL, Packing
from biclique.hosts.shuffle.tracing import TRACEPARENT
from biclique.ports.kafka_log import MESSAGE_BYTES_MAX
from biclique.ports.kafka_sources import SourceTopics
from biclique.ports.trace_context import HEADER
from biclique.tiers.progress import SourcePartition

CONTEXT = f"get(filter(headers, header -> header.key = '{HEADER}'), 0).value"  # null where there is none
RECORDS_PER_BATCH = 400_000  # of all partitions of a source: bounds what a restart reads again


def start_query(
    spark: SparkSession,
    topics: SourceTopics,
    packing: Packing,
    access: Sequence[Mapping[str, str]],
    sink: Mapping[str, str],
    starts: Mapping[SourcePartition, int],
    folder: str,
) -> StreamingQuery:
    """`access`, `sink`: how Spark's connector reaches the Kafka of each source and that of the query's own topics, and
    by which user. `starts`: where to begin in each partition of the sources to read."""
    sources = sources_of(starts)
    records = _records(spark, topics.topic(sources[0]), sources[0], access, starts, packing.tracing)
    for source in sources[1:]:
        records = records.unionAll(_records(spark, topics.topic(source), source, access, starts, packing.tracing))
    packed = records.mapInArrow(packing, PACKED_SQL).observe(OBSERVED, *_observed(starts))
    return (
        packed.select(*MESSAGE)
        .writeStream.format("kafka")
        .options(**sink)
        .option("kafka.max.request.size", MESSAGE_BYTES_MAX)
        .option("kafka.compression.type", "lz4")
        .option("checkpointLocation", folder)
        .option("asyncProgressTrackingEnabled", "true")  # nobody reads it: a batch need not wait for its files
        .trigger(processingTime="0 seconds")
        .start()
    )


def sources_of(starts: Mapping[SourcePartition, int]) -> tuple[int, ...]:
    """In the order in which the query has them."""
    return tuple(sorted({key.source for key in starts}))


def _records(
    spark: SparkSession,
    topic: str,
    source: int,
    access: Sequence[Mapping[str, str]],
    starts: Mapping[SourcePartition, int],
    tracing: bool,
) -> DataFrame:
    known = {str(key.partition): offset for key, offset in starts.items() if key.source == source}
    return (
        spark.readStream.format("kafka")
        .options(**access[source])
        .option("subscribe", topic)
        .option("startingOffsets", json.dumps({topic: known}))
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
    """Of each batch: the place of the last record of each source partition, and each source's counts."""
    lasts = [
        max_(when((col("source") == key.source) & (col("source_partition") == key.partition), col("last"))).alias(
            last_name(key)
        )
        for key in starts
    ]
    counts: list[Column] = []
    for source in sources_of(starts):
        here, (records, bad, first) = col("source") == source, counted_names(source)
        counts += [
            sum_(when(here, col("records"))).alias(records),
            sum_(when(here, col("bad"))).alias(bad),
            min_(when(here, col("first_bad"))).alias(first),
        ]
    return lasts + counts


def reports_of(query: Any, known: int) -> list[Mapping[str, Any]]:
    """Of the batches from number `known` on, in order; the one that is being waited for may come again and again. Spark
    keeps the last thousand, more than end between two looks; who needs every one looks at their numbers."""
    return [json.loads(report.json()) for report in reversed(list(_newest_first(query, known)))]


def _newest_first(query: Any, known: int) -> Iterator[Any]:
    reports = query._jsq.recentProgress()  # pyspark's own would parse each of them, every time
    for position in range(len(reports) - 1, -1, -1):
        if reports[position].batchId() < known:
            return
        yield reports[position]
