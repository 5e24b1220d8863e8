"""What a tier compares and asks before it begins, and what it says then."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from biclique.cli.main import cli
from biclique.cli.tier import brokers_of
from biclique.hosts.units import start_up
from biclique.hosts.units.founding import publish_first
from biclique.hosts.units.spec import Surroundings
from biclique.hosts.units.start_up import look_at_store, note_what_begins, refuse_what_state_cannot_follow
from biclique.plan.model import Plan
from biclique.plan.table import first_table
from biclique.ports.control_folder import ControlFolder
from biclique.ports.refusals import Refused, UnfitTopic
from biclique.query.compile import compile_manifest
from biclique.query.errors import QueryError
from infra import processes
from infra.redis_server import RedisServer
from tests.unit.tiers.building import plan
from tests.unit.tiers.on_topics import on_topics

ONE = plan("SELECT r.v AS v FROM r JOIN s ON r.k = s.k")
OTHER = plan("SELECT r.v AS v FROM r JOIN s ON r.k <= s.k")
TOPICS = {"r": "1", "s": "2"}
BICLIQUE = Path(sys.executable).with_name("biclique")


def never() -> bool:
    return False


def around(url: str, secrets: str = "", secret: str | None = None) -> Surroundings:
    return Surroundings({}, url, "", "q", secrets=secrets, redis_secret=secret)


def test_until_there_is_a_table_any_manifest_may_begin_and_then_only_one_that_the_state_can_follow(
    tmp_path: Path,
) -> None:
    control = ControlFolder(tmp_path)
    for tried in (OTHER, ONE):
        note_what_begins(tried, control, "cluster", TOPICS)
        refuse_what_state_cannot_follow(tried, control, "cluster", TOPICS)
    control.publish(first_table(ONE))
    for tried in (ONE, OTHER):
        note_what_begins(tried, control, "cluster", TOPICS)
    refuse_what_state_cannot_follow(ONE, control, "cluster", TOPICS)
    with pytest.raises(Refused, match=r"spec\.sql: .*restore it, or give the query a new name"):
        refuse_what_state_cannot_follow(OTHER, control, "cluster", TOPICS)
    with pytest.raises(Refused, match=r"bootstrapServers: it was `cluster` when .* is `another` now"):
        refuse_what_state_cannot_follow(ONE, control, "another", TOPICS)


@pytest.mark.parametrize("quicker", [ONE, OTHER], ids=["the first to note", "the last to note"])
def test_of_two_manifests_that_begin_at_once_with_the_same_units_the_one_that_is_noted_goes_on(
    quicker: Plan, tmp_path: Path
) -> None:
    """Each has found its own note when it looked, and either may be the first to publish what is the same table."""
    control = ControlFolder(tmp_path)
    for each in (ONE, OTHER):
        note_what_begins(each, control, "cluster", TOPICS)
        refuse_what_state_cannot_follow(each, control, "cluster", TOPICS)
    slower = OTHER if quicker is ONE else ONE
    for each in (quicker, slower):
        publish_first(control, first_table(each), "q")
    note_what_begins(ONE, control, "cluster", TOPICS)
    refuse_what_state_cannot_follow(OTHER, control, "cluster", TOPICS)
    with pytest.raises(Refused, match=r"spec\.sql: .*restore it, or give the query a new name"):
        refuse_what_state_cannot_follow(ONE, control, "cluster", TOPICS)


def test_a_source_that_was_made_anew_is_refused_however_much_it_holds(tmp_path: Path) -> None:
    """Filled beyond the place of the one before, its first records would never have been read."""
    control = ControlFolder(tmp_path)
    note_what_begins(ONE, control, "cluster", {"r": "0", "s": "2"})
    note_what_begins(ONE, control, "cluster", TOPICS)  # nothing had begun
    control.publish(first_table(ONE))
    refuse_what_state_cannot_follow(ONE, control, "cluster", {})  # of a tier that reads no source
    refuse_what_state_cannot_follow(ONE, control, "cluster", {**TOPICS, "t": "3"})
    with pytest.raises(UnfitTopic, match="topic s was deleted and made anew since the query began: begin the query an"):
        refuse_what_state_cannot_follow(ONE, control, "cluster", {"r": "1", "s": "9"})


@pytest.mark.usefixtures("redis_program")
def test_a_redis_that_may_evict_is_refused_whether_the_query_has_begun_or_not(tmp_path: Path) -> None:
    server = RedisServer(tmp_path / "redis", processes.free_port(), policy="allkeys-lru")
    process = server.start()
    try:
        for has_begun in (False, True):
            with pytest.raises(Refused, match=f"Redis at 127.0.0.1:{server.port}: .* allkeys-lru.* set it to noevict"):
                look_at_store(around(server.url), ONE.query, has_begun, never)
    finally:
        processes.stop(process)


@pytest.mark.usefixtures("redis_program")
def test_a_wrong_password_stops_a_query_that_has_not_begun_and_warns_one_that_has(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server = RedisServer(tmp_path / "redis", processes.free_port(), password="right")
    process = server.start()
    (tmp_path / "secrets" / "redis").mkdir(parents=True)
    (tmp_path / "secrets" / "redis" / "password").write_text("hush")
    asked = around(server.url, str(tmp_path / "secrets"), "redis")
    try:
        with pytest.raises(
            Refused, match="it refuses the user name or the password; correct its Secret or its secretRef"
        ) as refusal:
            look_at_store(asked, ONE.query, False, never)
        with caplog.at_level(logging.WARNING):
            look_at_store(asked, ONE.query, True, never)
    finally:
        processes.stop(process)
    (said,) = [record.getMessage() for record in caplog.records]
    assert "units work on without checkpoints until it is corrected" in said
    assert "hush" not in said + str(refusal.value)


def test_a_redis_that_does_not_answer_is_waited_for_a_little(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(start_up, "STORE_PATIENCE_S", 0.2)
    monkeypatch.setattr(start_up, "STORE_PAUSE_S", 0.1)
    with caplog.at_level(logging.WARNING):
        look_at_store(around(f"redis://127.0.0.1:{processes.free_port()}/0"), ONE.query, False, never)
    (said,) = [record.getMessage() for record in caplog.records]
    assert "units work on without checkpoints" in said


MANIFEST = on_topics(brokers="127.0.0.1:1", out="topic: out, format: json, secretRef: {name: kafka-user}")


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({}, "biclique: BICLIQUE_REDIS: this setting is missing in the environment; set it: redis://host:6379/0, or"),
        ({"BICLIQUE_REDIS": "redis://:hush@h/0"}, "biclique: BICLIQUE_REDIS: a password stands in it; put it into a S"),
        ({"BICLIQUE_REDIS": "redis://h/0"}, "biclique: BICLIQUE_SECRETS: a secretRef names kafka-user, and this sett"),
        ({"BICLIQUE_REDIS": "redis://h/0", "BICLIQUE_SECRETS": "{}"}, "biclique: Secret kafka-user: there is none at "),
        (
            {"BICLIQUE_REDIS": "redis://h/0", "BICLIQUE_PREFIX": "a b"},
            "biclique: BICLIQUE_PREFIX: no topic may be called",
        ),
    ],
)
def test_what_is_missing_in_the_surroundings_is_one_sentence(
    environment: dict[str, str], said: str, tmp_path: Path
) -> None:
    (tmp_path / "q.yaml").write_text(MANIFEST)
    given = {name: value.replace("{}", str(tmp_path)) for name, value in environment.items()}
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("BICLIQUE_")}
    done = subprocess.run(
        [BICLIQUE, "tier", "dispatcher", tmp_path / "q.yaml"],
        env={**inherited, "BICLIQUE_CONTROL": str(tmp_path / "control"), **given},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith(said)
    assert "hush" not in line


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('127.0.0.1:1", topic: out', 'other:1", topic: out', "bootstrapServers differ: 127.0.0.1:1 and other:1; read"),
        (
            'kafka: {bootstrapServers: "127.0.0.1:1", topic: s, format: json}',
            "files: {path: s}",
            "sources and output a",
        ),
    ],
)
def test_topics_of_one_cluster_are_asked_for(old: str, new: str, said: str) -> None:
    assert old in MANIFEST
    with pytest.raises(QueryError, match=f"spec: {said}"):
        brokers_of(compile_manifest(MANIFEST.replace(old, new)))


@pytest.fixture
def own_signals() -> Iterator[None]:
    """A command takes Ctrl-C for itself; here it is the tests'."""
    before = [(name, signal.getsignal(name)) for name in (signal.SIGINT, signal.SIGTERM)]
    yield
    for name, handler in before:
        signal.signal(name, handler)


