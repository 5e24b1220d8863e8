"""What a shuffler's task does: records of source partitions in, messages with source blocks out.

Stateless but for the last offset that it packed of each partition, which the next block names as its predecessor; a
task's first block names none. What a task repeats after a failure, a dispatcher drops.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from biclique.core.codec import from_arrow
from biclique.hosts.parsing.json_rows import parse_json_block
from biclique.hosts.parsing.needed import needed_of
from biclique.hosts.parsing.rows import BadRow
from biclique.hosts.shuffle.records import lines_of
from biclique.plan.make import make_plan
from biclique.plan.model import Plan
from biclique.ports.wire import Message, Wire
from biclique.query.compile import compile_manifest
from biclique.query.model import Query
from biclique.tiers.cutting import RECORD_BYTES_MAX, TUPLE_BYTES_MAX, kept_raw, too_large
from biclique.tiers.messages import DeadRecord, SourceBlock
from biclique.tiers.progress import SourcePartition
from biclique.tiers.shuffler import Shuffler

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
MESSAGE = pa.schema(
    {"key": pa.binary(), "value": pa.binary(), "headers": HEADERS, "topic": pa.string(), "partition": pa.int32()}
)
MESSAGE_SQL = "key binary, value binary, headers array<struct<key: string, value: binary>>, topic string, partition int"
NO_VALUE = "the record has no value"
TOO_LARGE = f"the texts that the query uses of it are more than the {TUPLE_BYTES_MAX} bytes that a tuple may have"
NO_PREDECESSOR = -1


def dispatcher_of(partition: SourcePartition, dispatchers: int) -> int:
    """Fixed for a query's life: a source partition comes through one partition of shuffled, always."""
    return (partition.source + partition.partition) % dispatchers


@dataclass(frozen=True)
class Packing:
    """What a task is told. Plain values: they travel to it."""

    manifest: str
    prefix: str

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """For `mapInArrow`. Columns: source, partition, offset, time (microseconds), value."""
        pa.set_cpu_count(1)  # a task is one core's worth of work
        plan, packer, wire = _made(self.manifest)
        last: dict[SourcePartition, int] = {}
        for batch in batches:
            for key, message, last_offset in _messages(packer, wire, batch, last):
                last[key] = last_offset
                headers = [{"key": name, "value": value} for name, value in message.headers.items()]
                partition = dispatcher_of(key, plan.dispatchers)
                columns = [[None], [message.value], [headers], [f"{self.prefix}.shuffled"], [partition]]
                arrays = [pa.array(column, field.type) for column, field in zip(columns, MESSAGE, strict=True)]
                yield pa.RecordBatch.from_arrays(arrays, schema=MESSAGE)


@functools.lru_cache(maxsize=4)
def _made(manifest: str) -> tuple[Plan, Packer, Wire]:
    """Once a worker, not once a batch."""
    plan = make_plan(compile_manifest(manifest))
    return plan, Packer(plan.query), Wire(plan)


def _messages(
    packer: Packer, wire: Wire, batch: pa.RecordBatch, last: Mapping[SourcePartition, int]
) -> Iterator[tuple[SourcePartition, Message, int]]:
    """Each with its last offset. A block that is too large for a message is made again, of half of its records."""
    parts = list(_by_partition(batch))[::-1]
    while parts:
        key, records = parts.pop()
        count, message, block = records.num_rows, None, None
        if count == 1 or records.column("value").nbytes <= RECORD_BYTES_MAX:
            block = packer.pack(key, last.get(key, NO_PREDECESSOR), records)
            message = wire.encode(block)
        if block is not None and message is not None and (count == 1 or len(message.value) <= RECORD_BYTES_MAX):
            yield key, message, int(block.offsets[-1])
        else:
            half = count // 2
            parts += [(key, records.slice(half)), (key, records.slice(0, half))]


def _by_partition(batch: pa.RecordBatch) -> Iterator[tuple[SourcePartition, pa.RecordBatch]]:
    """A task reads one partition of one source; a batch says so itself."""
    sources, partitions = batch.column("source").to_numpy(), batch.column("partition").to_numpy()
    cuts = np.flatnonzero((np.diff(sources) != 0) | (np.diff(partitions) != 0)) + 1
    for begin, end in zip([0, *cuts.tolist()], [*cuts.tolist(), len(sources)], strict=True):
        if begin < end:
            yield SourcePartition(int(sources[begin]), int(partitions[begin])), batch.slice(begin, end - begin)


class Packer:
    """Of one query."""

    def __init__(self, query: Query) -> None:
        self._query = query
        self._shufflers = [Shuffler(query, source) for source in range(len(query.sources))]
        self._needed = [needed_of(query, source) for source in range(len(query.sources))]

    def pack(self, key: SourcePartition, predecessor: int, records: pa.RecordBatch) -> SourceBlock:
        wanted, used = self._needed[key.source]
        offsets = records.column("offset").to_numpy()
        arrived = records.column("time").cast(pa.int64()).to_numpy()
        values = records.column("value")
        there = np.asarray(pc.is_valid(values).to_numpy(zero_copy_only=False))
        parsed = parse_json_block(lines_of(values.drop_null()), wanted)
        kept = np.flatnonzero(there)
        raw = values.to_pylist() if parsed.bad else []
        dead = [self._dead(key, int(offsets[at]), raw[at], bad) for bad in parsed.bad for at in [kept[bad.row]]]
        dead += [self._dead(key, int(o), b"", BadRow(0, "", NO_VALUE, b"")) for o in offsets[~there]]
        good = kept[parsed.rows]
        columns = [from_arrow(array, field.type) for array, field in zip(parsed.columns, wanted.fields, strict=True)]
        times = arrived[good] if wanted.time is None else np.asarray(columns[wanted.time].values, np.int64)
        kept_columns = tuple(columns[position] for position in used)
        good_offsets = offsets[good]
        large = too_large(kept_columns, len(good))
        if large is not None:
            dead += [
                self._dead(key, int(offsets[at]), values[int(at)].as_py(), BadRow(0, "", TOO_LARGE, b""))
                for at in good[large]
            ]
            fit = np.flatnonzero(~large)
            good_offsets, times = good_offsets[fit], times[fit]
            kept_columns = tuple(column.take(fit) for column in kept_columns)
        return self._shufflers[key.source].pack(
            key.partition,
            predecessor,
            good_offsets,
            times,
            kept_columns,
            sorted(dead, key=lambda record: record.offset),
        )

    def _dead(self, key: SourcePartition, offset: int, raw: bytes, bad: BadRow) -> DeadRecord:
        place = f"{self._query.sources[key.source].name}, partition {key.partition}, offset {offset}"
        kept, reason = kept_raw(raw, bad.reason)
        return DeadRecord(offset, kept, place + (f", column {bad.column}" if bad.column else ""), reason)
