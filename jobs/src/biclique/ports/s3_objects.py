"""A bucket of an S3-compatible server, as checkpoints use one (object_store.py). Its conditional write is
`If-None-Match: *`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from biclique.ports.checkpoints import StoreRefusal, StoreUnavailable, UnfitStore


class S3Objects:
    """`client`: a boto3 client of the server that has the bucket."""

    def __init__(self, client: Any, bucket: str) -> None:
        self._client, self._bucket = client, bucket

    def refuse_missing(self) -> None:
        with _unavailable():
            try:
                self._client.head_bucket(Bucket=self._bucket)
            except ClientError as error:
                if error.response["Error"]["Code"] in {"404", "NoSuchBucket"}:
                    raise UnfitStore("there is no such bucket; make it, or correct spec.state.durable") from None
                raise

    def names(self, beginning: str) -> list[str]:
        with _unavailable():
            pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=self._bucket, Prefix=beginning)
            return sorted(item["Key"] for page in pages for item in page.get("Contents", ()))

    def read(self, key: str) -> bytes | None:
        with _unavailable():
            try:
                return bytes(self._client.get_object(Bucket=self._bucket, Key=key)["Body"].read())
            except ClientError as error:
                if error.response["Error"]["Code"] in {"NoSuchKey", "404"}:
                    return None
                raise

    def write(self, key: str, data: bytes) -> None:
        with _unavailable():
            self._client.put_object(Bucket=self._bucket, Key=key, Body=data)

    def write_new(self, key: str, data: bytes) -> bool:
        with _unavailable():
            try:
                self._client.put_object(Bucket=self._bucket, Key=key, Body=data, IfNoneMatch="*")
            except ClientError as error:
                if error.response["Error"]["Code"] in {"PreconditionFailed", "ConditionalRequestConflict"}:
                    return False
                raise
        return True

    def delete(self, key: str) -> None:
        with _unavailable():
            self._client.delete_object(Bucket=self._bucket, Key=key)


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