@pytest.mark.usefixtures("own_signals")
@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (["joiner", "--subgroup", "0L7"], "--subgroup: 0L7 is none of this query's; choose one of 0L0, 0R0"),
        (["joiner", "--subgroup", "²L0"], "--subgroup: ²L0 is no subgroup; write stage, side and number, as 0L0"),
        (["dispatcher", "--subgroup", "0L0"], "--subgroup: a dispatcher has no subgroups; leave it away"),
        (["merger"], "merger: this query merges nothing; start one for GROUP BY and DISTINCT alone"),
        (["shuffler"], "BICLIQUE_JARS: there is no Kafka connector of Spark's in "),
    ],
)
def test_a_tier_without_anything_to_run_is_one_sentence(
    asked: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark would have been started for no task at all, and said so in Java."""
    (tmp_path / "q.yaml").write_text(MANIFEST.replace(", secretRef: {name: kafka-user}", ""))
    monkeypatch.setenv("BICLIQUE_REDIS", "redis://h/0")
    monkeypatch.setenv("BICLIQUE_CONTROL", str(tmp_path / "control"))
    monkeypatch.setenv("BICLIQUE_JARS", str(tmp_path))
    found = CliRunner().invoke(cli, ["tier", asked[0], str(tmp_path / "q.yaml"), *asked[1:]])
    assert found.exit_code == 2, found.output
    (line,) = found.stderr.splitlines()
    assert line.startswith(f"biclique: {said}")
    assert not (tmp_path / "control").exists()


def test_topics_of_one_cluster_are_found() -> None:
    assert brokers_of(compile_manifest(MANIFEST)) == "127.0.0.1:1"
