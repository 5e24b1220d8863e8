"""Writes pairs of tuples at a steady rate, in a process of its own: `python -m bench.kafka.pace` with one JSON object
of settings as its argument. A tuple of one side has one partner on the other, written in the same tick, after it or
before it by turns. Prints how many it wrote of each side."""

from __future__ import annotations

import json
import sys
import time

from confluent_kafka import Producer

TICK_S = 0.01


def pace(brokers: str, name: str, partitions: int, rate: int, seconds: float, first: int) -> int:
    """Of each side `rate` a second."""
    producer = Producer(
        {"bootstrap.servers": brokers, "linger.ms": 5, "acks": "all", "queue.buffering.max.messages": 2_000_000}
    )
    began, serial = time.monotonic(), first
    topics = (f"{name}-r", f"{name}-s")
    while (passed := time.monotonic() - began) < seconds:
        due = first + int(rate * passed)
        for topic in topics if int(passed / TICK_S) % 2 else topics[::-1]:
            for number in range(serial, due):
                producer.produce(topic, b'{"serial": %d, "a": %d}' % (number, number), partition=number % partitions)
        serial = due
        producer.poll(0)
        time.sleep(max(0.0, TICK_S - (time.monotonic() - began - passed)))
    assert producer.flush(60) == 0
    return serial - first


if __name__ == "__main__":
    print(json.dumps({"written": pace(**json.loads(sys.argv[1]))}), flush=True)
