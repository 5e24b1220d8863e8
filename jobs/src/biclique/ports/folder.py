"""Checkpoints in a folder: they survive the process and, as far as the disk keeps its word, the machine.

A file is written under a temporary name, flushed to disk and renamed, so a crash at any point leaves the old state or
the new one. Every file carries a checksum: what was torn or altered reads as missing. One process owns the folder (a
lock that dies with it), so what its constructor finds unnamed was left by a crash between blobs and manifest, and
goes.

    <folder>/lock    <folder>/blobs/<name>    <folder>/manifests/<owner>/<sequence>
"""

from __future__ import annotations

import fcntl
import os
import threading
from pathlib import Path
from urllib.parse import quote

from biclique.ports.checkpoints import KEPT
from biclique.ports.file_sink import naming
from biclique.ports.manifest_json import decode_manifest, encode_manifest
from biclique.ports.sealed_bytes import sealed, unsealed
from biclique.tiers.effects import BlobsLost, Publication
from biclique.tiers.messages import Producer
from biclique.tiers.progress import Manifest


class FolderInUse(Exception):
    """Another process owns the folder."""


class FolderStore:
    def __init__(self, folder: Path) -> None:
        self._blobs, self._owners = folder / "blobs", folder / "manifests"
        self._blobs.mkdir(parents=True, exist_ok=True)
        self._owners.mkdir(exist_ok=True)
        self._lock = threading.Lock()
        self._held = (folder / "lock").open("w")
        try:
            fcntl.flock(self._held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._held.close()
            raise FolderInUse(f"{folder}: another run uses this checkpoint folder") from None
        self._kept = {path.name: self._load(path) for path in self._owners.iterdir()}
        self._sweep()

    def close(self) -> None:
        self._held.close()

    def load(self, owner: Producer) -> tuple[Manifest, ...]:
        with self._lock:
            return tuple(manifest for _, manifest in self._kept.get(_name(str(owner)), ()))

    def get(self, name: str) -> bytes | None:
        try:
            stored = (self._blobs / _name(name)).read_bytes()
        except FileNotFoundError:
            return None
        return unsealed(stored)

    def put(self, name: str, data: bytes) -> bool:
        _write(self._blobs / _name(name), sealed(data))
        return True

    def publish(self, owner: Producer, manifest: Manifest) -> Publication | BlobsLost:
        with self._lock:
            key = _name(str(owner))
            kept = self._kept.get(key, ())
            if kept and kept[0][1].incarnation > manifest.incarnation:
                return Publication.SUPERSEDED
            if kept and kept[0][1] == manifest:
                return Publication.PUBLISHED
            lost = frozenset(blob.name for blob in manifest.blobs if not (self._blobs / _name(blob.name)).exists())
            if lost:
                return BlobsLost(lost)
            sequence = kept[0][0] + 1 if kept else 0
            (self._owners / key).mkdir(exist_ok=True)
            _write(self._file(key, sequence), encode_manifest(manifest))
            self._kept[key] = ((sequence, manifest), *kept[: KEPT - 1])
            named = self._named()
            for old, dropped in kept[KEPT - 1 :]:
                self._file(key, old).unlink(missing_ok=True)
                for blob in dropped.blobs:
                    if blob.name not in named:
                        (self._blobs / _name(blob.name)).unlink(missing_ok=True)
            return Publication.PUBLISHED

    def retract(self, owner: Producer, frontier: int) -> None:
        """Forget the manifests ahead of a frontier: a process that died between them and its commit left them, and so
        many of them would push out the one that counts."""
        with self._lock:
            key = _name(str(owner))
            kept = self._kept.get(key, ())
            for sequence, manifest in kept:
                if manifest.frontier > frontier:
                    self._file(key, sequence).unlink()
            self._kept[key] = tuple((n, manifest) for n, manifest in kept if manifest.frontier <= frontier)
            named = self._named()
            for _, manifest in kept:
                for blob in manifest.blobs:
                    if blob.name not in named:
                        (self._blobs / _name(blob.name)).unlink(missing_ok=True)

    def _file(self, key: str, sequence: int) -> Path:
        return self._owners / key / f"{sequence:016d}"

    def _named(self) -> set[str]:
        return {blob.name for kept in self._kept.values() for _, manifest in kept for blob in manifest.blobs}

    def _load(self, owner: Path) -> tuple[tuple[int, Manifest], ...]:
        """Newest first. The sequence goes on above every file that is there, readable or not."""
        found: list[tuple[int, Manifest]] = []
        for path in sorted((p for p in owner.iterdir() if p.name.isdigit()), reverse=True):
            manifest = decode_manifest(path.read_bytes())
            if manifest is None or len(found) == KEPT:
                path.unlink()
            else:
                found.append((int(path.name), manifest))
        return tuple(found)

    def _sweep(self) -> None:
        named = {_name(name) for name in self._named()}
        for path in self._blobs.iterdir():
            if path.name not in named:
                path.unlink()
        for owner in self._owners.iterdir():
            for path in owner.glob("*.new"):
                path.unlink()


def _name(name: str) -> str:
    """A file name for any text: no separator, no special name (the prefix), and none of ours with a dot at its end."""
    return "_" + quote(name, safe="")


def _write(path: Path, data: bytes) -> None:
    temporary = path.with_name(path.name + ".new")
    with naming(path), temporary.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
