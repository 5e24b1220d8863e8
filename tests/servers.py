"""The real servers behind the ports, each started once in a test process that asks for it, on ports of its own."""

from __future__ import annotations

import os
import shutil
import signal
import uuid
from collections.abc import Generator, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import yaml

from infra import processes
from infra.jars import BROKER, NoJars, jars_of
from infra.kafka_server import KafkaServer
from infra.redis_server import RedisServer
from infra.security import Security
from tests.chaos.relay import Relay


def pytest_configure() -> None:
    """A shell that starts tests in the background has them ignore Ctrl-C, and so would all that they start and want to
    stop that way."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # How long an example takes says more of the machine than of us.
    hypothesis.settings.register_profile("ours", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
    hypothesis.settings.load_profile("ours")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Where nothing may be missing, as in CI, a test that is skipped for want of it has failed."""
    report = yield
    if report.skipped and os.environ.get("BICLIQUE_SKIPS") == "fail":
        report.outcome = "failed"
        report.longrepr = f"skipped, and BICLIQUE_SKIPS is fail: {report.longreprtext}"
    return report


@pytest.fixture(scope="session")
def redis_program() -> None:
    """Of whoever starts a Redis of its own."""
    if shutil.which("redis-server") is None:
        pytest.skip("needs redis-server, which is not on this machine: install it, or run make servers as root")


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory, redis_program: None) -> Iterator[RedisServer]:
    server = RedisServer(tmp_path_factory.mktemp("redis"), processes.free_port())
    process = server.start()
    yield server
    processes.stop(process)


@pytest.fixture(scope="session")
def kafka_program() -> None:
    """Of whoever starts a Kafka of its own."""
    try:
        jars_of(BROKER)
    except NoJars as reason:
        pytest.skip(f"needs Kafka. {reason}")


@pytest.fixture(scope="session")
def kafka_server(tmp_path_factory: pytest.TempPathFactory, kafka_program: None) -> Iterator[KafkaServer]:
    server = KafkaServer(tmp_path_factory.mktemp("kafka"), processes.free_port(), processes.free_port())
    process = server.start()
    yield server
    processes.stop(process)


@pytest.fixture(scope="session")
def secure_kafka_server(tmp_path_factory: pytest.TempPathFactory, kafka_program: None) -> Iterator[KafkaServer]:
    folder = tmp_path_factory.mktemp("secure-kafka")
    ports = processes.free_port(), processes.free_port()
    server = KafkaServer(folder / "kafka", *ports, security=Security(folder))
    process = server.start()
    yield server
    processes.stop(process)


@pytest.fixture(scope="session")
def secure_redis_server(
    tmp_path_factory: pytest.TempPathFactory, secure_kafka_server: KafkaServer
) -> Iterator[RedisServer]:
    """With the same authority, and its Secret beside Kafka's."""
    folder = tmp_path_factory.mktemp("secure-redis")
    server = RedisServer(folder, processes.free_port(), security=secure_kafka_server.security)
    process = server.start()
    yield server
    processes.stop(process)


@pytest.fixture(scope="session")
def s3_client() -> Iterator[Any]:
    import boto3  # a second's worth of modules that few tests need
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(port=0)
    server.start()
    host, port = server.get_host_and_port()
    yield boto3.client(
        "s3",
        endpoint_url=f"http://{host}:{port}",
        region_name="us-east-1",
        aws_access_key_id="test",
        aws_secret_access_key="test",
    )
    server.stop()


@pytest.fixture(scope="session")
def kubernetes_api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A kubeconfig of a real API server, without a node."""
    from infra.cluster.binaries import NotBuilt
    from infra.cluster.control_plane import api_server

    with ExitStack() as started:
        try:
            yield started.enter_context(api_server(tmp_path_factory.mktemp("kubernetes")))
        except NotBuilt as reason:
            pytest.skip(f"needs a Kubernetes API. {reason}")


@pytest.fixture
def routing_config_map(kubernetes_api: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Where a query's control port is, empty, as the operator makes it; and how to get there."""
    from kubernetes import client, config

    monkeypatch.setenv("KUBECONFIG", str(kubernetes_api))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    api = client.CoreV1Api(config.new_client_from_config(str(kubernetes_api)))
    name = f"q{uuid.uuid4().hex[:8]}-routing"
    api.create_namespaced_config_map("default", {"metadata": {"name": name}})
    yield f"kubernetes:default/{name}"
    api.delete_namespaced_config_map(name, "default")


@pytest.fixture
def kubernetes_cut(kubernetes_api: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Relay]:
    """Between clients that are made from now on, by KUBECONFIG, and the API server."""
    known = yaml.safe_load(kubernetes_api.read_text())
    cluster = known["clusters"][0]["cluster"]
    relay = Relay(processes.free_port(), int(cluster["server"].rpartition(":")[2]))
    cluster["server"] = f"https://127.0.0.1:{relay.port}"
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(known))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
    yield relay
    relay.close()
