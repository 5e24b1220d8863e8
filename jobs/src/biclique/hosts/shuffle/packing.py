"""What a shuffler's task does: records of source partitions in, messages with source blocks out.

Stateless but for the last record that it packed of each partition, which the next block names as its predecessor; a
task's first block names none. What a task repeats after a failure, a dispatcher drops.

Beside each message stands what the driver wants to know of it (`ABOUT`); it does not go to Kafka.
"""

from __future__ import annotations

import functools
import gc
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from biclique.core.codec import from_arrow
from biclique.core.places import last_place, offsets_max, place_text, places_of, row_bits
from biclique.hosts.parsing.needed import needed_of
from biclique.hosts.parsing.rows import Wanted
from biclique.hosts.shuffle.arrow_messages import arrow_sizes, parse_arrow_messages
from biclique.hosts.shuffle.csv_messages import parse_csv_messages
from biclique.hosts.shuffle.cutting import bytes_max_of, cut, portions, sizes_as_they_came
from biclique.hosts.shuffle.json_messages import parse_json_messages
from biclique.hosts.shuffle.parsed import WHOLE, BadRecord, ParsedMessages
from biclique.hosts.shuffle.raw import RawRecords
from biclique.hosts.shuffle.tracing import tracing_of, untraced
from biclique.plan.make import make_plan
from biclique.plan.model import Plan
from biclique.ports.wire import Wire
from biclique.query.compile import compile_manifest
from biclique.query.model import Format, Kafka, Query, Source
from biclique.tiers.cutting import TUPLE_BYTES_MAX, kept_raw, too_large
from biclique.tiers.messages import DeadRecord, SourceBlock
from biclique.tiers.progress import SourcePartition
from biclique.tiers.shuffler import Arrivals, Shuffler

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
MESSAGE = {"key": pa.binary(), "value": pa.binary(), "headers": HEADERS, "topic": pa.string(), "partition": pa.int32()}
ABOUT = {
    "source": pa.int32(),
    "source_partition": pa.int32(),
    "last": pa.int64(),  # the place of its last record
    "records": pa.int64(),
    "bad": pa.int64(),
    "first_bad": pa.string(),  # place and reason
}
PACKED = pa.schema({**MESSAGE, **ABOUT})
PACKED_SQL = (
    "key binary, value binary, headers array<struct<key: string, value: binary>>, topic string, partition int, "
    "source int, source_partition int, last long, records long, bad long, first_bad string"
)
NO_VALUE = "the record has no value"
NO_TIME = "the record has no time of its own, and no column has it: name one in eventTime"
TOO_LARGE = f"the texts that the query uses of it are more than the {TUPLE_BYTES_MAX} bytes that a tuple may have"
NO_PREDECESSOR = -1
NEVER_AHEAD = 1 << 61  # in place of an arrival that the broker does not know

Parser = Callable[[pa.BinaryArray, Wanted], ParsedMessages]


class OutOfPlaces(Exception):
    """A partition has more messages than ids can tell apart."""


def dispatcher_of(partition: SourcePartition, dispatchers: int) -> int:
    """Fixed for a query's life: a source partition comes through one partition of shuffled, always."""
    return (partition.source + partition.partition) % dispatchers


@dataclass(frozen=True)
class Packing:
    """What a task is told. Plain values: they travel to it. `attempt`: of the tier; `tracing`: there is a column with
    what the records bring of traces."""

    manifest: str
    prefix: str
    attempt: int = 0
    tracing: bool = False

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """For `mapInArrow`. Columns: source, partition, offset, time (microseconds), value."""
        pa.set_cpu_count(1)  # a task is one core's worth of work
        plan, packer, wire = _made(self.manifest)
        traced = tracing_of(plan.query, self.attempt) if self.tracing else untraced
        last: dict[SourcePartition, int] = {}
        for batch in batches:
            for key, records in _by_partition(batch):
                for portion in packer.portions(key.source, records):
                    began_ns = time.time_ns()
                    packed = packer.pack(key, last.get(key, NO_PREDECESSOR), portion)
                    packed = traced(packed, portion, began_ns)
                    bytes_max = bytes_max_of(packed, plan.fetched_from(key.source))
                    for block, message in cut(packed, wire.encode, bytes_max=bytes_max):
                        last[key] = int(block.offsets[-1])
                        headers = [{"key": name, "value": value} for name, value in message.headers.items()]
                        to = (f"{self.prefix}.shuffled", dispatcher_of(key, plan.dispatchers))
                        yield _row((None, message.value, headers, *to, *_about(block)))


