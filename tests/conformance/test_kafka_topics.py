"""Topics that would not do are refused before anything runs, each with one sentence that names it and the remedy."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from biclique.hosts.units.founding import found
from biclique.plan.make import make_plan
from biclique.ports.control_folder import ControlFolder
from biclique.ports.kafka_log import KafkaLog, KafkaSettings
from biclique.ports.kafka_sources import SourceTopics
from biclique.ports.kafka_topics import ensure_topics, refuse_unfit, refuse_unfit_output, topics_of, written
from biclique.ports.refusals import UnfitTopic
from biclique.ports.wire import Wire
from biclique.query.compile import compile_manifest
from biclique.query.model import Query
from biclique.tiers.progress import SourcePartition
from infra.kafka_server import KafkaServer
from tests.conformance.test_kafka_log import Kafka
from tests.unit.tiers.on_topics import JOIN, on_topics


def query(topic: str, shape: str = "json", create: str = "false") -> Query:
    more = f"topics: {{partitions: 3, createOutput: {create}}}"
    return compile_manifest(on_topics(JOIN, more, out=f"topic: {topic}, format: {shape}"))


@pytest.fixture
def kafka(kafka_server: KafkaServer) -> Iterator[Kafka]:
    made = Kafka(kafka_server)
    yield made
    made.remove()


def wanted(kafka: Kafka) -> dict[str, tuple[int, dict[str, str]]]:
    return topics_of(make_plan(query("out")), kafka.prefix, 2)


def test_what_is_made_is_fit_and_made_once(kafka: Kafka) -> None:
    for _ in range(2):
        ensure_topics(dict(kafka.client), wanted(kafka), 1)
    refuse_unfit(dict(kafka.client), wanted(kafka))


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (
            {"cleanup_policy": "compact"},
            r"topic .*signals has cleanup.policy=compact, and delete is needed: set",
        ),
        ({"retention_ms": "1000"}, r"topic .*signals has retention.ms=1000, and -1 is needed"),
        (
            {"retention_ms": "-1", "max_message_bytes": "1000"},
            r"has max.message.bytes=1000, and 8388608 is needed",
        ),
        ({"unclean_leader_election_enable": "true"}, r"signals has unclean.leader.election.enable=true, and false is"),
    ],
)
def test_a_topic_that_would_lose_records_is_refused(kafka: Kafka, settings: dict[str, str], sentence: str) -> None:
    kafka.topic("signals", **settings)
    with pytest.raises(UnfitTopic, match=sentence):
        ensure_topics(dict(kafka.client), wanted(kafka), 1)


def test_a_person_may_bound_late_and_dead_records(kafka: Kafka) -> None:
    """No tier reads them, and they grow for as long as the query runs."""
    kept = {key.replace(".", "_"): value for key, value in wanted(kafka)[f"{kafka.prefix}.dead"][1].items()}
    for name in ("late", "dead"):
        kafka.topic(name, partitions=3, **{**kept, "retention_ms": "86400000", "retention_bytes": "1000000"})
    ensure_topics(dict(kafka.client), wanted(kafka), 1)


def test_too_few_partitions_are_another_querys(kafka: Kafka) -> None:
    kafka.topic(
        "shuffled",
        **{key.replace(".", "_"): value for key, value in wanted(kafka)[f"{kafka.prefix}.shuffled"][1].items()},
    )
    with pytest.raises(UnfitTopic, match=r"shuffled has 1 partitions, and 3 are needed: another query has made it"):
        ensure_topics(dict(kafka.client), wanted(kafka), 1)


def test_more_copies_than_brokers_are_refused(kafka: Kafka) -> None:
    with pytest.raises(UnfitTopic, match=r"cannot have that many copies .* choose topics.replication"):
        ensure_topics(dict(kafka.client), wanted(kafka), 3)


def test_a_topic_that_a_broker_does_not_make_is_named_with_its_reason(kafka: Kafka) -> None:
    with pytest.raises(UnfitTopic, match=r"topic .*odd cannot be made \(.*cleanup.policy.*\): mend what is said there"):
        ensure_topics(dict(kafka.client), {f"{kafka.prefix}.odd": (1, {"cleanup.policy": "nonsense"})}, 1)


def test_where_nobody_says_how_many_copies_there_are_as_many_as_brokers(kafka: Kafka) -> None:
    assert query("out").replication is None
    ensure_topics(dict(kafka.client), wanted(kafka), None)
    refuse_unfit(dict(kafka.client), wanted(kafka))


def test_of_three_copies_two_are_written_before_anything_counts() -> None:
    assert [written(copies) for copies in (1, 2, 3, 5)] == [{}, {}, *[{"min.insync.replicas": "2"}] * 2]


def test_the_manifest_says_how_many_copies_the_tiers_ask_for(kafka: Kafka, tmp_path: Path) -> None:
    """It was read, and used nowhere: every topic had one copy."""
    told = query(kafka.topic("out"), create="false, replication: 2")
    log = KafkaLog(KafkaSettings(kafka.client, kafka.prefix), Wire(make_plan(told)))
    topics = SourceTopics(told, dict.fromkeys(range(2), kafka.client))
    with pytest.raises(UnfitTopic, match=r"cannot have that many copies .* choose topics.replication"):
        found(make_plan(told), log, ControlFolder(tmp_path), topics, 2)


def test_one_of_ours_that_is_gone_is_named(kafka: Kafka, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("biclique.ports.kafka_topics.SECONDS", 2.0)
    with pytest.raises(UnfitTopic, match=r"topic log-\w+\.shuffled: the topic or partition does not exist"):
        refuse_unfit(dict(kafka.client), wanted(kafka))


def test_the_output_topic_is_there_or_wanted(kafka: Kafka) -> None:
    topic, client = f"{kafka.prefix}.out", dict(kafka.client)
    with pytest.raises(UnfitTopic, match=rf"output topic {topic} does not exist: create it, or set topics"):
        refuse_unfit_output(client, query(topic))
    for _ in range(2):
        refuse_unfit_output(client, query(topic, create="true"))
    refuse_unfit_output(client, query(topic, "arrow"))


def test_a_compacted_output_takes_rows_with_keys_only(kafka: Kafka) -> None:
    topic = kafka.topic("out", cleanup_policy="compact")
    refuse_unfit_output(dict(kafka.client), query(topic))
    with pytest.raises(UnfitTopic, match=r"out has cleanup.policy=compact, .* choose format json, or"):
        refuse_unfit_output(dict(kafka.client), query(topic, "arrow"))


def test_a_source_that_is_compacted_is_known(kafka: Kafka) -> None:
    names = kafka.topic("r", cleanup_policy="compact,delete"), kafka.topic("s")
    both = compile_manifest(on_topics(topics=names))
    assert SourceTopics(both, {0: kafka.client, 1: kafka.client}).compacted() == names[:1]


def test_a_source_in_which_a_transaction_is_open_is_known(kafka: Kafka) -> None:
    names = kafka.topic("r"), kafka.topic("s")
    both = SourceTopics(compile_manifest(on_topics(topics=names)), {0: kafka.client, 1: kafka.client})
    r, s = SourcePartition(0, 0), SourcePartition(1, 0)
    producer = Producer({**kafka.client, "transactional.id": names[0]})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(names[0], b"undecided")
    assert producer.flush(30) == 0
    ends = both.ends([r, s])
    assert ends == {r: 0, s: 0} and both.undecided(ends) == {r}
    producer.commit_transaction(30)
    deadline = time.monotonic() + 30
    while both.undecided(ends := both.ends([r, s])):  # until its marker is there
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert ends == {r: 2, s: 0}


def test_a_clock_that_is_ahead_keeps_nobody_from_writing_progress(kafka: Kafka) -> None:
    ensure_topics(dict(kafka.client), wanted(kafka), 1)
    failed: list[object] = []
    producer = Producer({**kafka.client, "on_delivery": lambda error, _: failed.append(error)})
    ahead_ms = 1000 * (round(time.time()) + 86_400)
    producer.produce(f"{kafka.prefix}.shuffled.progress", b"{}", b"dispatcher 0", partition=0, timestamp=ahead_ms)
    assert producer.flush(30) == 0
    assert failed == [None]
