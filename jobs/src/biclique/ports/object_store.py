"""Checkpoints as objects under names: in a bucket, or on a volume that several machines see.

    <prefix>/blobs/<name>    <prefix>/manifests/<owner>/<sequence>

Such a place has no script and no lock that could be trusted over a network, but it has conditional writes: a manifest
is put under the next sequence number only if nobody has, so of two processes that publish one is refused, looks again,
and finds a newer incarnation there, or the place behind it. Numbers count down from the top, so that a listing begins
with the newest.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol
from urllib.parse import quote

from biclique.ports.checkpoints import KEPT
from biclique.ports.manifest_json import decode_manifest, encode_manifest
from biclique.ports.sealed_bytes import sealed, unsealed
from biclique.tiers.effects import BlobsLost, Publication
from biclique.tiers.messages import Producer
from biclique.tiers.progress import Manifest

SEQUENCES = 10**16
ATTEMPTS = 8


class Objects(Protocol):
    """Bytes under keys with slashes, each all there or not there. Raises StoreUnavailable where it cannot be
    reached."""

    def names(self, beginning: str) -> list[str]:
        """In order, of all that begin so."""

    def read(self, key: str) -> bytes | None: ...

    def write(self, key: str, data: bytes) -> None: ...

    def write_new(self, key: str, data: bytes) -> bool:
        """False: there is one."""

    def delete(self, key: str) -> None:
        """Nothing where there is none."""


class ObjectStore:
    def __init__(self, objects: Objects, prefix: str) -> None:
        self._objects, self._prefix = objects, prefix

    def load(self, owner: Producer) -> tuple[Manifest, ...]:
        return tuple(manifest for _, manifest in self._kept(owner))

    def get(self, name: str) -> bytes | None:
        stored = self._objects.read(self._blob(name))
        return None if stored is None else unsealed(stored)

    def put(self, name: str, data: bytes) -> bool:
        self._objects.write(self._blob(name), sealed(data))
        return True

    def publish(self, owner: Producer, manifest: Manifest) -> Publication | BlobsLost:
        body = encode_manifest(manifest)
        for _ in range(ATTEMPTS):
            keys = self._objects.names(f"{self._owner(owner)}/")
            kept = [(key, found) for key in keys if (found := self._manifest(key)) is not None]
            if kept and kept[0][1].incarnation > manifest.incarnation:
                return Publication.SUPERSEDED
            if kept and kept[0][1] == manifest:
                return Publication.PUBLISHED  # a retry after a lost answer
            if kept and (kept[0][1].incarnation, kept[0][1].frontier) > (manifest.incarnation, manifest.frontier):
                return Publication.UNAVAILABLE  # of a call that was given up, and comes behind the next one
            lost = self._lost(manifest)
            if lost:
                return BlobsLost(lost)
            newest = SEQUENCES - int(keys[0].rsplit("/", 1)[1]) if keys else 0
            if self._objects.write_new(f"{self._owner(owner)}/{SEQUENCES - newest - 1:017d}", body):
                self._drop(keys[KEPT - 1 :])
                return Publication.PUBLISHED
        return Publication.UNAVAILABLE

    def _lost(self, manifest: Manifest) -> frozenset[str]:
        """One listing and not a question for each: the blobs of a unit begin with the same letters."""
        keys = {self._blob(blob.name): blob.name for blob in manifest.blobs}
        if not keys:
            return frozenset()
        least, greatest = min(keys), max(keys)
        common = next((n for n, (a, b) in enumerate(zip(least, greatest, strict=False)) if a != b), len(least))
        there = self._objects.names(least[:common])
        return frozenset(keys[key] for key in keys.keys() - set(there))

    def _drop(self, keys: list[str]) -> None:
        """Manifests first, then the blobs that no manifest of any owner names any more: a crash in between leaves blobs
        that nobody names, never a manifest without its blobs."""
        dropped = {blob.name for key in keys if (found := self._manifest(key)) is not None for blob in found.blobs}
        for key in keys:
            self._objects.delete(key)
        if not dropped:
            return
        left = (self._manifest(key) for key in self._objects.names(f"{self._prefix}/manifests/"))
        named = {blob.name for found in left if found is not None for blob in found.blobs}
        for name in dropped - named:
            self._objects.delete(self._blob(name))

    def _kept(self, owner: Producer) -> Iterator[tuple[str, Manifest]]:
        for key in self._objects.names(f"{self._owner(owner)}/")[:KEPT]:
            manifest = self._manifest(key)
            if manifest is not None:
                yield key, manifest

    def _manifest(self, key: str) -> Manifest | None:
        data = self._objects.read(key)
        return None if data is None else decode_manifest(data)

    def _owner(self, owner: Producer) -> str:
        return f"{self._prefix}/manifests/{quote(str(owner), safe='')}"

    def _blob(self, name: str) -> str:
        return f"{self._prefix}/blobs/{quote(name, safe='')}"