def _row(values: Sequence[object]) -> pa.RecordBatch:
    arrays = [pa.array([value], field.type) for value, field in zip(values, PACKED, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=PACKED)


def _about(block: SourceBlock) -> tuple[object, ...]:
    first = f"{block.dead[0].place}: {block.dead[0].reason}" if block.dead else None
    return block.source, block.partition, int(block.offsets[-1]), len(block.offsets), len(block.dead), first


@functools.lru_cache(maxsize=4)
def _made(manifest: str) -> tuple[Plan, Packer, Wire]:
    """Once a worker, not once a batch."""
    plan = make_plan(compile_manifest(manifest))
    made = plan, Packer(plan.query), Wire(plan)
    gc.freeze()  # Spark's worker collects after every task, and would look through all of this: 60 ms each time
    return made


def _by_partition(batch: pa.RecordBatch) -> Iterator[tuple[SourcePartition, pa.RecordBatch]]:
    """A task reads one partition of one source; a batch says so itself."""
    sources, partitions = batch.column("source").to_numpy(), batch.column("partition").to_numpy()
    cuts = np.flatnonzero((np.diff(sources) != 0) | (np.diff(partitions) != 0)) + 1
    for begin, end in zip([0, *cuts.tolist()], [*cuts.tolist(), len(sources)], strict=True):
        if begin < end:
            yield SourcePartition(int(sources[begin]), int(partitions[begin])), batch.slice(begin, end - begin)


def parser_of(source: Source) -> Parser:
    assert isinstance(source.input, Kafka)
    match source.input.format:
        case Format.JSON:
            return parse_json_messages
        case Format.CSV:
            return partial(parse_csv_messages, schema=source.fields)
        case Format.ARROW:
            return parse_arrow_messages
        case Format.PARQUET:
            raise AssertionError("no message is a Parquet file")


class Packer:
    """Of one query."""

    def __init__(self, query: Query) -> None:
        self._query = query
        self._shufflers = [Shuffler(query, source) for source in range(len(query.sources))]
        self._needed = [needed_of(query, source) for source in range(len(query.sources))]
        self._parsers = {n: parser_of(s) for n, s in enumerate(query.sources) if isinstance(s.input, Kafka)}

    def portions(self, source: int, records: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """To be packed one after the other: bounded by what they take in memory, where that is more than they are."""
        values, (wanted, _) = records.column("value"), self._needed[source]
        in_arrow = self._parsers[source] is parse_arrow_messages
        return portions(records, arrow_sizes(values, wanted) if in_arrow else sizes_as_they_came(values))

    def pack(self, key: SourcePartition, predecessor: int, records: pa.RecordBatch) -> SourceBlock:
        """Without any record where messages hold none."""
        wanted, used = self._needed[key.source]
        bits = row_bits(self._query.sources[key.source])
        offsets = records.column("offset").to_numpy()
        self._refuse_beyond(key, int(offsets[-1]), bits)
        arrived = records.column("time").cast(pa.int64()).to_numpy()
        values = records.column("value")
        unread = self._unread(values, arrived, timed=wanted.time is not None)
        kept = np.delete(np.arange(len(records)), list(unread))
        readable = values.take(pa.array(kept, pa.int64())) if unread else values
        parsed = self._parsers[key.source](readable, wanted)
        dead = [self._dead(key, int(offsets[at]), values[at].as_py() or b"", why) for at, why in unread.items()]
        for bad in parsed.bad:
            at = kept[bad.message]
            raw = values[at].as_py() if bad.raw is None else bad.raw
            dead.append(self._dead(key, int(offsets[at]), raw, bad, int(parsed.counts[bad.message])))
        message, rows, counts = kept[parsed.messages], parsed.rows, parsed.counts[parsed.messages]
        columns = [from_arrow(array, field.type) for array, field in zip(parsed.columns, wanted.fields, strict=True)]
        raws = RawRecords(values, message, wanted, columns, whole=bits == 0)
        large = too_large(tuple(columns[position] for position in used), len(message))
        if large is not None:
            for row in np.flatnonzero(large).tolist():
                bad = BadRecord(0, int(rows[row]) if bits else WHOLE, "", TOO_LARGE)
                dead.append(self._dead(key, int(offsets[message[row]]), raws[row], bad, int(counts[row])))
            fit = np.flatnonzero(~large)
            message, rows, counts, raws = message[fit], rows[fit], counts[fit], raws.take(fit)
            columns = [column.take(fit) for column in columns]
        return self._shufflers[key.source].pack(
            key.partition,
            predecessor,
            places_of(offsets[message], rows, counts, bits),
            arrived[message] if wanted.time is None else np.asarray(columns[wanted.time].values, np.int64),
            [columns[position] for position in used],
            sorted(dead, key=lambda record: record.offset),
            Arrivals(np.where(arrived < 0, NEVER_AHEAD, arrived)[message], raws),
        )

    def _refuse_beyond(self, key: SourcePartition, offset: int, bits: int) -> None:
        if offset >= offsets_max(bits):
            raise OutOfPlaces(
                f"{place_text(self._query.sources[key.source], key.partition, offset << bits)} is beyond the"
                f" {offsets_max(bits):,} messages of a partition that ids can tell apart: read a new topic"
            )

    def _unread(self, values: pa.BinaryArray, arrived: NDArray[np.int64], timed: bool) -> dict[int, BadRecord]:
        """Of messages that no parser is shown: why."""
        reasons: dict[int, str] = {}
        if not timed and arrived.min(initial=0) < 0:
            reasons |= dict.fromkeys(np.flatnonzero(arrived < 0).tolist(), NO_TIME)
        if values.null_count:
            missing = np.flatnonzero(pc.is_null(values).to_numpy(zero_copy_only=False))
            reasons |= dict.fromkeys(missing.tolist(), NO_VALUE)
        return {at: BadRecord(at, WHOLE, "", reason) for at, reason in sorted(reasons.items())}

    def _dead(self, key: SourcePartition, offset: int, raw: bytes, bad: BadRecord, count: int = 1) -> DeadRecord:
        source = self._query.sources[key.source]
        bits = row_bits(source)
        at = f"{source.name}, partition {key.partition}, offset {offset}"
        at += f", row {bad.row + 1}" if bad.row != WHOLE else ""
        at += f", column {bad.column}" if bad.column else ""
        place = last_place(offset, bits)
        if bad.row != WHOLE and bad.row < count - 1:
            place = (offset << bits) + bad.row
        kept, reason = kept_raw(raw, bad.reason)
        return DeadRecord(place, kept, at, reason)
