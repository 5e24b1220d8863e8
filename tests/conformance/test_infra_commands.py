"""`python -m infra`, as a person has it: up, and what it says is true; up again; down, and nothing is left."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psutil
import pytest
import redis
from confluent_kafka.admin import AdminClient

from biclique.ports.kafka_security import client_settings
from biclique.ports.secrets import secret_of
from infra import processes
from infra.jars import BROKER, NoJars, jars_of
from infra.redis_server import RedisServer

pytestmark = [pytest.mark.slow, pytest.mark.long]


def test_up_and_down_with_passwords(tmp_path: Path) -> None:
    try:
        jars_of(BROKER)
    except NoJars as reason:
        pytest.skip(f"needs Kafka. {reason}")
    folder, kafka, store = tmp_path / "services", processes.free_pair(), processes.free_port()
    where = ["--secure", "--folder", str(folder), "--kafka-port", str(kafka), "--redis-port", str(store)]

    def said(*words: str) -> list[str]:
        done = subprocess.run(
            [sys.executable, "-m", "infra", *words, *where], capture_output=True, text=True, timeout=180, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    def states(lines: list[str]) -> list[str]:
        return [line[6:23].strip() for line in lines[:2]]

    assert states(said("status")) == ["down", "down"]
    try:
        *told, secrets_line = said("up")
        assert states(told) == ["up", "up"]
        secrets = secrets_line.partition("BICLIQUE_SECRETS=")[2]
        pids = [int((folder / name / "pid").read_text()) for name in ("kafka", "redis")]
        for name in ("kafka", "kafka-plain"):
            settings = {"bootstrap.servers": f"127.0.0.1:{kafka}", **client_settings(secret_of(secrets, name))}
            assert AdminClient(settings).list_topics(timeout=20).brokers
        secret = secret_of(secrets, "redis")
        user = {"username": secret.needed("username"), "password": secret.needed("password")}
        assert redis.Redis(port=store, ssl=True, ssl_ca_certs=str(secret.path("ca.crt")), **user).ping()
        assert states(said("up")) == ["up", "up"]
        assert pids == [int((folder / name / "pid").read_text()) for name in ("kafka", "redis")], "they run on"
        for place in folder.rglob("*password"):
            assert not place.stat().st_mode & 0o077, "for its owner alone"
    finally:
        assert states(said("down", "--fresh")) == ["down", "down"]
    assert not folder.exists()
    assert not any(psutil.pid_exists(pid) for pid in pids)


def test_a_port_that_somebody_else_has_is_a_sentence(tmp_path: Path, redis_server: RedisServer) -> None:
    port = redis_server.port
    where = ["--folder", str(tmp_path), "--kafka-port", str(processes.free_pair()), "--redis-port", str(port)]
    up = [sys.executable, "-m", "infra", "up", *where]
    try:
        done = subprocess.run(up, capture_output=True, text=True, timeout=180, check=False)
        assert done.returncode == 1
        assert done.stderr == f"Redis: something else answers at redis://127.0.0.1:{port}/0; choose another port\n"
    finally:
        subprocess.run([sys.executable, "-m", "infra", "down", *where], capture_output=True, timeout=180, check=True)
