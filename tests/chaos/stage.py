"""One query with everything it needs to be struck at: a Kafka and a Redis of its own, its tiers as processes that are
kept running, and behind each tier's back a relay to each server.

Kafka tells each tier's clients that it is where that tier's relay is (a listener a tier), so that one tier is cut off
without the others. The input and the reader come by the front door, which nothing cuts.
"""

from __future__ import annotations

import os
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path

import redis
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec  # type: ignore[attr-defined]

from infra import processes
from infra.jars import CONNECTOR, jars_of
from infra.kafka_server import KafkaServer
from infra.redis_server import RedisServer
from tests.chaos.keeper import Keeper
from tests.chaos.relay import Relay
from tests.chaos.truth import LATENESS_S, WINDOW_S
from tests.dataplane.query import BICLIQUE

MANIFEST = """\
apiVersion: biclique.dev/v1alpha1
kind: JoinQuery
metadata: {{name: {name}}}
spec:
  sources:
    - name: r
      schema: "k INT, v BIGINT, at TIMESTAMP"
      eventTime: {{column: at, lateness: {lateness}s, idleAfter: 1h}}
      kafka: {{bootstrapServers: "{brokers}", topic: {name}-r, format: json}}
    - name: s
      schema: "k INT, v BIGINT, g INT, at TIMESTAMP"
      eventTime: {{column: at, lateness: {lateness}s, idleAfter: 1h}}
      kafka: {{bootstrapServers: "{brokers}", topic: {name}-s, format: json}}
  sql: "SELECT {items} FROM r JOIN s ON r.k = s.k WITHIN {window} SECONDS{grouping}"
  topics: {{partitions: 2}}
  plan: {{transport: {transport}, subgroups: {{r: 1, s: 1}}}}
  output: {{kafka: {{bootstrapServers: "{brokers}", topic: {name}-out, format: json}}}}
"""


@dataclass(frozen=True)
class Shape:
    """What the query is asked for. `idleAfter` is beyond every fault, so a partition that a fault silences holds the
    watermark: nothing is late but what was made late."""

    name: str
    tiers: tuple[str, ...]
    items: str
    grouping: str = ""
    transport: str = "auto"
    apart: bool = False

    @property
    def processes(self) -> dict[str, tuple[str, ...]]:
        """Each with the words of its command. `apart`: joiners of each side have a driver of their own, so what strikes
        `joiner` strikes one unit, and its sibling goes on."""
        words = {tier: (tier,) for tier in self.tiers}
        if self.apart:
            words["joiner"], words["sibling"] = ("joiner", "--subgroup", "0L0"), ("joiner", "--subgroup", "0R0")
        return words


PAIRS = Shape("pairs", ("shuffler", "dispatcher", "joiner"), "r.v AS rv, s.v AS sv")
GROUPED = Shape(
    "groups",
    (*PAIRS.tiers, "merger"),
    "s.g AS g, COUNT(*) AS n, SUM(r.v) AS total, MAX(r.v) AS rv, MAX(s.v) AS sv",
    " GROUP BY s.g",
)
KEYS_FIRST = Shape("keys-first", PAIRS.tiers, PAIRS.items, transport="semijoin", apart=True)
WITH_REDIS = ("joiner", "merger")  # dispatchers have no checkpoints


def manifest_of(shape: Shape, name: str, brokers: str, more: str = "") -> str:
    """`more`: of the specification, as lines of their own."""
    written = MANIFEST.format(
        name=name,
        brokers=brokers,
        lateness=LATENESS_S,
        window=WINDOW_S,
        items=shape.items,
        grouping=shape.grouping,
        transport=shape.transport,
    )
    return written + more


def make_topics(admin: AdminClient, name: str) -> None:
    """A person's own: both inputs and the output."""
    topics = [NewTopic(f"{name}-{suffix}", count, 1) for suffix, count in (("r", 2), ("s", 1), ("out", 1))]
    for future in admin.create_topics(topics).values():
        future.result(30)


def partitions_of(admin: AdminClient, beginning: str) -> list[TopicPartition]:
    """Of all topics whose names begin so."""
    known = admin.list_topics(timeout=30).topics
    names = sorted(name for name in known if name.startswith(beginning))
    return [TopicPartition(name, number) for name in names for number in sorted(known[name].partitions)]


class Stage:
    def __init__(self, folder: Path, shape: Shape) -> None:
        self.shape, self.name = shape, f"chaos-{shape.name}"
        self.to_kafka: dict[str, Relay] = {}
        self.to_redis: dict[str, Relay] = {}
        doors = {}
        for tier in shape.processes:
            doors[tier.upper()] = processes.free_port(), processes.free_port()
            self.to_kafka[tier] = Relay(doors[tier.upper()][1], doors[tier.upper()][0])
        self.kafka = KafkaServer(folder / "kafka", processes.free_port(), processes.free_port(), doors=doors)
        self.redis = RedisServer(folder / "redis", processes.free_port())
        for tier in shape.processes:
            self.to_redis[tier] = Relay(processes.free_port(), self.redis.port)
        self.broker = self.kafka.start()
        self.checkpoints = self.redis.start()
        self._control, self._manifest = folder / "control", folder / "query.yaml"
        self._manifest.write_text(manifest_of(shape, self.name, self.kafka.bootstrap))
        self.admin = AdminClient({"bootstrap.servers": self.kafka.bootstrap, "log_level": 2})
        make_topics(self.admin, self.name)
        logs = folder / "logs"
        logs.mkdir()
        self.keeper = Keeper(self._start, logs)

    def redis_client(self) -> redis.Redis:
        return redis.Redis(port=self.redis.port, socket_timeout=20)

    def restart_broker(self) -> None:
        self.broker.kill()
        self.broker.wait()
        self.broker = self.kafka.start()

    def restart_redis(self) -> None:
        self.checkpoints.kill()
        self.checkpoints.wait()
        self.checkpoints = self.redis.start()

    def topics(self, beginning: str) -> list[TopicPartition]:
        return partitions_of(self.admin, f"{self.name}{beginning}")

    def delete_records(self, places: list[TopicPartition]) -> None:
        """All that these partitions hold now."""
        ends = self.admin.list_offsets({place: OffsetSpec.latest() for place in places})
        cut = [TopicPartition(place.topic, place.partition, ends[place].result(30).offset) for place in places]
        for future in self.admin.delete_records(cut).values():
            future.result(30)

    def stop(self) -> dict[str, int]:
        """The tiers as a person stops them."""
        return self.keeper.stop((self._control / "stop").touch)

    def close(self) -> None:
        for relay in (*self.to_kafka.values(), *self.to_redis.values()):
            relay.close()
        for server in (self.broker, self.checkpoints):
            server.send_signal(signal.SIGCONT)
            server.kill()
            server.wait()

    def _start(self, tier: str, log: Path) -> subprocess.Popen[bytes]:
        environment = {
            **os.environ,
            "BICLIQUE_KAFKA": f"127.0.0.1:{self.to_kafka[tier].port}",
            "BICLIQUE_REDIS": f"redis://127.0.0.1:{self.to_redis[tier].port}/0",
            "BICLIQUE_CONTROL": str(self._control),
            "BICLIQUE_JARS": str(jars_of(CONNECTOR)),
        }
        with log.open("ab") as output:
            return subprocess.Popen(
                [BICLIQUE, "tier", *self.shape.processes[tier], self._manifest],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
