"""The shuffler's Structured Streaming query: Kafka in, packed by `mapInArrow`, Kafka out.

At least once, and disposable: it begins where it is told, in an empty folder, whatever an earlier query's folder held.
A source partition is read by one task of a batch, so its records keep their order; a batch is reported when its
messages are in Kafka.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
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
# What a reader asks for at once. With a megabyte and 500 records, which are the defaults, tasks waited for the broker
# for a third of a burst. Each partition has a reader that keeps so much ahead, so many of them share a bound.
RECORDS_PER_POLL = 16_384
# Spark asks for a partition's ends after every answer, over the connection on which its consumer has already asked for
# more; where there is no more, that request stands at the broker for this long, and the question behind it. With the
# default of 500 ms a task took a second, whatever it read. Nobody reads between batches, so being short costs nothing.
FETCH_WAIT_MS = 5
FETCH_BYTES, FETCH_BYTES_OF_ALL, FETCH_BYTES_LEAST = 8 << 20, 128 << 20, 1 << 20


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
    first, *others = (
        _records(spark, reader, access[next(iter(reader.values()))], starts, packing.tracing)
        for reader in readers_of(sources_of(starts), topics.topic, access)
    )
    records = reduce(DataFrame.unionAll, others, first)
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


def fetch_bytes(partitions: int) -> int:
    return max(FETCH_BYTES_LEAST, min(FETCH_BYTES, FETCH_BYTES_OF_ALL // partitions))


def sources_of(starts: Mapping[SourcePartition, int]) -> tuple[int, ...]:
    """In the order in which the query has them."""
    return tuple(sorted({key.source for key in starts}))


def readers_of(
    sources: Sequence[int], topic: Callable[[int], str], access: Sequence[Mapping[str, str]]
) -> tuple[Mapping[str, int], ...]:
    """What one Kafka source of Spark's reads together: sources by their topics. What a batch costs whatever is in it
    grows with each of Spark's, so those that are reached in the same way share one; but two sources that read one topic
    do not."""
    readers: list[dict[str, int]] = []
    for source in sources:
        for reader in readers:
            if topic(source) not in reader and access[next(iter(reader.values()))] == access[source]:
                reader[topic(source)] = source
                break
        else:
            readers.append({topic(source): source})
    return tuple(readers)


def _records(
    spark: SparkSession,
    reader: Mapping[str, int],
    access: Mapping[str, str],
    starts: Mapping[SourcePartition, int],
    tracing: bool,
) -> DataFrame:
    known = {
        topic: {str(key.partition): offset for key, offset in starts.items() if key.source == source}
        for topic, source in reader.items()
    }
    *others, last = reader.items()
    number = lit(last[1])
    for topic, source in others:
        number = when(col("topic") == topic, source).otherwise(number)
    return (
        spark.readStream.format("kafka")
        .options(**access)
        .option("subscribe", ",".join(reader))
        .option("startingOffsets", json.dumps(known))
        .option("maxOffsetsPerTrigger", RECORDS_PER_BATCH * len(reader))
        .option("failOnDataLoss", "true")
        .option("kafka.isolation.level", "read_committed")
        .option("kafka.max.poll.records", RECORDS_PER_POLL)
        .option("kafka.fetch.max.wait.ms", FETCH_WAIT_MS)
        .option("kafka.max.partition.fetch.bytes", fetch_bytes(len(starts)))
        .option("includeHeaders", tracing)
        .load()
        .select(
            number.alias("source"),
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
