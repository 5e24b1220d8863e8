"""The input, flowing all the while: a paced producer that knows what it has sent.

Idempotent, and patient beyond every fault, so that what Kafka holds is what was sent, once and in order. A row says
when it was made, a little out of order; now and then one is a day late, or no record at all.
"""

from __future__ import annotations

import random
import threading
import time
from datetime import UTC, datetime

from confluent_kafka import KafkaError, Message, Producer

from tests.chaos.truth import DAY_US, GROUPS, SIDES, Given, Row

TICK_S = 0.05
JITTER_US = 2_000_000
LATE_SHARE, DEAD_SHARE = 0.002, 0.002


class Flow:
    """`rate`: rows a second and side. `keys`: of a tiny domain, so that most rows find partners."""

    def __init__(self, bootstrap: str, name: str, rate: int, keys: int, rng: random.Random) -> None:
        self.given = Given()
        self.sent = dict.fromkeys(SIDES, 0)
        self.acknowledged = dict.fromkeys(SIDES, 0)
        self.set_aside = threading.Event()  # set: late and dead ones are among the rows
        self._name, self._rate, self._keys, self._rng = name, rate, keys, rng
        self._failures: list[KafkaError] = []
        self._stopping, self._flowing, self._resting = threading.Event(), threading.Event(), threading.Event()
        self._flowing.set()
        patient = {"enable.idempotence": True, "linger.ms": 5, "message.timeout.ms": 600_000}
        self._producer = Producer({"bootstrap.servers": bootstrap, "log_level": 2, **patient})
        self._thread = threading.Thread(target=self._run, daemon=True, name="flow")
        self._thread.start()

    def pause(self) -> None:
        """All that was sent is in Kafka."""
        self._flowing.clear()
        self._resting.wait()
        left = self._producer.flush(120)
        if left or self._failures:
            raise RuntimeError(f"the input could not be written: {left} rows left, {self._failures[:1]}")

    def resume(self) -> None:
        self._resting.clear()
        self._flowing.set()

    def stop(self) -> None:
        self._stopping.set()
        self._flowing.set()
        self._thread.join()
        self._producer.purge()

    def _run(self) -> None:
        due = 0.0
        while not self._stopping.is_set():
            if not self._flowing.is_set():
                self._resting.set()
                self._flowing.wait()
            began = time.monotonic()
            for _ in range(int(due)):
                for side in SIDES:
                    self._send(side)
            due -= int(due)
            self._producer.poll(0)
            time.sleep(TICK_S)
            due += (time.monotonic() - began) * self._rate

    def _send(self, side: str) -> None:
        number, drawn = self.sent[side], self._rng.random()
        self.sent[side] += 1
        time_us = time.time_ns() // 1000 - self._rng.randrange(JITTER_US)
        key = self._rng.randrange(self._keys)
        strange = self.set_aside.is_set()
        if strange and drawn < DEAD_SHARE:
            value = b'{"k": "none", "v": %d, "side": "%s"}' % (number, side.encode())
            self.given.dead.append(value)
        elif strange and drawn < DEAD_SHARE + LATE_SHARE:
            value = _json(key, number, time_us - DAY_US)
            self.given.late[side].add(number)
        else:
            value = _json(key, number, time_us)
            self.given.rows[side].append(Row(key, time_us, number))
        partition = number % 2 if side == "r" else 0

        def note(error: KafkaError | None, message: Message) -> None:
            if error is None:
                self.acknowledged[side] += 1
            else:
                self._failures.append(error)

        while True:
            try:
                self._producer.produce(f"{self._name}-{side}", value, partition=partition, on_delivery=note)
                return
            except BufferError:
                self._producer.poll(0.1)


def _json(key: int, number: int, time_us: int) -> bytes:
    at = datetime.fromtimestamp(time_us // 1_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    members = (key, number, number % GROUPS, at.encode(), time_us % 1_000_000)
    return b'{"k": %d, "v": %d, "g": %d, "at": "%s.%06dZ"}' % members
