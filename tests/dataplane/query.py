"""One query over real topics: its manifest, its input, its tiers as processes, its output as a reader sees it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from infra.jars import CONNECTOR, jars_of
from infra.kafka_server import KafkaServer
from infra.redis_server import RedisServer
from tests.dataplane.topics import committed

ReadT = TypeVar("ReadT")
BICLIQUE = Path(sys.executable).with_name("biclique")
MANIFEST = """\
apiVersion: biclique.dev/v1alpha1
kind: JoinQuery
metadata: {{name: {name}}}
spec:
  sources:
    - name: r
      schema: "k INT, v BIGINT"
      kafka: {{bootstrapServers: "{brokers}", topic: {name}-r, format: json}}
    - name: s
      schema: "k INT, v BIGINT"
      kafka: {{bootstrapServers: "{brokers}", topic: {name}-s, format: json}}
  sql: "SELECT r.v AS rv, s.v AS sv FROM r JOIN s ON {predicate}"
  topics: {{partitions: 2}}
  plan: {{subgroups: {{r: {subgroups}, s: {subgroups}}}}}
  output: {{kafka: {{bootstrapServers: "{brokers}", topic: {name}-out, format: json}}}}
"""


def keys_first(template: str) -> str:
    """With keys sent first and payload on a match. Results are the same, so tests of other things take it by turns."""
    return template.replace("plan: {{", "plan: {{transport: semijoin, ")


def _must_be_delivered(error: KafkaError | None, message: object) -> None:
    """Raised by the flush that hears of it, which counts what has failed as delivered."""
    if error is not None:
        raise KafkaException(error)


@dataclass
class KafkaQuery:
    kafka: KafkaServer
    redis: RedisServer
    folder: Path
    predicate: str = "r.k = s.k"
    subgroups: int = 1
    template: str = MANIFEST
    name: str = field(default_factory=lambda: f"q{uuid.uuid4().hex[:8]}")
    control: str = ""  # the control port; empty: a folder beside the manifest
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.client, self.made_ms = self.kafka.client, time.time_ns() // 1_000_000
        self.manifest = self.folder / "query.yaml"
        self.manifest.write_text(
            self.template.format(
                name=self.name, brokers=self.kafka.bootstrap, predicate=self.predicate, subgroups=self.subgroups
            )
        )
        admin = AdminClient(self.client)
        topics = [NewTopic(f"{self.name}-{suffix}", partitions, 1) for suffix, partitions in (("r", 2), ("s", 1))]
        for future in admin.create_topics([*topics, NewTopic(f"{self.name}-out", 1, 1)]).values():
            future.result(30)
        self.producer = Producer({**self.client, "linger.ms": 5})

    # --- in ----------------------------------------------------------------------------------------------------------

    def produce(
        self,
        side: str,
        value: bytes,
        headers: dict[str, str | bytes | None] | None = None,
        partition: int = -1,
        time_ms: int = 0,
    ) -> None:
        """Without a partition the producer chooses one. Without a time all records have the same: tests pause, and of
        partitions that were idle for some seconds what another overtakes would be late."""
        time_ms = time_ms or self.made_ms
        self.producer.produce(
            f"{self.name}-{side}",
            value,
            headers=headers,
            partition=partition,
            timestamp=time_ms,
            on_delivery=_must_be_delivered,
        )

    def produce_rows(self, side: str, keys: list[int], first: int, time_ms: int = 0) -> None:
        for number, key in enumerate(keys, first):
            self.produce(side, b'{"k": %d, "v": %d}' % (key, number), time_ms=time_ms)
        assert self.producer.flush(30) == 0

    def add_partitions(self, side: str, count: int) -> None:
        wanted = NewPartitions(f"{self.name}-{side}", count)
        admin = AdminClient(self.client)
        admin.create_partitions([wanted])[wanted.topic].result(30)
        deadline = time.monotonic() + 30
        while len(admin.list_topics(wanted.topic, timeout=30).topics[wanted.topic].partitions) < count:
            assert time.monotonic() < deadline, "the broker does not hear of it"
            time.sleep(0.05)
        self.producer = Producer({**self.client, "linger.ms": 5})  # the one before knows the old number for minutes

    def recreate(self, side: str, partitions: int) -> None:
        """The topic under the same name, empty."""
        admin, topic = AdminClient(self.client), f"{self.name}-{side}"
        admin.delete_topics([topic])[topic].result(30)
        deadline = time.monotonic() + 30
        while True:
            try:
                admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(30)
                return
            except KafkaException:
                assert time.monotonic() < deadline
                time.sleep(0.2)

    # --- tiers -------------------------------------------------------------------------------------------------------

    def start(self, tier: str, **settings: str) -> None:
        environment = {
            **os.environ,
            **settings,
            "BICLIQUE_REDIS": self.redis.url,
            "BICLIQUE_CONTROL": self.control or str(self.folder / "control"),
            "BICLIQUE_JARS": str(jars_of(CONNECTOR)),
            "BICLIQUE_SECRETS": str(self.kafka.security.secrets) if self.kafka.security else "",
        }
        with (self.folder / f"{tier}.log").open("ab") as log:
            self.processes[tier] = subprocess.Popen(
                [BICLIQUE, "tier", tier, self.manifest],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def session(self, tier: str) -> int:
        """Of all its processes (tests/chaos/processes.py)."""
        return self.processes[tier].pid

    def kill(self, tier: str) -> None:
        """The driver, its Java and its Python workers, as a node that goes dark."""
        process = self.processes.pop(tier)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def founded(self, seconds: float) -> None:
        """The first routing table is there: the sign that all first progress is."""
        deadline = time.monotonic() + seconds
        while not list((self.folder / "control").glob("tables/[!.]*.json")):
            assert time.monotonic() < deadline, "nobody founded the query"
            time.sleep(0.1)

    def exit_of(self, tier: str, seconds: float) -> int:
        return self.processes.pop(tier).wait(seconds)

    def resume(self) -> None:
        (self.folder / "control" / "stop").unlink()

    def stop(self) -> dict[str, int]:
        """Asked by the control port, where that is the folder, else by a signal. Exit codes by tier."""
        if self.control:
            for process in self.processes.values():
                process.terminate()
        else:
            (self.folder / "control" / "stop").touch()
        codes: dict[str, int] = {}
        for tier, process in self.processes.items():
            try:
                codes[tier] = process.wait(60)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                codes[tier] = process.wait()
        self.processes.clear()
        return codes

    def log_of(self, tier: str) -> str:
        return (self.folder / f"{tier}.log").read_text(errors="replace")[-3000:]

    # --- out ---------------------------------------------------------------------------------------------------------

    def results(self, wanted: int, seconds: float) -> Counter[tuple[int, int]]:
        return self.counted(wanted, seconds, lambda row: (row["rv"], row["sv"]))

    def counted(self, wanted: int, seconds: float, read: Callable[[dict[str, Any]], ReadT]) -> Counter[ReadT]:
        """As a read-committed reader sees them: until `wanted` are there, and a little longer. `read`: what is counted
        of a row."""
        found: Counter[ReadT] = Counter()
        deadline, settled = time.monotonic() + seconds, False
        for message in self.messages(f"{self.name}-out"):
            if message is None:
                if settled or time.monotonic() > deadline:
                    return found
                settled = found.total() >= wanted
                continue
            found[read(json.loads(message))] += 1
        raise AssertionError("the reader ended")

    def dead(self) -> list[bytes]:
        """Of both dispatchers, in no order between them."""
        return [message.value() or b"" for message in committed(self.kafka.bootstrap, f"{self.name}.dead")]

    def messages(self, topic: str, partition: int = 0) -> Iterator[bytes | None]:
        """From a partition's beginning; None whenever there was nothing for a second."""
        consumer = Consumer({**self.client, "group.id": "reader", "isolation.level": "read_committed"})
        try:
            consumer.assign([TopicPartition(topic, partition, 0)])
            while True:
                batch = consumer.consume(10_000, 1.0)
                yield from (message.value() for message in batch if message.error() is None)
                if not batch:
                    yield None
        finally:
            consumer.close()
