"""Dispatchers and joiners alone: source blocks in, as a shuffler sends them, blocks of results out."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import count
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from confluent_kafka import Consumer, Message, Producer, TopicPartition

from bench.data import SIDES
from bench.kafka.bed import APPEND_TIME, Bed, Burst, EndWatch
from bench.kafka.queries import EQUALITY, PARTITIONS, WARM_UP_SHIFT, data_of, manifest
from bench.kafka.throughput import LIMIT_S, QUIET_S, Throughput
from bench.kafka.tiers import Tiers, TrialFailed
from bench.workloads import expected, fingerprint
from biclique.core.rows import Vector
from biclique.hosts.shuffle.packing import dispatcher_of
from biclique.plan.make import make_plan
from biclique.ports.wire import Wire
from biclique.query.compile import compile_manifest
from biclique.tiers.progress import SourcePartition
from biclique.tiers.shuffler import Shuffler

BLOCK_ROWS = 16_384  # as the shuffler packs them when there is much to do
START_S = 120.0
TICK_S = 0.02  # of the latency's blocks

_serials = count()


class BlockSource:
    """Blocks of one query as the shuffler's messages, with the offsets that follow."""

    def __init__(self, text: str) -> None:
        self._plan = make_plan(compile_manifest(text))
        self._wire = Wire(self._plan)
        self._shufflers = [Shuffler(self._plan.query, source) for source in range(len(SIDES))]
        self._next: dict[SourcePartition, int] = {}

    def message(
        self, source: int, partition: int, columns: list[np.ndarray], now_us: int
    ) -> tuple[int, bytes, Mapping[str, bytes]]:
        """The partition of shuffled, value, headers."""
        key = SourcePartition(source, partition)
        first = self._next.get(key, 0)
        offsets = np.arange(first, first + len(columns[0]))
        self._next[key] = int(offsets[-1]) + 1
        times = np.full(len(offsets), now_us)
        vectors = [Vector(column) for column in columns]
        block = self._shufflers[source].pack(partition, first - 1, offsets, times, vectors)
        message = self._wire.encode(block)
        return dispatcher_of(key, self._plan.dispatchers), message.value, message.headers


def blocks_of(
    source: BlockSource, folder: Path, shift: int = 0, rows: int = BLOCK_ROWS
) -> Iterator[tuple[int, bytes, Mapping[str, bytes]]]:
    """Both sides in turns."""
    now_us = time.time_ns() // 1000
    tables = [pq.read_table(folder / "parquet" / side) for side in SIDES]
    for number, start in enumerate(range(0, max(map(len, tables)), rows)):
        for side, table in enumerate(tables):
            part = table.slice(start, rows)
            if not len(part):
                continue
            serial, keys = (part.column(name).to_numpy() for name in ("serial", "a"))
            if shift:
                serial, keys = -1 - serial, keys + np.int32(shift)
            yield source.message(side, number % PARTITIONS, [serial, keys], now_us)


def started(bed: Bed, name: str, text: str) -> Tiers:
    """Dispatcher and joiner of a query, with all topics there."""
    bed.create({f"{name}-{side}": PARTITIONS for side in SIDES})
    tiers = Tiers(bed, name, text)
    tiers.start(("dispatcher", "joiner"))
    deadline = time.monotonic() + START_S
    while not tiers.is_founded:
        tiers.alive()
        if time.monotonic() > deadline:
            raise TrialFailed(f"dispatcher and joiner did not start within {START_S:.0f} s")
        time.sleep(0.1)
    return tiers


def block_throughput(bed: Bed, data: Path, rows: int) -> Throughput:
    name = f"blocks-{next(_serials)}"
    bed.create({f"{name}-out": PARTITIONS})
    text = manifest(EQUALITY, name, bed.kafka.bootstrap, output="arrow")
    whole, small = data_of(data, EQUALITY, rows)
    source = BlockSource(text)
    tiers = started(bed, name, text)
    watch = EndWatch(bed, f"{name}-out", PARTITIONS)
    try:
        for folder, shift in ((small, WARM_UP_SHIFT), (whole, 0)):
            burst = Burst(bed)
            for partition, value, headers in blocks_of(source, folder, shift):
                burst.write_messages(f"{name}.shuffled", partition, [(value, headers)])
            burst.flush()
            before = tiers.cpu_seconds()
            began, moved = burst.show(), len(watch.seen)
            deadline = time.monotonic() + START_S
            while len(watch.seen) <= moved and time.monotonic() < deadline:
                time.sleep(0.1)
            watch.wait_until_quiet(0, QUIET_S, LIMIT_S)
            tiers.alive()
        spent = tiers.cpu_seconds()
    finally:
        tiers.stop()
    last: dict[int, int] = {}
    batches: list[pa.RecordBatch] = []
    for message in bed.messages(f"{name}-out", PARTITIONS):
        batches += _batches(message.value() or b"")
        last[message.partition() or 0] = message.offset() or 0
    table = pa.Table.from_batches(batches).select(["r_id", "s_id"])
    file = bed.scratch / f"{name}.parquet"
    pq.write_table(table, file)
    found = fingerprint(f"SELECT r_id, s_id FROM read_parquet('{file}') WHERE r_id >= 0")
    if found != expected(EQUALITY.workload, whole):
        raise TrialFailed(f"wrong answer: {found[0]:,} pairs")
    note = ", ".join(f"{tier} {spent[tier] - before[tier]:.1f}" for tier in spent)
    return Throughput("Biclique", rows, watch.readable_at(last) - began, found[0], f"CPU seconds: {note}")


