"""The checkpoint store over TLS, as a user who may do what a store of checkpoints does and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import redis

from biclique.hosts.units.connections import redis_store
from biclique.hosts.units.spec import Surroundings
from biclique.ports.checkpoints import KEPT, StoreRefusal, StoreUnavailable
from biclique.tiers.effects import BlobsLost, Publication
from biclique.tiers.messages import Producer
from biclique.tiers.progress import BlobRef, Manifest
from infra import processes
from infra.redis_server import RedisServer
from infra.security import Security

OWNER = Producer("joiner", "0L0.0")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, redis_program: None) -> Iterator[RedisServer]:
    folder = tmp_path_factory.mktemp("secure")
    made = RedisServer(folder / "redis", processes.free_port(), security=Security(folder))
    process = made.start()
    yield made
    processes.stop(process)


def surroundings(server: RedisServer, secrets: Path, secret: str | None = "redis") -> Surroundings:
    return Surroundings({}, server.url, "", "q", secrets=str(secrets), redis_secret=secret)


def secrets_of(server: RedisServer) -> Path:
    assert server.security is not None
    return server.security.secrets


def manifest(n: int, *names: str) -> Manifest:
    return Manifest(1, n, n, 0, tuple(BlobRef(name, 0, 1, 0, False) for name in names))


def test_all_that_a_store_does_is_within_its_users_rights(server: RedisServer) -> None:
    store = redis_store(surroundings(server, secrets_of(server)))
    store.refuse_eviction()
    for n in range(KEPT + 1):
        assert store.publish(OWNER, manifest(n, f"blob-{n}")) == BlobsLost(frozenset({f"blob-{n}"}))
        assert store.put(f"blob-{n}", b"x")
        assert store.publish(OWNER, manifest(n, f"blob-{n}")) is Publication.PUBLISHED
    assert len(store.load(OWNER)) == KEPT
    assert store.get("blob-0") is None
    assert store.get("blob-1") == b"x"


def test_another_querys_keys_and_other_commands_are_not(server: RedisServer) -> None:
    assert server.security is not None
    client = redis.Redis.from_url(server.url, **server.security.redis_client())
    for command in (("SET", "other", "x"), ("FLUSHALL",), ("CONFIG", "GET", "maxmemory")):
        with pytest.raises(redis.exceptions.NoPermissionError):
            client.execute_command(*command)


def test_a_wrong_password_and_an_unknown_authority_are_said_without_a_secret(
    server: RedisServer, tmp_path: Path
) -> None:
    right = secrets_of(server) / "redis"
    wrong = {
        "wrong": {"username": "biclique", "password": "hush", "ca.crt": (right / "ca.crt").read_text()},
        "stranger": {"username": "biclique", "password": (right / "password").read_text()},
    }
    for name, keys in wrong.items():
        (tmp_path / name).mkdir()
        for key, value in keys.items():
            (tmp_path / name / key).write_text(value)
    with pytest.raises(StoreRefusal) as refusal:
        redis_store(surroundings(server, tmp_path, "wrong")).load(OWNER)
    assert "hush" not in str(refusal.value)
    with pytest.raises(StoreUnavailable, match=r"(?i)certificate"):
        redis_store(surroundings(server, tmp_path, "stranger")).load(OWNER)
    with pytest.raises(StoreUnavailable):
        redis_store(surroundings(server, tmp_path, None)).load(OWNER)


def test_nothing_secret_is_on_its_command_line_and_its_files_are_its_users_own(server: RedisServer) -> None:
    assert server.security is not None
    lines = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it has ended meanwhile
            lines.append(path.read_bytes())
    for password in server.security.all_passwords():
        assert not any(password.encode() in line for line in lines)
    holders = [server.folder / "redis.conf", *server.security.folder.glob("secrets*/*/*")]
    assert all(path.stat().st_mode & 0o077 == 0 for path in holders)


def test_a_password_that_is_changed_is_taken_without_a_restart(server: RedisServer, tmp_path: Path) -> None:
    (tmp_path / "rotated").mkdir()
    for path in (secrets_of(server) / "redis").iterdir():
        (tmp_path / "rotated" / path.name).write_text(path.read_text())
    (tmp_path / "rotated" / "username").write_text("rotated")
    (tmp_path / "rotated" / "password").write_text("first")
    admin = redis.Redis.from_url(server.url, **server.admin)

    def change(password: str) -> None:
        admin.execute_command("ACL", "SETUSER", "rotated", "reset", "on", f">{password}", "~biclique:*", "+@all")
        admin.client_kill_filter(_type="normal", skipme=True)

    change("first")
    store = redis_store(surroundings(server, tmp_path, "rotated"))
    assert store.put("a", b"x")
    change("second")
    with pytest.raises(StoreRefusal):
        store.get("a")
    (tmp_path / "rotated" / "password").write_text("second")
    assert store.get("a") == b"x"
    (tmp_path / "rotated" / "password").unlink()
    admin.client_kill_filter(_type="normal", skipme=True)
    with pytest.raises(StoreRefusal):
        store.get("a")
    admin.execute_command("ACL", "DELUSER", "rotated")
    admin.close()
