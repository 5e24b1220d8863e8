"""From the moment at which the broker appended the later of two tuples to the moment at which a read-committed reader
has their result."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np
from confluent_kafka import Consumer, TopicPartition
from numpy.typing import NDArray

from bench.data import SIDES
from bench.kafka.bed import APPEND_TIME, Bed
from bench.kafka.engines import Engine
from bench.kafka.queries import EQUALITY, PARTITIONS
from bench.kafka.tiers import TrialFailed

WARM_S = 30.0  # of the flow, before the first result that counts
WITHIN = "1 MINUTE"
BEHIND_S = 60.0  # how long after the last tuple its result is waited for
START_S = 120.0

_serials = count()


@dataclass(frozen=True)
class Latency:
    engine: str
    rate: int
    results: int
    p50: float
    p99: float
    note: str = ""


def latency(bed: Bed, engine: Engine, rate: int, seconds: float) -> Latency:
    """`rate`: tuples a second and side."""
    name = f"latency-{engine.name.lower()}-{next(_serials)}"
    bed.create({f"{name}-{side}": PARTITIONS for side in SIDES}, APPEND_TIME)
    bed.create({f"{name}-out": PARTITIONS})
    reader = _Reader(bed, f"{name}-out")
    try:
        engine.start(bed, name, EQUALITY, WITHIN)
        written = _paced(bed, name, 100, 1.0, 0)  # a first few, so that the flow does not meet an engine that starts
        reader.read_until(written, engine, START_S)
        told = {"rate": rate, "seconds": WARM_S + seconds, "first": written, "partitions": PARTITIONS}
        before = engine.cpu()
        pacing = _pacing(bed, name, **told)
        while pacing.poll() is None:
            reader.read()
        assert pacing.stdout is not None
        written += int(json.loads(pacing.stdout.read())["written"])
        reader.read_until(written, engine, BEHIND_S)
        after = engine.cpu()
    finally:
        engine.stop()
        reader.close()
    appended = np.maximum(*(_append_times(bed, f"{name}-{side}", written) for side in SIDES))
    serials, seen = reader.found()
    if len(serials) != written or len(np.unique(serials)) != written:
        raise TrialFailed(f"{len(serials):,} results of {written:,}, {len(np.unique(serials)):,} of them different")
    took = seen - appended[serials]
    counts = appended[serials] > appended.max() - seconds
    p50, p99 = np.quantile(took[counts], (0.5, 0.99)).tolist()
    half = appended.max() - seconds / 2
    early, late = (np.median(took[counts & part]) for part in (appended[serials] < half, appended[serials] >= half))
    note = f"p50 of the first half {early:.2f} s, of the second {late:.2f} s, worst {took[counts].max():.2f} s"
    if after:
        note += f"; CPU seconds before: {before}; after: {after}"
    return Latency(engine.name, rate, int(counts.sum()), p50, p99, note)


def _pacing(bed: Bed, name: str, **told: Any) -> subprocess.Popen[bytes]:
    settings = json.dumps({"brokers": bed.kafka.bootstrap, "name": name, **told})
    return subprocess.Popen([sys.executable, "-m", "bench.kafka.pace", settings], stdout=subprocess.PIPE)


def _paced(bed: Bed, name: str, rate: int, seconds: float, first: int) -> int:
    said, _ = _pacing(bed, name, rate=rate, seconds=seconds, first=first, partitions=PARTITIONS).communicate()
    return int(json.loads(said)["written"])


class _Reader:
    def __init__(self, bed: Bed, topic: str) -> None:
        self._consumer = Consumer(
            {
                **bed.client,
                "group.id": "reader",
                "isolation.level": "read_committed",
                "fetch.wait.max.ms": 20,
                "enable.auto.commit": False,
            }
        )
        self._consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
        self._values: list[bytes] = []
        self._seen: list[tuple[float, int]] = []

    def read(self) -> None:
        values = [m.value() or b"" for m in self._consumer.consume(5_000, 0.02) if m.error() is None]
        if values:
            self._seen.append((time.time(), len(values)))
            self._values += values

    def read_until(self, wanted: int, engine: Engine, limit_s: float) -> None:
        deadline = time.monotonic() + limit_s
        while len(self._values) < wanted:
            self.read()
            engine.alive()
            if time.monotonic() > deadline:
                raise TrialFailed(f"{len(self._values):,} of {wanted:,} results, {limit_s:.0f} s after the last tuple")

    def found(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Which pair, and when it was seen."""
        serials = np.array([json.loads(value)["r_id"] for value in self._values], np.int64)
        return serials, np.repeat([at for at, _ in self._seen], [number for _, number in self._seen])

    def close(self) -> None:
        self._consumer.close()


def _append_times(bed: Bed, topic: str, rows: int) -> NDArray[np.float64]:
    """By serial, in seconds."""
    times = np.zeros(rows)
    for message in bed.messages(topic, PARTITIONS):
        times[json.loads(message.value() or b"")["serial"]] = message.timestamp()[1] / 1000
    return times
