"""A store with troubles, as a loop sees it: answers, soon, and one word in the log when it goes and when it is back."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

import pytest

from biclique.ports.checkpoints import CheckpointStore, StoreUnavailable
from biclique.ports.memory import MemoryStore
from biclique.ports.patient_store import Patience, PatientStore
from biclique.tiers.effects import BlobsLost, Publication
from biclique.tiers.messages import Producer
from biclique.tiers.progress import Manifest

OWNER = Producer("joiner", "0L0.0")
MANIFEST = Manifest(1, 5, 5, 0, ())


class Troubled(MemoryStore):
    """`trouble` is called before each call; it raises, or blocks."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0
        self.trouble: Callable[[], None] = lambda: None

    def load(self, owner: Producer) -> tuple[Manifest, ...]:
        self._meet()
        return super().load(owner)

    def get(self, name: str) -> bytes | None:
        self._meet()
        return super().get(name)

    def put(self, name: str, data: bytes) -> bool:
        self._meet()
        return super().put(name, data)

    def publish(self, owner: Producer, manifest: Manifest) -> Publication | BlobsLost:
        self._meet()
        return super().publish(owner, manifest)

    def _meet(self) -> None:
        self.calls += 1
        self.trouble()


def away() -> None:
    raise StoreUnavailable("connection refused")


class Hand:
    """A clock that sleeping moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def patient(store: CheckpointStore, clock: Hand, call_s: float = 30.0) -> PatientStore:
    patience = Patience(call_s, restore_s=10.0, backoff_s=1.0, backoff_max_s=4.0)
    return PatientStore(store, "the store", lambda: None, patience, clock, clock.sleep)


def test_a_restore_asks_again_for_so_long_and_then_finds_nothing() -> None:
    inner, clock = Troubled(), Hand()
    inner.put("a", b"x")
    inner.publish(OWNER, MANIFEST)
    store = patient(inner, clock)
    inner.trouble, inner.calls = away, 0
    assert store.load(OWNER) == ()
    assert (inner.calls, clock.now) == (4, 7.0), "at 0, 1, 3 and 7 s, and not at 11"
    assert store.get("a") is None
    assert clock.now <= 10.0, "the blobs share the patience of their restore"


def test_a_restore_has_what_comes_back_in_time() -> None:
    inner, clock = Troubled(), Hand()
    inner.publish(OWNER, MANIFEST)
    inner.trouble = lambda: away() if clock.now < 3 else None
    assert patient(inner, clock).load(OWNER) == (MANIFEST,)


def test_a_restore_that_is_answered_too_slowly_finds_nothing_more_and_the_next_one_begins_anew() -> None:
    inner, clock = Troubled(), Hand()
    inner.put("a", b"x")
    inner.publish(OWNER, MANIFEST)
    store = patient(inner, clock)
    inner.trouble = lambda: clock.sleep(4.0)
    assert store.load(OWNER) == (MANIFEST,)
    found = [store.get("a") for _ in range(100)]
    assert found[:2] == [b"x", b"x"] and not any(found[2:])
    assert clock.now == 12.0
    inner.trouble = lambda: None
    assert store.get("a") is None, "its manifest is given up: what is replayed already is not read"
    assert store.load(OWNER) == (MANIFEST,)
    assert store.get("a") == b"x"


def test_a_large_restore_from_a_prompt_store_may_take_as_long_as_it_takes() -> None:
    inner, clock = Troubled(), Hand()
    inner.put("a", b"x")
    inner.publish(OWNER, MANIFEST)
    store = patient(inner, clock)
    inner.trouble = lambda: clock.sleep(0.4)
    store.load(OWNER)
    assert all(store.get("a") == b"x" for _ in range(1000))
    inner.put("b", bytes(1 << 20))
    inner.trouble = lambda: clock.sleep(1.0)
    assert all(store.get("b") for _ in range(1000)), "a blob of a megabyte may take a second"


def test_a_write_is_tried_once_and_costs_no_more() -> None:
    inner, clock = Troubled(), Hand()
    store = patient(inner, clock)
    inner.trouble = away
    assert not store.put("a", b"x")
    assert store.publish(OWNER, MANIFEST) is Publication.UNAVAILABLE
    assert (inner.calls, clock.now) == (2, 0.0)


def test_a_call_that_does_not_end_is_cut_and_the_next_one_is_made() -> None:
    inner, cut = Troubled(), threading.Event()
    inner.trouble = lambda: (cut.wait(60), away())[1]
    store = PatientStore(inner, "the store", cut.set, Patience(call_s=1.0))
    began = time.monotonic()
    assert not store.put("a", b"x")
    assert time.monotonic() - began < 20
    assert cut.is_set()
    inner.trouble = lambda: None
    assert store.put("a", b"x")
    assert store.get("a") == b"x"


def test_calls_that_never_end_keep_one_thread_and_not_one_each() -> None:
    inner, server_is_back = Troubled(), threading.Event()

    def hangs() -> None:
        server_is_back.wait(60)

    inner.trouble = hangs
    store = PatientStore(inner, "a volume", lambda: None, Patience(call_s=0.2))
    for _ in range(4):
        assert not store.put("a", b"x")
    assert inner.calls == 1
    server_is_back.set()
    deadline = time.monotonic() + 20
    while not store.put("b", b"y"):
        assert time.monotonic() < deadline
    assert store.get("b") == b"y"


def test_who_says_no_is_not_asked_again_by_the_same_connection() -> None:
    """As a server of Redis' that became a replica, and whose name leads to its successor."""
    inner, cuts = Troubled(), []
    store = PatientStore(inner, "the store", lambda: cuts.append(inner.calls), Patience())
    assert store.put("a", b"x") and not cuts
    inner.trouble = away
    assert not store.put("a", b"x")
    assert store.publish(OWNER, MANIFEST) is Publication.UNAVAILABLE
    assert cuts == [2, 3]


def test_a_closed_store_keeps_no_thread() -> None:
    before = set(threading.enumerate())  # other tests' stores may not be gone yet
    store = patient(Troubled(), Hand())
    store.put("a", b"x")
    (thread,) = [one for one in set(threading.enumerate()) - before if one.name.startswith("checkpoints")]
    store.close()
    thread.join(10)
    assert not thread.is_alive()


def test_it_is_said_once_when_it_goes_and_once_when_it_is_back(caplog: pytest.LogCaptureFixture) -> None:
    inner, clock = Troubled(), Hand()
    store = patient(inner, clock)
    inner.trouble = away
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            store.put("a", b"x")
            store.publish(OWNER, MANIFEST)
        inner.trouble = lambda: None
        for _ in range(3):
            store.put("a", b"x")
            store.publish(OWNER, MANIFEST)
    assert [record.getMessage() for record in caplog.records] == [
        "checkpoints: the store: connection refused; work goes on without them, and they are tried again",
        "checkpoints: the store: it works again",
    ]
