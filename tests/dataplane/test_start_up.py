"""What a tier says at its start when Kafka refuses it or is not there: one sentence, no secret, its own exit code."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from infra import processes
from infra.certificates import make_certificates
from infra.kafka_server import KafkaServer
from infra.redis_server import RedisServer
from tests.dataplane.query import BICLIQUE, MANIFEST, KafkaQuery

pytestmark = pytest.mark.slow
REFUSED = 5


def command(folder: Path, brokers: str, secrets: Mapping[str, str]) -> tuple[list[str], dict[str, str]]:
    """Of a tier that needs neither Java nor Redis to come so far."""
    template = MANIFEST.replace("-out, format: json", "-out, format: json, secretRef: {{name: kafka}}")
    text = template.format(name="q", brokers=brokers, predicate="r.k = s.k", subgroups=1)
    (folder / "query.yaml").write_text(text)
    (folder / "secrets" / "kafka").mkdir(parents=True)
    for key, value in secrets.items():
        (folder / "secrets" / "kafka" / key).write_text(value)
    settings = {
        "BICLIQUE_REDIS": "redis://127.0.0.1:1/0",
        "BICLIQUE_CONTROL": str(folder / "control"),
        "BICLIQUE_SECRETS": str(folder / "secrets"),
    }
    return [str(BICLIQUE), "tier", "dispatcher", str(folder / "query.yaml")], {**os.environ, **settings}


def secrets_of(server: KafkaServer) -> dict[str, str]:
    assert server.security is not None
    return {path.name: path.read_text() for path in (server.security.secrets / "kafka").iterdir()}


@pytest.mark.parametrize("what", ["the password", "the user", "the authority"])
def test_what_kafka_refuses_is_one_sentence_and_a_stop(
    secure_kafka_server: KafkaServer, tmp_path: Path, what: str
) -> None:
    secrets = secrets_of(secure_kafka_server)
    match what:
        case "the password":
            secrets["sasl.password"] = "hush-hush"
        case "the user":
            secrets["sasl.username"] = "nobody"
        case _:
            make_certificates(tmp_path / "other", ())
            secrets["ca.crt"] = (tmp_path / "other" / "ca.crt").read_text()
    words, environment = command(tmp_path, secure_kafka_server.bootstrap, secrets)
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == REFUSED, done.stderr
    (said,) = done.stderr.splitlines()
    line = json.loads(said)["message"]
    assert line.startswith(f"Kafka at {secure_kafka_server.bootstrap} refuses us (")
    assert line.endswith("in bootstrapServers" if what == "the authority" else "in its Secret")
    assert secrets["sasl.password"] not in done.stderr + done.stdout
    assert not (tmp_path / "control" / "began.json").exists(), "nothing has begun"


def test_a_kafka_that_does_not_answer_is_waited_for_and_the_wait_is_said(tmp_path: Path) -> None:
    port = processes.free_port()
    secrets = {"sasl.password": "hush-hush", "security.protocol": "SASL_PLAINTEXT"}
    words, environment = command(tmp_path, f"127.0.0.1:{port}", secrets)
    with (tmp_path / "said").open("wb") as said:
        process = subprocess.Popen(words, env=environment, stdin=subprocess.DEVNULL, stdout=said, stderr=said)
    try:
        deadline = time.monotonic() + 90
        while b"waited" not in (tmp_path / "said").read_bytes() and time.monotonic() < deadline:
            time.sleep(0.2)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()
    line = json.loads((tmp_path / "said").read_text().splitlines()[0])["message"]
    assert line.startswith(f"Kafka at 127.0.0.1:{port} does not answer (")
    assert line.endswith(" s, and trying again for as long as it takes")
    assert "hush-hush" not in line


@pytest.mark.long
@pytest.mark.parametrize(
    ("missing", "sentence"),
    [
        ("r", "looking for the topic {}-r, which a source reads: the topic or partition does not exist; create it, or"),
        ("out", "output topic {}-out does not exist: create it, or set topics.createOutput"),
    ],
)
def test_a_missing_topic_is_one_sentence_and_once_it_is_there_the_query_begins(
    kafka_server: KafkaServer, redis_server: RedisServer, tmp_path: Path, missing: str, sentence: str
) -> None:
    query = KafkaQuery(kafka_server, redis_server, tmp_path)
    admin, topic = AdminClient(query.client), f"{query.name}-{missing}"
    admin.delete_topics([topic])[topic].result(30)
    query.start("dispatcher")
    assert query.exit_of("dispatcher", 90) == REFUSED
    (said,) = query.log_of("dispatcher").splitlines()
    assert json.loads(said)["message"].startswith(sentence.format(query.name))
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)
    query.start("dispatcher")
    try:
        query.founded(60)
    finally:
        query.kill("dispatcher")
