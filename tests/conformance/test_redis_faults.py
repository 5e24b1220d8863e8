"""What may happen to a real Redis, and what the store then says: nothing wrong, nothing raised, and soon."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import redis

from biclique.ports.checkpoints import KEPT, StoreRefusal, StoreUnavailable
from biclique.ports.patient_store import Patience, PatientStore
from biclique.ports.redis_store import EvictingRedis, RedisStore, connected
from biclique.tiers.effects import BlobsLost, Publication
from biclique.tiers.messages import Producer
from biclique.tiers.progress import BlobRef, Manifest
from infra import processes
from infra.redis_server import RedisServer

OWNER = Producer("joiner", "0L0.0")
PATIENCE = Patience(call_s=1.0, restore_s=1.0, backoff_s=0.05, backoff_max_s=0.2)
PUBLISHED, UNAVAILABLE = Publication.PUBLISHED, Publication.UNAVAILABLE
KILOBYTE = random.Random(1).randbytes(1024)


class OwnRedis:
    """One that a test may do anything to."""

    def __init__(self, folder: Path) -> None:
        self.server = RedisServer(folder, processes.free_port())
        self.process: subprocess.Popen[bytes] = self.server.start()
        self.admin = redis.Redis(port=self.server.port)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def start(self) -> None:
        self.process = self.server.start()


@pytest.fixture
def own(tmp_path: Path, redis_program: None) -> Iterator[OwnRedis]:
    made = OwnRedis(tmp_path / "redis")
    yield made
    made.admin.close()
    processes.stop(made.process)


def patient(url: str, patience: Patience = PATIENCE) -> PatientStore:
    inner = RedisStore(connected(url), "q")
    return PatientStore(inner, f"Redis at {inner.address}", inner.cut, patience)


def manifest(n: int, *names: str) -> Manifest:
    return Manifest(1, n, n, 0, tuple(BlobRef(name, 0, 1, 0, False) for name in names))


def takes_a_checkpoint(store: PatientStore, n: int) -> bool:
    return store.put(f"blob-{n}", KILOBYTE) and store.publish(OWNER, manifest(n, f"blob-{n}")) is PUBLISHED


def test_killed_and_empty_when_it_is_back(own: OwnRedis) -> None:
    store = patient(own.server.url)
    assert takes_a_checkpoint(store, 1)
    own.kill()
    assert not store.put("blob-2", KILOBYTE)
    assert store.publish(OWNER, manifest(2, "blob-1")) is UNAVAILABLE
    assert (store.load(OWNER), store.get("blob-1")) == ((), None)
    own.start()
    assert store.publish(OWNER, manifest(2, "blob-1")) == BlobsLost(frozenset({"blob-1"}))
    assert takes_a_checkpoint(store, 3)
    assert [m.frontier for m in store.load(OWNER)] == [3]


def test_flushed_between_a_blob_and_its_manifest(own: OwnRedis) -> None:
    store = patient(own.server.url)
    assert takes_a_checkpoint(store, 1)
    assert store.put("blob-2", KILOBYTE)
    own.admin.flushall()
    own.admin.script_flush()
    assert store.publish(OWNER, manifest(2, "blob-1", "blob-2")) == BlobsLost(frozenset({"blob-1", "blob-2"}))
    assert store.load(OWNER) == ()
    assert takes_a_checkpoint(store, 3)


def test_out_of_memory_is_no_checkpoint_and_no_half_of_one(own: OwnRedis) -> None:
    store = patient(own.server.url)
    assert takes_a_checkpoint(store, 1)
    assert store.put("blob-2", KILOBYTE)
    own.admin.config_set("maxmemory", 1)
    assert not store.put("blob-3", KILOBYTE)
    assert store.publish(OWNER, manifest(2, "blob-1", "blob-2")) is UNAVAILABLE
    assert store.load(OWNER) == (manifest(1, "blob-1"),), "what is there can be read"
    assert store.get("blob-1") == KILOBYTE
    own.admin.config_set("maxmemory", 0)
    assert store.publish(OWNER, manifest(2, "blob-1", "blob-2")) is PUBLISHED
    assert own.admin.hgetall("biclique:{q}:names") == {b"blob-1": b"2", b"blob-2": b"1"}


def test_a_password_that_changes_shuts_out_new_connections_only_until_it_is_right(own: OwnRedis) -> None:
    store = patient(own.server.url)
    assert takes_a_checkpoint(store, 1)
    own.admin.config_set("requirepass", "hard to guess")
    own.admin.client_kill_filter(_type="normal", skipme=True)
    assert not takes_a_checkpoint(store, 2)
    assert store.load(OWNER) == ()
    wrong = RedisStore(connected(own.server.url, password="easy to guess"), "q")
    with pytest.raises(StoreRefusal) as refusal:
        wrong.load(OWNER)
    assert "guess" not in str(refusal.value)
    right = RedisStore(connected(own.server.url, password="hard to guess"), "q")
    assert right.load(OWNER) == (manifest(1, "blob-1"),)


def test_a_call_to_one_that_stands_still_is_bounded_in_time(own: OwnRedis) -> None:
    store = patient(own.server.url)
    assert takes_a_checkpoint(store, 1)
    own.process.send_signal(signal.SIGSTOP)
    began = time.monotonic()
    assert not store.put("blob-2", KILOBYTE)
    assert time.monotonic() - began < 4 * PATIENCE.call_s
    own.process.send_signal(signal.SIGCONT)
    assert takes_a_checkpoint(store, 2)


def test_a_call_to_one_that_answers_byte_by_byte_is_bounded_in_time(own: OwnRedis) -> None:
    """Each byte comes well within the time-out of a socket, and all of them would take three minutes."""
    store = patient(own.server.url)
    assert takes_a_checkpoint(store, 1)
    with _trickling(own.server.port) as port:
        slow = patient(f"redis://127.0.0.1:{port}/0")
        began = time.monotonic()
        assert slow.get("blob-1") is None
        assert time.monotonic() - began < 10 * PATIENCE.call_s
    assert store.get("blob-1") == KILOBYTE


class _trickling:
    """A port behind which the same Redis answers five bytes a second."""

    def __init__(self, port: int) -> None:
        self._port, self._closed = port, threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))

    def __enter__(self) -> int:
        threading.Thread(target=self._serve, daemon=True).start()
        port: int = self._listener.getsockname()[1]
        return port

    def __exit__(self, *failure: object) -> None:
        self._closed.set()
        self._listener.close()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = socket.create_connection(("127.0.0.1", self._port))
                threading.Thread(target=self._there, args=(near, far), daemon=True).start()
                threading.Thread(target=self._back, args=(far, near), daemon=True).start()

    def _there(self, near: socket.socket, far: socket.socket) -> None:
        with suppress(OSError):
            while data := near.recv(1 << 16):
                far.sendall(data)

    def _back(self, far: socket.socket, near: socket.socket) -> None:
        with suppress(OSError):
            while data := far.recv(1 << 16):
                for byte in data:
                    near.sendall(bytes([byte]))
                    if self._closed.wait(0.2):
                        return


@pytest.mark.parametrize("policy", ["allkeys-lru", "volatile-ttl"])
def test_one_that_may_evict_is_refused(own: OwnRedis, policy: str) -> None:
    store = RedisStore(connected(own.server.url), "q")
    store.refuse_eviction()
    own.admin.config_set("maxmemory-policy", policy)
    with pytest.raises(EvictingRedis, match=f"maxmemory-policy {policy}.*noeviction"):
        store.refuse_eviction()


def test_what_it_holds_is_bounded_by_what_is_alive(own: OwnRedis) -> None:
    """Three manifests of a unit, their blobs, and nothing that would stay for ever."""
    store = patient(own.server.url)
    for n in range(20):
        assert takes_a_checkpoint(store, n)
    assert store.put("left by a crash", KILOBYTE)
    keys = {key.decode() for key in own.admin.scan_iter()}
    blobs = {f"biclique:{{q}}:blob:blob-{n}" for n in range(20 - KEPT, 20)}
    assert keys == {
        "biclique:{q}:manifests:joiner 0L0.0",
        "biclique:{q}:names",
        "biclique:{q}:blob:left by a crash",
        *blobs,
    }
    assert all(own.admin.ttl(key) > 0 for key in keys)
    assert own.admin.hlen("biclique:{q}:names") == KEPT


def test_one_that_nobody_listens_at_is_unavailable_and_named_without_a_secret() -> None:
    port = processes.free_port()
    store = RedisStore(connected(f"redis://someone:hush@127.0.0.1:{port}/0"), "q")
    assert store.address == f"127.0.0.1:{port}"
    with pytest.raises(StoreUnavailable) as refusal:
        store.get("a")
    assert "hush" not in str(refusal.value)


@pytest.mark.parametrize("damage", ["truncated", "corrupted", "gone"])
def test_a_blob_that_is_damaged_reads_as_missing(own: OwnRedis, damage: str) -> None:
    store = patient(own.server.url)
    assert takes_a_checkpoint(store, 1)
    key = "biclique:{q}:blob:blob-1"
    data = own.admin.get(key)
    assert isinstance(data, bytes)
    match damage:
        case "truncated":
            own.admin.set(key, data[: os.getpid() % len(data)])
        case "corrupted":
            own.admin.set(key, bytes([data[0] ^ 1]) + data[1:])
        case _:
            own.admin.delete(key)
    assert store.get("blob-1") is None
