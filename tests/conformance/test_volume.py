"""A volume as a query names it in `state.durable.volume`: where its claim is mounted, written to by many processes at
once, missed or refused with one sentence."""

from __future__ import annotations

import logging
import os
import threading
import time
from pathlib import Path

import pytest

from biclique.hosts.units.connections import checkpoint_store
from biclique.hosts.units.spec import Surroundings
from biclique.hosts.units.start_up import look_at_store
from biclique.ports.checkpoints import StoreUnavailable
from biclique.ports.folder_objects import LEFT_BEHIND_S, UNNAMED, FolderObjects
from biclique.ports.object_store import ObjectStore
from biclique.ports.refusals import Refused
from biclique.query.compile import compile_manifest
from biclique.query.errors import QueryError
from biclique.tiers.effects import Publication
from biclique.tiers.messages import Producer
from biclique.tiers.progress import BlobRef, Manifest
from tests.unit.hosts.test_start_up import MANIFEST, never

OWNER = Producer("joiner", "0L0.0")
QUERY = compile_manifest(MANIFEST + "  state: {durable: {volume: {claimName: joins, path: kept/here}}}\n")
READ_ONLY = Path("/sys/kernel")  # for root, too


@pytest.fixture
def around(tmp_path: Path) -> Surroundings:
    (tmp_path / "joins").mkdir()
    return Surroundings({}, "", "", "q", volumes=str(tmp_path))


def manifest(frontier: int, *blobs: str, incarnation: int = 9) -> Manifest:
    refs = tuple(BlobRef(name, 0, 1, 0, False) for name in blobs)
    return Manifest(incarnation, frontier, frontier, 0, refs)


def test_checkpoints_go_to_the_claim_that_the_query_names(around: Surroundings, tmp_path: Path) -> None:
    look_at_store(around, QUERY, False, never)
    store = checkpoint_store(around, QUERY, "joiner 0L0.0", "topic-1")
    assert store.put("0L0.0/9-1", b"x")
    assert store.publish(OWNER, manifest(1, "0L0.0/9-1")) is Publication.PUBLISHED
    kept = tmp_path / "joins" / "kept" / "here" / "q@topic-1"
    assert [path.name for path in (kept / "blobs").iterdir()] == ["0L0.0%2F9-1"]
    assert checkpoint_store(around, QUERY, "joiner 0L0.0", "topic-1").load(OWNER) == (manifest(1, "0L0.0/9-1"),)
    assert checkpoint_store(around, QUERY, "joiner 0L0.0", "topic-2").load(OWNER) == (), "the topics were made anew"


def test_of_many_that_publish_at_once_each_manifest_has_a_place_of_its_own(tmp_path: Path) -> None:
    """One after the other is what a lock would do, and there is none. The blobs tell the manifests apart."""
    answers: list[object] = []

    def publish(number: int) -> None:
        store = ObjectStore(FolderObjects(tmp_path), "q")
        store.put(f"blob {number}", b"x")
        answers.append(store.publish(OWNER, manifest(1, f"blob {number}")))

    threads = [threading.Thread(target=publish, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [Publication.PUBLISHED] * 6
    store = ObjectStore(FolderObjects(tmp_path), "q")
    assert len({found.blobs for found in store.load(OWNER)}) == 3
    assert store.publish(OWNER, manifest(7, incarnation=8)) is Publication.SUPERSEDED


def test_a_call_that_was_given_up_puts_nothing_older_before_what_is_newer(tmp_path: Path) -> None:
    store = ObjectStore(FolderObjects(tmp_path), "q")
    assert store.publish(OWNER, manifest(2)) is Publication.PUBLISHED
    assert store.publish(OWNER, manifest(1)) is Publication.UNAVAILABLE
    assert store.load(OWNER) == (manifest(2),)


def test_a_torn_blob_reads_as_missing(tmp_path: Path) -> None:
    store = ObjectStore(FolderObjects(tmp_path), "q")
    store.put("a", b"bytes of a")
    (path,) = (tmp_path / "q" / "blobs").iterdir()
    path.write_bytes(path.read_bytes()[:-3])
    assert store.get("a") is None


def test_what_a_crash_has_left_goes_a_day_later_and_nothing_else(around: Surroundings, tmp_path: Path) -> None:
    folder = tmp_path / "joins" / "kept" / "here"
    ObjectStore(FolderObjects(folder), "q").put("a", b"x")
    old, fresh, other = (folder / "q" / "blobs" / name for name in (f"{UNNAMED}old", f"{UNNAMED}fresh", ".snapshot"))
    for path in (old, fresh, other, folder / "q" / "blobs" / "a"):
        path.touch()
        if path != fresh:
            os.utime(path, times=(time.time() - LEFT_BEHIND_S - 60,) * 2)
    look_at_store(around, QUERY, False, never)
    assert sorted(path.name for path in old.parent.iterdir()) == sorted([fresh.name, other.name, "a"])
    assert ObjectStore(FolderObjects(folder), "q").get("a") == b"x"


def test_a_setting_or_a_mount_that_is_missing_is_one_sentence(around: Surroundings, tmp_path: Path) -> None:
    with pytest.raises(QueryError, match=r"^BICLIQUE_VOLUMES: state\.durable\.volume names the claim joins, and this"):
        look_at_store(Surroundings({}, "", "", "q"), QUERY, False, never)
    (tmp_path / "joins").rmdir()
    with pytest.raises(QueryError, match=r"^claim joins: there is none at .*/joins; mount it there, or correct spec"):
        look_at_store(around, QUERY, True, never)


def test_a_volume_that_may_not_be_written_to_stops_who_begins_and_nobody_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "joins").symlink_to(READ_ONLY)
    query = compile_manifest(MANIFEST + "  state: {durable: {volume: {claimName: joins}}}\n")
    around = Surroundings({}, "", "", "q", volumes=str(tmp_path))
    with pytest.raises(
        Refused, match=r"^claim joins: this process may not write there \(.*\); give it the right to, or"
    ):
        look_at_store(around, query, False, never)
    with caplog.at_level(logging.WARNING):
        look_at_store(around, query, True, never)
    assert "units work on without checkpoints until it is corrected" in caplog.text
    store = checkpoint_store(around, query, "joiner 0L0.0", "topic-1")
    assert (store.load(OWNER), store.get("a"), store.put("a", b"x")) == ((), None, False)
    assert store.publish(OWNER, manifest(1)) is Publication.UNAVAILABLE


def test_a_volume_that_fails_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreUnavailable, match=r"^the volume of checkpoints does not work as it should: .*Not a dir"):
        ObjectStore(FolderObjects(tmp_path / "file"), "q").put("a", b"x")
