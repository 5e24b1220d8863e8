"""Rights that a broker denies: one sentence of who lacks what, and what was refused is not taken for done."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from biclique.hosts.units.connections import kafka_settings, source_topics
from biclique.hosts.units.founding import found
from biclique.hosts.units.spec import Surroundings
from biclique.plan.make import make_plan
from biclique.ports.control_folder import ControlFolder
from biclique.ports.kafka_input import TopicInput
from biclique.ports.kafka_log import KafkaLog
from biclique.ports.outlets import Outlets
from biclique.ports.refusals import Refused
from biclique.ports.wire import Wire
from biclique.query.compile import compile_manifest
from biclique.tiers.dispatcher import dispatcher_producer
from biclique.tiers.effects import Commit
from biclique.tiers.messages import Address, Signal, Topic
from biclique.tiers.progress import DispatcherProgress
from infra.kafka_server import KafkaServer
from infra.security import USER
from tests.conformance.test_secure_kafka import MANIFEST, surroundings

WHO, EVERYWHERE = f"User:{USER}", "*"
DISPATCHER = dispatcher_producer(0)


class Denied:
    """A query of its own on the secured broker, and what its user may not do there."""

    def __init__(self, server: KafkaServer, folder: Path) -> None:
        assert server.security is not None
        self.around: Surroundings = surroundings(server, server.security.secrets, "kafka")
        self.prefix = self.around.prefix
        manifest = MANIFEST.format(brokers=server.bootstrap, name=self.prefix, secret="kafka")
        self.plan = make_plan(compile_manifest(manifest))
        self.control, self._admin = ControlFolder(folder), AdminClient(dict(server.admin))
        self._denied: list[AclBinding] = []
        topics = [NewTopic(f"{self.prefix}-{end}", 1, 1) for end in ("r", "s", "out")]
        for future in self._admin.create_topics(topics).values():
            future.result(30)
        self.log = KafkaLog(kafka_settings(self.around), Wire(self.plan), Outlets(self.plan.query))

    def deny(self, kind: ResourceType, name: str, operation: AclOperation) -> None:
        """Nobody else's name begins with this query's. Who may create anything at all is asked before it is asked for
        a name."""
        places = [(kind, name, ResourcePatternType.PREFIXED)]
        if operation is AclOperation.CREATE:
            places.append((ResourceType.BROKER, "kafka-cluster", ResourcePatternType.LITERAL))
        for place in places:
            # Where there is a rule, what nobody has restricted is no longer open to all.
            self._denied.append(AclBinding(*place, WHO, EVERYWHERE, AclOperation.ALL, AclPermissionType.ALLOW))
            self._denied.append(AclBinding(*place, WHO, EVERYWHERE, operation, AclPermissionType.DENY))
        for future in self._admin.create_acls(self._denied).values():
            future.result(30)
        self._until(lambda known: known.issuperset(self._denied))

    def _until(self, done: Callable[[set[AclBinding]], bool]) -> None:
        """The controller has answered: the broker, which is asked here, hears of it a moment later."""
        everything = AclBindingFilter(
            ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
        )
        deadline = time.monotonic() + 30
        while not done(set(self._admin.describe_acls(everything).result(30))):
            assert time.monotonic() < deadline
            time.sleep(0.05)

    def found(self) -> None:
        found(self.plan, self.log, self.control, source_topics(self.around, self.plan.query), 2)

    def allow(self) -> None:
        filters = [
            AclBindingFilter(
                each.restype, each.name, each.resource_pattern_type, each.principal, each.host, each.operation,
                each.permission_type,
            )
            for each in self._denied
        ]  # fmt: skip
        for future in self._admin.delete_acls(filters).values() if filters else ():
            future.result(30)
        self._until(lambda known: known.isdisjoint(self._denied))
        self._denied.clear()


@pytest.fixture
def denied(secure_kafka_server: KafkaServer, tmp_path: Path) -> Iterator[Denied]:
    made = Denied(secure_kafka_server, tmp_path)
    yield made
    made.allow()


@pytest.mark.parametrize(
    ("kind", "name", "operation", "sentence"),
    [
        (
            ResourceType.TOPIC,
            "-r",
            AclOperation.DESCRIBE,
            r"Kafka does not allow looking for the topic {}-r, which a source reads \(.*\): grant this principal",
        ),
        (
            ResourceType.TOPIC,
            ".",
            AclOperation.CREATE,
            r"Kafka does not allow creating topic {}\.\S+ \(.*\): grant this principal Describe, .*Create",
        ),
        (
            ResourceType.TOPIC,
            ".",
            AclOperation.DESCRIBE_CONFIGS,
            r"Kafka does not allow looking at the settings of topic {}\.\S+ \(.*\): grant this principal Describe, ",
        ),
        (
            ResourceType.TRANSACTIONAL_ID,
            "-",
            AclOperation.WRITE,
            r"Kafka does not allow taking over from an older \w+ \S+ \(.*\): grant .* transactional ids with the quer",
        ),
        (
            ResourceType.TOPIC,
            ".",
            AclOperation.WRITE,
            r"Kafka does not allow writing to {0}-out and {0}\.\* \(.*\): grant this principal Describe, .*Write",
        ),
    ],
    ids=["see a source", "create", "look at settings", "write transactions", "write"],
)
def test_a_query_is_not_founded_by_who_may_not_do_it_all_and_then_is(
    denied: Denied, kind: ResourceType, name: str, operation: AclOperation, sentence: str
) -> None:
    denied.deny(kind, denied.prefix + name, operation)
    with pytest.raises(Refused, match=sentence.format(denied.prefix)):
        denied.found()
    assert denied.control.table(None) is None, "nothing has begun"
    denied.allow()
    denied.found()
    assert denied.control.table(None) is not None


def test_a_right_that_is_taken_away_is_a_stop_and_nothing_is_taken_for_done(denied: Denied) -> None:
    denied.found()
    client = denied.log.client()
    client.fence(DISPATCHER)
    signal = Signal(DISPATCHER, 5, 0, False, 0, 0, False)
    commit = Commit(DISPATCHER, DISPATCHER, ((Address(Topic.SIGNALS, 0), signal),), DispatcherProgress(0, 5))
    denied.deny(ResourceType.TOPIC, f"{denied.prefix}.signals", AclOperation.WRITE)
    with pytest.raises(Refused, match=r"Kafka does not allow writing to .*: grant this principal"):
        client.commit(commit)
    denied.allow()
    assert client.read_progress(DISPATCHER) == DispatcherProgress()
    client.close()


def test_a_source_that_may_not_be_read_is_named(denied: Denied) -> None:
    denied.deny(ResourceType.TOPIC, f"{denied.prefix}-r", AclOperation.READ)
    reader = TopicInput(dict(denied.log.settings.client), f"{denied.prefix}-r", {0: 0})

    def read_on() -> None:
        for _ in range(100):
            reader.read(10, 0.1)

    with pytest.raises(Refused, match=rf"Kafka does not allow reading topic {denied.prefix}-r \("):
        read_on()
    reader.close()
