"""A joiner unit killed with a million tuples of state: how long until there is a new result."""

from __future__ import annotations

import os
import signal
import time
from itertools import count
from pathlib import Path

import numpy as np
import redis
from confluent_kafka import Consumer, Producer, TopicPartition

from bench.kafka.bed import Bed, Burst
from bench.kafka.blocks import START_S, BlockSource, blocks_of, started
from bench.kafka.queries import EQUALITY, PARTITIONS, data_of, manifest
from bench.kafka.tiers import Tiers, TrialFailed

TICK_S = 0.1
TICK_ROWS = 50
BOTH = 2
CHECKPOINT_S = 15.0  # by then every unit has made one of all its state
LIMIT_S = 120.0
FRESH = 1 << 30  # serials from here on are of tuples written tick by tick

_serials = count()


class Recovery:
    """A query with state, a trickle of new pairs, and a reader of its output."""

    def __init__(self, bed: Bed, data: Path, rows: int) -> None:
        self._bed, self._name = bed, f"recovery-{next(_serials)}"
        name = self._name
        bed.create({f"{name}-out": PARTITIONS})
        text = manifest(EQUALITY, name, bed.kafka.bootstrap)
        self._source = BlockSource(text)
        self._tick = 0
        self.tiers: Tiers = started(bed, name, text)
        self._producer = Producer({**bed.client, "linger.ms": 0})
        self._consumer = Consumer(
            {**bed.client, "group.id": "reader", "isolation.level": "read_committed", "fetch.wait.max.ms": 20}
        )
        self._consumer.assign([TopicPartition(f"{name}-out", partition, 0) for partition in range(PARTITIONS)])
        burst = Burst(bed)
        for partition, value, headers in blocks_of(self._source, data_of(data, EQUALITY, rows)[0]):
            burst.write_messages(f"{name}.shuffled", partition, [(value, headers)])
        burst.show()
        self.seconds_to_a_new_result(START_S)
        deadline = time.monotonic() + CHECKPOINT_S
        while time.monotonic() < deadline:
            self.seconds_to_a_new_result(LIMIT_S)

    def seconds_to_a_new_result(self, limit_s: float) -> float:
        """Until all results of BOTH ticks in a row are there that were written from now on. By turns one side of a tick
        is written well before the other, and the later one's tuples look into the other side's unit: so neither unit
        can stand in for the other."""
        began, first = time.monotonic(), self._tick
        found: dict[int, int] = {}
        while time.monotonic() < began + limit_s:
            for side in (0, 1) if self._tick % 2 else (1, 0):
                until = time.monotonic() + TICK_S / 2
                self._write(side)
                while time.monotonic() < until:
                    for message in self._consumer.consume(1000, 0.02):
                        if message.error() is None:
                            tick = (_serial(message.value() or b"") - FRESH) // TICK_ROWS
                            found[tick] = found.get(tick, 0) + 1
                    if any(self._is_complete(found, tick) for tick in range(first, self._tick)):
                        self._tick += 1  # one side of it may have been written
                        return time.monotonic() - began
            self._tick += 1
            self.tiers.alive()
        raise TrialFailed(f"no new result within {limit_s:.0f} s")

    @staticmethod
    def _is_complete(found: dict[int, int], tick: int) -> bool:
        return all(found.get(tick + n) == TICK_ROWS for n in range(BOTH))

    def _write(self, side: int) -> None:
        serials = np.arange(self._tick * TICK_ROWS, (self._tick + 1) * TICK_ROWS, dtype=np.int32)
        now_us = time.time_ns() // 1000
        # Keys of their own, which no stored tuple has.
        columns = [serials + np.int32(FRESH), -1 - serials]
        partition, value, headers = self._source.message(side, self._tick % PARTITIONS, columns, now_us)
        self._producer.produce(f"{self._name}.shuffled", value, partition=partition, headers=dict(headers))
        self._producer.poll(0)

    def kill_a_worker(self) -> None:
        """The process of one unit; its driver notices, and starts it again."""
        os.kill(self.tiers.workers("joiner")[0].pid, signal.SIGKILL)

    def kill_the_tier(self) -> None:
        """Driver, Java and workers, and at once a new driver."""
        self.tiers.kill("joiner")
        self.tiers.start(("joiner",))

    def lose_redis(self) -> None:
        redis.Redis.from_url(self._bed.redis.url).flushall()

    def close(self) -> None:
        self._consumer.close()
        self.tiers.stop()


def _serial(value: bytes) -> int:
    return int(value[value.index(b":") + 1 : value.index(b",")])
