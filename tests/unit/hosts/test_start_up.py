"""What a tier compares and asks before it begins, and what it says then."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from biclique.cli.tier import brokers_of
from biclique.hosts.units import start_up
from biclique.hosts.units.spec import Surroundings
from biclique.hosts.units.start_up import look_at_store, note_what_begins, refuse_what_state_cannot_follow
from biclique.plan.table import first_table
from biclique.ports.control_folder import ControlFolder
from biclique.ports.refusals import Refused
from biclique.query.compile import compile_manifest
from biclique.query.errors import QueryError
from infra import processes
from infra.redis_server import RedisServer
from tests.unit.tiers.building import plan

ONE = plan("SELECT r.v AS v FROM r JOIN s ON r.k = s.k")
OTHER = plan("SELECT r.v AS v FROM r JOIN s ON r.k <= s.k")
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
        note_what_begins(tried, control, "cluster")
        refuse_what_state_cannot_follow(tried, control, "cluster")
    control.publish(first_table(ONE))
    for tried in (ONE, OTHER):
        note_what_begins(tried, control, "cluster")
    refuse_what_state_cannot_follow(ONE, control, "cluster")
    with pytest.raises(Refused, match=r"spec\.sql: .*restore it, or give the query a new name"):
        refuse_what_state_cannot_follow(OTHER, control, "cluster")
    with pytest.raises(Refused, match=r"bootstrapServers: it was `cluster` when .* is `another` now"):
        refuse_what_state_cannot_follow(ONE, control, "another")


def test_a_redis_that_may_evict_is_refused_whether_the_query_has_begun_or_not(tmp_path: Path) -> None:
    server = RedisServer(tmp_path / "redis", processes.free_port(), policy="allkeys-lru")
    process = server.start()
    try:
        for has_begun in (False, True):
            with pytest.raises(Refused, match=f"Redis at 127.0.0.1:{server.port}: .* allkeys-lru.* set it to noevict"):
                look_at_store(around(server.url), ONE.query, has_begun, never)
    finally:
        processes.stop(process)


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


MANIFEST = """
apiVersion: biclique.dev/v1alpha1
kind: JoinQuery
metadata: {name: q}
spec:
  sources:
    - {name: r, schema: "k INT", kafka: {bootstrapServers: "127.0.0.1:1", topic: r, format: json}}
    - {name: s, schema: "k INT", kafka: {bootstrapServers: "127.0.0.1:1", topic: s, format: json}}
  sql: SELECT r.k FROM r JOIN s ON r.k = s.k
  output: {kafka: {bootstrapServers: "127.0.0.1:1", topic: out, format: json, secretRef: {name: kafka-user}}}
"""


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({}, "biclique: BICLIQUE_REDIS: this setting is missing in the environment; set it: redis://host:6379/0, or"),
        ({"BICLIQUE_REDIS": "redis://:hush@h/0"}, "biclique: BICLIQUE_REDIS: a password stands in it; put it into a S"),
        ({"BICLIQUE_REDIS": "redis://h/0"}, "biclique: BICLIQUE_SECRETS: a secretRef names kafka-user, and this sett"),
        ({"BICLIQUE_REDIS": "redis://h/0", "BICLIQUE_SECRETS": "{}"}, "biclique: Secret kafka-user: there is none at "),
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


def test_topics_of_one_cluster_are_found() -> None:
    assert brokers_of(compile_manifest(MANIFEST)) == "127.0.0.1:1"
