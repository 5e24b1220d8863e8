"""The real servers behind the ports, each started once in a test process that asks for it, on ports of its own."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from infra import processes
from infra.jars import BROKER, NoJars, jars_of
from infra.kafka_server import KafkaServer
from infra.redis_server import RedisServer
from infra.security import Security


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    if shutil.which("redis-server") is None:
        pytest.skip("needs redis-server, which is not on this machine: install it, or run make servers as root")
    server = RedisServer(tmp_path_factory.mktemp("redis"), processes.free_port())
    process = server.start()
    yield server
    processes.stop(process)


@pytest.fixture(scope="session")
def kafka_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaServer]:
    try:
        jars_of(BROKER)
    except NoJars as reason:
        pytest.skip(f"needs Kafka. {reason}")
    server = KafkaServer(tmp_path_factory.mktemp("kafka"), processes.free_port(), processes.free_port())
    process = server.start()
    yield server
    processes.stop(process)


@pytest.fixture(scope="session")
def secure_kafka_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaServer]:
    try:
        jars_of(BROKER)
    except NoJars as reason:
        pytest.skip(f"needs Kafka. {reason}")
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
