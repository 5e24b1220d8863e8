"""One suite for every checkpoint store: what a joiner's restore relies on."""

from __future__ import annotations

import random
import uuid

import pytest
import redis

from biclique.ports.checkpoints import KEPT, CheckpointStore
from biclique.ports.folder import FolderStore
from biclique.ports.folder_objects import FolderObjects
from biclique.ports.memory import MemoryStore
from biclique.ports.object_store import ObjectStore
from biclique.ports.patient_store import PatientStore
from biclique.ports.redis_store import RedisStore
from biclique.ports.s3_objects import S3Objects
from biclique.routing.table import Move, Subgroup, UnitId
from biclique.tiers.effects import BlobsLost, Publication
from biclique.tiers.messages import Producer
from biclique.tiers.progress import BlobRef, Manifest
from tests.simulation.faulty_store import FaultyStore

ONE, OTHER = Producer("joiner", "0L0.0"), Producer("joiner", "0L0.1#2")
UNIT = UnitId(Subgroup(0, 1, 3), 4, 5)
PUBLISHED = Publication.PUBLISHED


def memory(request: pytest.FixtureRequest) -> CheckpointStore:
    return MemoryStore()


def folder(request: pytest.FixtureRequest) -> CheckpointStore:
    made = FolderStore(request.getfixturevalue("tmp_path") / "checkpoints")
    request.addfinalizer(made.close)
    return made


def faulty_without_faults(request: pytest.FixtureRequest) -> CheckpointStore:
    return FaultyStore(random.Random(1))


def redis_patiently(request: pytest.FixtureRequest) -> CheckpointStore:
    inner = redis_keys(request)
    assert isinstance(inner, RedisStore)
    return PatientStore(inner, "Redis", inner.cut)


def redis_keys(request: pytest.FixtureRequest) -> CheckpointStore:
    server = request.getfixturevalue("redis_server")
    client = redis.Redis(port=server.port)
    request.addfinalizer(client.close)
    return RedisStore(client, f"{request.node.name}-{uuid.uuid4()}")


def s3_bucket(request: pytest.FixtureRequest) -> CheckpointStore:
    client, bucket = request.getfixturevalue("s3_client"), str(uuid.uuid4())
    client.create_bucket(Bucket=bucket)
    return ObjectStore(S3Objects(client, bucket), "checkpoints")


def volume(request: pytest.FixtureRequest) -> CheckpointStore:
    return ObjectStore(FolderObjects(request.getfixturevalue("tmp_path") / "volume"), "q@topic-1")


STORES = [memory, folder, faulty_without_faults, redis_keys, redis_patiently, s3_bucket, volume]


@pytest.fixture(params=STORES, ids=lambda make: make.__name__)
def store(request: pytest.FixtureRequest) -> CheckpointStore:
    return request.param(request)


def manifest(n: int, *blobs: str, incarnation: int = 1) -> Manifest:
    refs = tuple(BlobRef(name, 1, n, (1 << 64) - 1, name.startswith("moved")) for name in blobs)
    return Manifest(incarnation, frontier=n, sealed=n - 1, offset=2 * n, blobs=refs, adopted=frozenset())


def test_nothing_was_published_yet(store: CheckpointStore) -> None:
    assert store.load(ONE) == ()
    assert store.get("no such blob") is None


@pytest.mark.parametrize("name", ["a", "0L0.1#2/7/store left-3", "../escape", "..", "with.new", "ä€", "a/b", "a%2Fb"])
def test_a_blob_comes_back_as_it_was_put(store: CheckpointStore, name: str) -> None:
    for data in (b"", b"x", bytes(range(256)) * 5):
        store.put(name, data)
        assert store.get(name) == data


def test_blobs_of_different_names_do_not_meet(store: CheckpointStore) -> None:
    names = ["a/b", "a%2Fb", "a_b", "A/b", "a", "a.new"]
    for name in names:
        store.put(name, name.encode())
    assert [store.get(name) for name in names] == [name.encode() for name in names]


