"""What only a store on disk has to answer for: restarts, torn files, two owners."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from biclique.ports.folder import FolderInUse, FolderStore
from biclique.tiers.messages import Producer
from biclique.tiers.progress import BlobRef, Manifest

ONE = Producer("joiner", "0L0.0")


def manifest(n: int, *blobs: str) -> Manifest:
    return Manifest(1, n, n, n, tuple(BlobRef(name, 0, 1, 2, False) for name in blobs))


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Callable[[], FolderStore]]:
    """Opens the store; whatever the test leaves open is closed behind it."""
    opened: list[FolderStore] = []

    def open_store() -> FolderStore:
        opened.append(FolderStore(tmp_path))
        return opened[-1]

    yield open_store
    for store in opened:
        store.close()


def filled(opened: Callable[[], FolderStore]) -> FolderStore:
    store = opened()
    store.put("a", b"bytes of a")
    for n in range(4):
        store.publish(ONE, manifest(n, "a"))
    return store


def test_a_restart_finds_what_was_published(folder: Callable[[], FolderStore]) -> None:
    filled(folder).close()
    again = folder()
    assert again.load(ONE) == (manifest(3, "a"), manifest(2, "a"), manifest(1, "a"))
    assert again.get("a") == b"bytes of a"
    assert again.publish(ONE, manifest(4, "a"))
    assert [m.frontier for m in again.load(ONE)] == [4, 3, 2]


def test_what_a_dead_process_left_ahead_is_retracted(folder: Callable[[], FolderStore]) -> None:
    store = filled(folder)
    store.put("b", b"bytes of b")
    store.publish(ONE, manifest(4, "b"))
    store.retract(ONE, 3)
    assert [m.frontier for m in store.load(ONE)] == [3, 2]
    assert (store.get("a"), store.get("b")) == (b"bytes of a", None)
    store.close()
    again = folder()
    assert [m.frontier for m in again.load(ONE)] == [3, 2]
    assert again.publish(ONE, manifest(4, "a"))
    assert [m.frontier for m in again.load(ONE)] == [4, 3, 2]
    again.retract(ONE, -1)
    assert again.load(ONE) == ()


def test_a_torn_or_altered_file_reads_as_missing(folder: Callable[[], FolderStore], tmp_path: Path) -> None:
    filled(folder).close()
    for path in (tmp_path / "blobs").iterdir():
        path.write_bytes(path.read_bytes()[:-3])
    newest = max((tmp_path / "manifests").rglob("0*"))
    newest.write_bytes(newest.read_bytes().replace(b'"frontier":3', b'"frontier":4'))
    again = folder()
    assert again.get("a") is None
    assert again.load(ONE) == (manifest(2, "a"), manifest(1, "a"))
    assert again.publish(ONE, manifest(5, "a"))
    assert [m.frontier for m in again.load(ONE)] == [5, 2, 1]


def test_an_altered_byte_of_a_blob_is_noticed(folder: Callable[[], FolderStore], tmp_path: Path) -> None:
    store = filled(folder)
    (path,) = (tmp_path / "blobs").iterdir()
    data = path.read_bytes()
    path.write_bytes(data[:2] + bytes([data[2] ^ 1]) + data[3:])
    assert store.get("a") is None


def test_what_a_crash_left_between_blobs_and_manifest_goes_at_the_next_start(
    folder: Callable[[], FolderStore], tmp_path: Path
) -> None:
    store = filled(folder)
    store.put("orphan", b"x")
    store.close()
    (tmp_path / "blobs" / "_half.new").write_bytes(b"x")
    again = folder()
    assert again.get("orphan") is None
    assert again.get("a") is not None
    assert len(list((tmp_path / "blobs").iterdir())) == 1


def test_only_one_process_owns_the_folder(folder: Callable[[], FolderStore]) -> None:
    store = filled(folder)
    with pytest.raises(FolderInUse, match="another run uses"):
        folder()
    store.close()
    folder().close()
