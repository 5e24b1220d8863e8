"""Checkpoints in a bucket of an S3-compatible server: for full history, where the checkpoint must be durable.

    <prefix>/blobs/<name>    <prefix>/manifests/<owner>/<sequence>

A bucket has no script, but it has conditional writes: a manifest is put under the next sequence number only if nobody
has (`If-None-Match: *`), so of two processes that publish one is refused, looks again, and finds a newer incarnation
there, or the place behind it. Numbers count down from the top, so that a listing begins with the newest.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

from botocore.exceptions import BotoCoreError, ClientError

from biclique.ports.checkpoints import KEPT, StoreRefusal, StoreUnavailable, UnfitStore
from biclique.ports.manifest_json import decode_manifest, encode_manifest
from biclique.ports.sealed_bytes import sealed, unsealed
from biclique.tiers.effects import BlobsLost, Publication
from biclique.tiers.messages import Producer
from biclique.tiers.progress import Manifest

SEQUENCES = 10**16
ATTEMPTS = 8


class S3Store:
    """`client`: a boto3 client of the server that has the bucket."""

    def __init__(self, client: Any, bucket: str, prefix: str) -> None:
        self._client, self._bucket, self._prefix = client, bucket, prefix

    def refuse_missing(self) -> None:
        with _unavailable():
            try:
                self._client.head_bucket(Bucket=self._bucket)
            except ClientError as error:
                if error.response["Error"]["Code"] in {"404", "NoSuchBucket"}:
                    raise UnfitStore("there is no such bucket; make it, or correct spec.state.durable") from None
                raise

    def load(self, owner: Producer) -> tuple[Manifest, ...]:
        with _unavailable():
            return tuple(manifest for _, manifest in self._kept(owner))

    def get(self, name: str) -> bytes | None:
        with _unavailable():
            stored = self._read(self._blob(name))
        return None if stored is None else unsealed(stored)

    def put(self, name: str, data: bytes) -> bool:
        with _unavailable():
            self._client.put_object(Bucket=self._bucket, Key=self._blob(name), Body=sealed(data))
        return True

    def publish(self, owner: Producer, manifest: Manifest) -> Publication | BlobsLost:
        with _unavailable():
            return self._published(owner, manifest)

    def _published(self, owner: Producer, manifest: Manifest) -> Publication | BlobsLost:
        body = encode_manifest(manifest)
        for _ in range(ATTEMPTS):
            keys = self._keys(f"{self._owner(owner)}/")
            kept = [(key, found) for key in keys if (found := self._manifest(key)) is not None]
            if kept and kept[0][1].incarnation > manifest.incarnation:
                return Publication.SUPERSEDED
            if kept and kept[0][1] == manifest:
                return Publication.PUBLISHED  # a retry after a lost answer
            lost = self._lost(manifest)
            if lost:
                return BlobsLost(lost)
            newest = SEQUENCES - int(keys[0].rsplit("/", 1)[1]) if keys else 0
            if self._put_new(f"{self._owner(owner)}/{SEQUENCES - newest - 1:017d}", body):
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
        there = self._keys(least[:common])
        return frozenset(keys[key] for key in keys.keys() - set(there))

    def _drop(self, keys: list[str]) -> None:
        """Manifests first, then the blobs that no manifest of any owner names any more: a crash in between leaves blobs
        that nobody names, never a manifest without its blobs."""
        dropped = {blob.name for key in keys if (found := self._manifest(key)) is not None for blob in found.blobs}
        for key in keys:
            self._client.delete_object(Bucket=self._bucket, Key=key)
        if not dropped:
            return
        left = (self._manifest(key) for key in self._keys(f"{self._prefix}/manifests/"))
        named = {blob.name for found in left if found is not None for blob in found.blobs}
        for name in dropped - named:
            self._client.delete_object(Bucket=self._bucket, Key=self._blob(name))

    def _kept(self, owner: Producer) -> Iterator[tuple[str, Manifest]]:
        for key in self._keys(f"{self._owner(owner)}/")[:KEPT]:
            manifest = self._manifest(key)
            if manifest is not None:
                yield key, manifest

    def _keys(self, prefix: str) -> list[str]:
        pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=self._bucket, Prefix=prefix)
        return sorted(item["Key"] for page in pages for item in page.get("Contents", ()))

    def _manifest(self, key: str) -> Manifest | None:
        data = self._read(key)
        return None if data is None else decode_manifest(data)

    def _read(self, key: str) -> bytes | None:
        try:
            return bytes(self._client.get_object(Bucket=self._bucket, Key=key)["Body"].read())
        except ClientError as error:
            if error.response["Error"]["Code"] in {"NoSuchKey", "404"}:
                return None
            raise

    def _put_new(self, key: str, body: bytes) -> bool:
        try:
            self._client.put_object(Bucket=self._bucket, Key=key, Body=body, IfNoneMatch="*")
        except ClientError as error:
            if error.response["Error"]["Code"] in {"PreconditionFailed", "ConditionalRequestConflict"}:
                return False
            raise
        return True

    def _owner(self, owner: Producer) -> str:
        return f"{self._prefix}/manifests/{quote(str(owner), safe='')}"

    def _blob(self, name: str) -> str:
        return f"{self._prefix}/blobs/{quote(name, safe='')}"


@contextmanager
def _unavailable() -> Iterator[None]:
    try:
        yield
    except ClientError as error:
        if error.response.get("ResponseMetadata", {}).get("HTTPStatusCode") in {401, 403}:
            raise StoreRefusal(f"it refuses us ({error.response['Error']['Code']})") from None
        raise StoreUnavailable(f"the bucket of checkpoints does not answer as it should: {error}") from None
    except BotoCoreError as error:
        raise StoreUnavailable(f"the bucket of checkpoints does not answer as it should: {error}") from None
