"""The progress of those who read what a unit sends, over a real Kafka."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from dataclasses import replace
from itertools import count

from biclique.hosts.shuffle.backlog import Backlog
from biclique.plan.table import first_table
from biclique.ports.kafka_log import KafkaLog, KafkaSettings
from biclique.ports.kafka_receivers import Receivers
from biclique.ports.kafka_topics import ensure_topics, topics_of
from biclique.ports.wire import Wire
from biclique.tiers.dispatcher import dispatcher_producer
from biclique.tiers.effects import Commit, Outcome
from biclique.tiers.inbox import joiner_producer
from biclique.tiers.messages import Address, Heartbeat, Topic
from biclique.tiers.progress import DispatcherProgress, JoinerProgress
from infra.kafka_server import KafkaServer
from tests.unit.tiers.building import plan


def eventually(look: Callable[[], object], wanted: object) -> None:
    deadline = time.monotonic() + 30
    while (found := look()) != wanted:
        assert time.monotonic() < deadline, found
        time.sleep(0.05)


def test_the_newest_committed_progress_of_each_is_seen_and_nothing_of_what_was_not_committed(
    kafka_server: KafkaServer,
) -> None:
    made = plan("SELECT r.k FROM r JOIN s ON r.k = s.k")
    settings = KafkaSettings({"bootstrap.servers": kafka_server.bootstrap}, f"q{uuid.uuid4().hex[:8]}")
    ensure_topics(dict(settings.client), topics_of(made, settings.prefix, 2), 1)
    log = KafkaLog(settings, Wire(made))
    client, owners = log.client(), [joiner_producer(unit) for unit in first_table(made).units()]
    one, other = owners
    ticks = count()
    receivers = Receivers(settings, lambda: float(next(ticks)))
    for frontier in range(40):
        client.fence(one) if not frontier else None
        assert client.commit(Commit(one, one, (), JoinerProgress(0, frontier))) is Outcome.COMMITTED
    eventually(lambda: receivers.progress(owners), [JoinerProgress(0, 39), None])
    client.fence(other)
    assert client.commit(Commit(other, other, (), JoinerProgress(0, 7))) is Outcome.COMMITTED
    assert client.commit(Commit(one, one, (), JoinerProgress(0, 41))) is Outcome.COMMITTED
    eventually(lambda: receivers.progress(owners), [JoinerProgress(0, 41), JoinerProgress(0, 7)])
    assert receivers.progress([other]) == [JoinerProgress(0, 7)]
    eventually(lambda: receivers.progress(owners), [JoinerProgress(0, 41), JoinerProgress(0, 7)])
    receivers.close()
    client.close()


def test_without_a_broker_nothing_is_known_and_nobody_waits() -> None:
    settings = KafkaSettings({"bootstrap.servers": "127.0.0.1:1"}, "q")
    made = plan("SELECT r.k FROM r JOIN s ON r.k = s.k")
    owners = [joiner_producer(unit) for unit in first_table(made).units()]
    receivers, began = Receivers(settings, time.monotonic), time.monotonic()
    for _ in range(100):
        assert receivers.progress(owners) == [None, None]
    assert time.monotonic() - began < 20
    receivers.close()


def test_the_backlog_is_what_the_slowest_dispatcher_has_not_taken(kafka_server: KafkaServer) -> None:
    made = replace(plan("SELECT r.k FROM r JOIN s ON r.k = s.k"), dispatchers=2)
    settings = KafkaSettings({"bootstrap.servers": kafka_server.bootstrap}, f"q{uuid.uuid4().hex[:8]}")
    ensure_topics(dict(settings.client), topics_of(made, settings.prefix, 2), 1)
    log, ticks = KafkaLog(settings, Wire(made)), count()
    client, backlog = log.client(), Backlog(made, log, lambda: float(next(ticks)))
    for number, messages in enumerate((3, 9)):
        log.append(Address(Topic.SHUFFLED, number), [Heartbeat(0, 0, n, n, 1) for n in range(messages)])
    assert backlog() == 0, "nothing is known of them"
    for number, taken in enumerate((0, 4)):
        me = dispatcher_producer(number)
        client.fence(me)
        assert client.commit(Commit(me, me, (), DispatcherProgress(offset=taken))) is Outcome.COMMITTED
    eventually(backlog, 5)
    backlog.close()
    client.close()