def test_a_manifest_comes_back_whole(store: CheckpointStore) -> None:
    whole = Manifest(
        incarnation=3 << 32,
        frontier=1 << 40,
        sealed=(1 << 40) - 1,
        offset=17,
        blobs=(BlobRef("a", 0, 5, (1 << 64) - 1, False), BlobRef("moved", 1, 6, 0, True)),
        adopted=frozenset({Move(UNIT, UNIT._replace(number=9), 7), Move(UNIT, UNIT._replace(generation=0), 8)}),
    )
    assert [store.put(blob.name, b"x") for blob in whole.blobs] == [True, True]
    assert store.publish(ONE, whole) is PUBLISHED
    assert store.load(ONE) == (whole,)


def test_the_newest_three_stand_newest_first(store: CheckpointStore) -> None:
    for n in range(6):
        assert store.publish(ONE, manifest(n)) is PUBLISHED
    assert store.publish(OTHER, manifest(40)) is PUBLISHED
    assert store.load(ONE) == (manifest(5), manifest(4), manifest(3))
    assert store.load(OTHER) == (manifest(40),)


def test_an_older_incarnation_is_refused_and_changes_nothing(store: CheckpointStore) -> None:
    assert store.publish(ONE, manifest(1, incarnation=2)) is PUBLISHED
    assert store.publish(ONE, manifest(2, incarnation=3)) is PUBLISHED
    assert store.publish(ONE, manifest(9, incarnation=2)) is Publication.SUPERSEDED
    assert store.publish(ONE, manifest(3, incarnation=3)) is PUBLISHED
    assert store.publish(OTHER, manifest(1, incarnation=1)) is PUBLISHED, "each owner is fenced for itself"
    assert [m.frontier for m in store.load(ONE)] == [3, 2, 1]


def test_a_manifest_that_names_a_blob_which_is_gone_is_refused_and_the_store_says_which(store: CheckpointStore) -> None:
    store.put("0L0.0/1-1-0", b"here")
    assert store.publish(ONE, manifest(1, "0L0.0/1-1-0")) is PUBLISHED
    gone = BlobsLost(frozenset({"0L0.0/1-2-0", "ä/other"}))
    assert store.publish(ONE, manifest(2, "0L0.0/1-1-0", "0L0.0/1-2-0", "ä/other")) == gone
    assert store.load(ONE) == (manifest(1, "0L0.0/1-1-0"),)
    assert store.publish(OTHER, manifest(2, "alone")) == BlobsLost(frozenset({"alone"}))
    for name in gone.names:
        store.put(name, b"again")
    assert store.publish(ONE, manifest(2, "0L0.0/1-1-0", "0L0.0/1-2-0", "ä/other")) is PUBLISHED
    assert [m.frontier for m in store.load(ONE)] == [2, 1]


def test_a_blob_stays_while_a_kept_manifest_names_it_and_goes_then(store: CheckpointStore) -> None:
    for name in ("first", "shared", "moved", "last"):
        store.put(name, name.encode())
    store.publish(ONE, manifest(0, "first", "shared", "moved"))
    store.publish(OTHER, manifest(0, "moved"))
    for n in range(1, KEPT):
        store.publish(ONE, manifest(n, "shared"))
    assert store.get("first") == b"first", "the oldest kept manifest still names it"
    store.publish(ONE, manifest(KEPT, "shared", "last"))
    assert store.get("first") is None
    assert [store.get(name) for name in ("shared", "moved", "last")] == [b"shared", b"moved", b"last"]


def test_a_blob_that_is_not_published_yet_is_not_collected(store: CheckpointStore) -> None:
    store.put("coming", b"x")
    for n in range(KEPT + 2):
        store.publish(OTHER, manifest(n))
    assert store.get("coming") == b"x"


def test_publishing_twice_is_publishing_once(store: CheckpointStore) -> None:
    """A client that lost the answer asks again."""
    store.put("shared", b"x")
    for n in (1, 2):
        store.publish(ONE, manifest(n, "shared"))
        store.publish(ONE, manifest(n, "shared"))
    assert store.load(ONE)[0] == manifest(2, "shared")
    for n in range(3, 3 + KEPT):
        store.publish(ONE, manifest(n))
    assert store.get("shared") is None
