"""The reader whom the promises are for: read-committed, from the first result to the last, while faults strike.

It judges as it reads: a result id that comes twice is a pair doubled, and a group whose count falls was counted
wrongly.
"""

from __future__ import annotations

import json
import threading
import time
from collections import Counter

from confluent_kafka import Consumer, KafkaError, TopicPartition

from tests.chaos.truth import SIDES


class Reader:
    """`groups`: results are rows of groups, written again whenever they change."""

    def __init__(self, bootstrap: str, topic: str, groups: bool) -> None:
        self.pairs: Counter[tuple[int, int]] = Counter()
        self.groups: dict[int, tuple[int, int]] = {}
        self.newest = dict.fromkeys(SIDES, -1)  # row of each side that a result was made from
        self.read = 0
        self.wrong: list[str] = []
        self._ids: set[bytes] = set()
        self.by_groups = groups
        self._bootstrap, self._topic = bootstrap, topic
        self._stopping, self._taking = threading.Event(), threading.Lock()
        self._thread = threading.Thread(target=self._run, daemon=True, name="reader")
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()

    def so_far(self) -> tuple[Counter[tuple[int, int]], dict[int, tuple[int, int]]]:
        """Pairs and groups, as they stand between two results."""
        with self._taking:
            return self.pairs.copy(), dict(self.groups)

    def wait_for(self, results: int, limit_s: float) -> bool:
        deadline = time.monotonic() + limit_s
        while self.read < results and time.monotonic() < deadline:
            time.sleep(0.05)
        return self.read >= results

    def _run(self) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": self._bootstrap,
                "log_level": 2,
                "group.id": "reader",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
            }
        )
        consumer.assign([TopicPartition(self._topic, 0, 0)])
        while not self._stopping.is_set():
            for message in consumer.consume(10_000, 0.1):
                error = message.error()
                if error is None:
                    with self._taking:
                        self._take(message.key(), json.loads(message.value()))
                elif error.code() == KafkaError._AUTO_OFFSET_RESET:
                    self.wrong.append(f"the reader lost its place: {error.str()}")
        consumer.close()

    def _take(self, key: bytes, row: dict[str, int]) -> None:
        if self.by_groups:
            group, pairs, total = row["g"], row["n"], row["total"]
            if pairs < self.groups.get(group, (0, 0))[0]:
                self.wrong.append(f"group {group} falls from {self.groups[group][0]} pairs to {pairs}")
            self.groups[group] = pairs, total
        else:
            if key in self._ids:
                self.wrong.append(f"result {key.decode()} came twice")
            self._ids.add(key)
            self.pairs[row["rv"], row["sv"]] += 1
        self.newest["r"] = max(self.newest["r"], row["rv"])
        self.newest["s"] = max(self.newest["s"], row["sv"])
        self.read += 1