def _batches(value: bytes) -> list[pa.RecordBatch]:
    with pa.ipc.open_stream(value) as reader:
        return list(reader)


def block_latency(bed: Bed, rate: int, seconds: float) -> tuple[float, float, int]:
    """`rate`: tuples a second, of both sides. p50, p99, results. Each tuple has a partner in the other side's block of
    the same tick; the clock begins when the broker appends the later of the two blocks."""
    name = f"block-latency-{next(_serials)}"
    bed.create({f"{name}-out": PARTITIONS})
    text = manifest(EQUALITY, name, bed.kafka.bootstrap, output="arrow", within="1 MINUTE")
    source = BlockSource(text)
    tiers = started(bed, name, text)
    bed.set_topic(f"{name}.shuffled", APPEND_TIME)
    each = max(1, int(rate * TICK_S / 2))
    producer = Producer({**bed.client, "linger.ms": 0, "acks": "all"})
    consumer = Consumer(
        {**bed.client, "group.id": "reader", "isolation.level": "read_committed", "fetch.wait.max.ms": 5}
    )
    consumer.assign([TopicPartition(f"{name}-out", partition, 0) for partition in range(PARTITIONS)])
    seen: list[tuple[float, bytes]] = []
    appended: dict[int, float] = {}

    def note(tick: int, error: object, message: Message) -> None:
        """The broker's own time, of the later block of a tick. (The log is trimmed behind the dispatchers.)"""
        if error is not None:
            raise TrialFailed(f"a block could not be written: {error}")
        appended[tick] = max(appended.get(tick, 0.0), message.timestamp()[1] / 1000)

    def send(tick: int, topic: str) -> None:
        serials = np.arange(tick * each, (tick + 1) * each, dtype=np.int32)
        now_us = time.time_ns() // 1000
        for side in (0, 1) if tick % 2 else (1, 0):
            partition, value, headers = source.message(side, tick % PARTITIONS, [serials, serials], now_us)
            producer.produce(topic, value, partition=partition, headers=dict(headers), on_delivery=partial(note, tick))

    def collect(timeout: float) -> None:
        producer.poll(0)
        got = [m.value() or b"" for m in consumer.consume(1000, timeout) if m.error() is None]
        now = time.time()
        seen.extend((now, value) for value in got)

    try:
        send(0, f"{name}.shuffled")
        producer.flush(30)
        deadline = time.monotonic() + START_S
        while not seen:
            collect(0.1)
            tiers.alive()
            if time.monotonic() > deadline:
                raise TrialFailed(f"no result after {START_S:.0f} s")
        warm_ticks, ticks, began = int(5 / TICK_S), int((5 + seconds) / TICK_S), time.monotonic()
        for tick in range(1, ticks):
            send(tick, f"{name}.shuffled")
            while (left := began + tick * TICK_S - time.monotonic()) > 0:
                collect(min(left, 0.002))
        until = time.monotonic() + 5
        while time.monotonic() < until:
            collect(0.05)
        tiers.alive()
    finally:
        tiers.stop()
        consumer.close()
    serials, at = [], []
    for when, value in seen:
        for batch in _batches(value):
            serials.append(batch.column("r_id").to_numpy())
            at.append(np.full(len(batch), when))
    found, times = np.concatenate(serials), np.concatenate(at)
    if len(found) != ticks * each or len(np.unique(found)) != len(found):
        raise TrialFailed(f"{len(found):,} results of {ticks * each:,}")
    took = times - np.array([appended[tick] for tick in range(ticks)])[found // each]
    took = took[found >= warm_ticks * each]
    p50, p99 = np.quantile(took, (0.5, 0.99)).tolist()
    return p50, p99, len(took)
