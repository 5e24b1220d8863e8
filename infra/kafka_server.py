"""A real single-node Kafka (KRaft): what tests and a person at a terminal run against.

Everything of one server is in one folder, its ports are its own, and nothing else on the machine changes; so several
may run side by side. Small numbers of internal partitions make it start and elect in a few seconds.
"""

from __future__ import annotations

import base64
import subprocess
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from infra import processes
from infra.certificates import write_private
from infra.jars import BROKER, jars_of
from infra.security import USER, Security

LOG4J = """\
status = error
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d %p %c{1}: %m%n
rootLogger.level = warn
rootLogger.appenderRef.console.ref = console
"""


def cluster_id(unique: uuid.UUID) -> str:
    """As Kafka makes its own: never with a leading dash, which its command line takes for an option."""
    encoded = base64.urlsafe_b64encode(unique.bytes).decode().rstrip("=")
    return f"A{encoded[1:]}" if encoded.startswith("-") else encoded


@dataclass(frozen=True)
class KafkaServer:
    """`advertised`: the address under which clients reach it; the test cluster's pods come over the bridge's. `doors`:
    by name in capitals, more listeners of this machine, each with the port that it has and the one that its clients are
    told: a relay's, which can be cut. `security`: TLS and passwords for its clients; without it, anybody comes in.
    `makes_topics`: those that are missing, as brokers do that nobody has set up otherwise."""

    folder: Path
    port: int
    controller_port: int
    advertised: str = "127.0.0.1"
    heap: str = "768m"
    doors: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    security: Security | None = None
    makes_topics: bool = False

    @property
    def bootstrap(self) -> str:
        return f"{self.advertised}:{self.port}"

    @property
    def client(self) -> dict[str, str]:
        """librdkafka's settings for one of its users."""
        return {"bootstrap.servers": self.bootstrap, **(self.security.kafka_client() if self.security else {})}

    @property
    def admin(self) -> dict[str, str]:
        """And for whoever may do anything."""
        return {
            "bootstrap.servers": self.bootstrap,
            **(self.security.kafka_client(admin=True) if self.security else {}),
        }

    def start(self) -> subprocess.Popen[bytes]:
        """Data of an earlier start in the same folder are kept."""
        self.folder.mkdir(parents=True, exist_ok=True)
        if self.security is not None:
            self.security.make()
        settings = self.folder / "server.properties"
        lines = "".join(f"{key}={value}\n" for key, value in self._settings().items())
        write_private(settings, lines.encode())
        log4j = self.folder / "log4j2.properties"
        log4j.write_text(LOG4J)
        java = ["java", f"-Xmx{self.heap}", "-XX:+UseSerialGC", f"-Dlog4j2.configurationFile={log4j}"]
        java += ["-cp", f"{jars_of(BROKER)}/*"]
        if not (self.folder / "data" / "meta.properties").exists():
            format_data = ["kafka.tools.StorageTool", "format", "-c", str(settings), "-t", cluster_id(uuid.uuid4())]
            done = subprocess.run([*java, *format_data], capture_output=True, text=True, timeout=120)
            if done.returncode:
                raise processes.DidNotStart(f"Kafka's storage could not be formatted:\n{done.stdout}{done.stderr}")
        process = processes.start([*java, "kafka.Kafka", str(settings)], self.folder, self.answers)
        if self.security is not None:
            try:
                self._add_scram_user(self.security)
            except KafkaException:
                processes.stop(process)
                raise
        return process

    def answers(self) -> bool:
        try:
            here = {**self.admin, "bootstrap.servers": f"127.0.0.1:{self.port}", "log_level": 0}
            AdminClient(here).list_topics(timeout=1)
        except KafkaException:
            return False
        return True

    def _add_scram_user(self, security: Security) -> None:
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        user = UserScramCredentialUpsertion(USER, info, security.kafka_password().encode())
        admin = AdminClient(dict(self.admin))  # the answer is lost with it
        admin.alter_user_scram_credentials([user])[USER].result(30)

    def _settings(self) -> dict[str, object]:
        here = "127.0.0.1" if self.advertised == "127.0.0.1" else "0.0.0.0"  # pods come over the bridge
        listeners = [f"CLIENTS://{here}:{self.port}", f"CONTROLLER://127.0.0.1:{self.controller_port}"]
        advertised = [f"CLIENTS://{self.advertised}:{self.port}"]
        for name, (port, told) in self.doors.items():
            listeners.append(f"{name}://127.0.0.1:{port}")
            advertised.append(f"{name}://127.0.0.1:{told}")
        security = {} if self.security is None else self.security.kafka_listener("CLIENTS")
        return {
            **security,
            "process.roles": "broker,controller",
            "node.id": 1,
            "controller.quorum.voters": f"1@127.0.0.1:{self.controller_port}",
            "listeners": ",".join(listeners),
            "advertised.listeners": ",".join(advertised),
            "listener.security.protocol.map": ",".join(map(self._protocol, listeners)),
            "inter.broker.listener.name": "CLIENTS",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": self.folder / "data",
            "auto.create.topics.enable": str(self.makes_topics).lower(),
            "offsets.topic.num.partitions": 4,
            "offsets.topic.replication.factor": 1,
            "transaction.state.log.num.partitions": 4,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            "group.initial.rebalance.delay.ms": 0,
        }

    def _protocol(self, listener: str) -> str:
        name = listener.split(":")[0]
        return f"{name}:{'SASL_SSL' if self.security and name == 'CLIENTS' else 'PLAINTEXT'}"
