"""Where traces begin: a task of the shuffler reads records, and a block of them is followed from here on.

A record that brings the context of a trace which somebody records (the header `traceparent`) takes its block into that
trace; the block's other such records are linked. A block without any is the sampler's to choose. This runs in Spark's
Python workers, each with telemetry of its own, made when its first block comes: after the fork.
"""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import pyarrow as pa

from biclique.hosts.logs import begin_logging
from biclique.ports.telemetry import Identity, Telemetry
from biclique.ports.telemetry_settings import open_tracing
from biclique.ports.trace_context import followed
from biclique.query.model import Kafka, Query
from biclique.tiers.messages import SourceBlock

TRACEPARENT = "traceparent"  # the column with the header's bytes, where tracing is on
LINKS_MAX = 32


@dataclass(frozen=True)
class Tracing:
    telemetry: Telemetry
    query: Query

    def __call__(self, block: SourceBlock, records: pa.RecordBatch, began_ns: int) -> SourceBlock:
        """The block under its trace. `began_ns`: of the wall clock, when its records were taken up."""
        if not self.telemetry.tracing:
            return block
        source = self.query.sources[block.source]
        assert isinstance(source.input, Kafka)
        parents = contexts_of(records)
        offsets = records.column("offset")
        told = {
            "messaging.system": "kafka",
            "messaging.operation.type": "receive",
            "messaging.destination.name": source.input.topic,
            "messaging.destination.partition.id": str(block.partition),
            "messaging.batch.message_count": len(records),
            "biclique.source": source.name,
            "biclique.offset.first": offsets[0].as_py(),
            "biclique.offset.last": offsets[-1].as_py(),
            "biclique.rows": len(block.columns[0]) if block.columns else 0,
        }
        span = self.telemetry.begin("read", began_ns, parents[0] if parents else "", parents[1:], told)
        if span is None:
            return block
        span.end(time.time_ns())
        return replace(block, trace=span.context)


def contexts_of(records: pa.RecordBatch) -> list[str]:
    """Those that the records bring and somebody records, each once, in order."""
    headers = records.column(TRACEPARENT).drop_null()
    if not len(headers):
        return []
    texts = dict.fromkeys(bytes(value).decode(errors="replace") for value in headers.to_pylist())
    found = []
    for text in texts:
        if followed(text):
            found.append(text)
        if len(found) > LINKS_MAX:
            break
    return found


def untraced(block: SourceBlock, records: pa.RecordBatch, began_ns: int) -> SourceBlock:
    """Where nobody follows anything."""
    return block


@functools.lru_cache(maxsize=4)
def tracing_of(query: Query, attempt: int) -> Callable[[SourceBlock, pa.RecordBatch, int], SourceBlock]:
    """Once a worker. `attempt`: of the tier, as its driver has it."""
    whose = Identity(query.name, "shuffler", f"worker {os.getpid()}", attempt)
    begin_logging(whose.query, whose.tier, whose.unit)
    telemetry = open_tracing(os.environ, whose)
    return untraced if telemetry is None else Tracing(telemetry, query)
