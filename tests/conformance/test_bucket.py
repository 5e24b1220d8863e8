"""A bucket as a query names it in `state.durable.s3`: reached with keys from a Secret, missed with one sentence."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from biclique.hosts.units.connections import bucket_of, checkpoint_store
from biclique.hosts.units.spec import Surroundings
from biclique.hosts.units.start_up import look_at_store
from biclique.ports.checkpoints import StoreRefusal, StoreUnavailable
from biclique.ports.object_store import ObjectStore
from biclique.ports.refusals import Refused
from biclique.query.compile import compile_manifest
from biclique.query.model import Bucket, Query
from biclique.tiers.effects import Publication
from biclique.tiers.messages import Producer
from biclique.tiers.progress import BlobRef, Manifest
from infra import processes
from tests.unit.hosts.test_start_up import MANIFEST, never

OWNER = Producer("joiner", "0L0.0")


def query(state: str) -> Query:
    return compile_manifest(MANIFEST + f"  state: {{durable: {state}}}\n")


@pytest.fixture
def around(tmp_path: Path) -> Surroundings:
    (tmp_path / "s3-user").mkdir()
    (tmp_path / "s3-user" / "AWS_ACCESS_KEY_ID").write_text("test")
    (tmp_path / "s3-user" / "AWS_SECRET_ACCESS_KEY").write_text("test")
    return Surroundings({}, "redis://127.0.0.1:1/0", "", "q", secrets=str(tmp_path))


def test_checkpoints_go_to_the_bucket_that_the_query_names(s3_client: Any, around: Surroundings) -> None:
    s3_client.create_bucket(Bucket="joins")
    place = f'{{bucket: joins, prefix: "here/", endpoint: "{s3_client.meta.endpoint_url}", region: us-east-1'
    made = query(f"{{s3: {place}, secretRef: {{name: s3-user}}}}}}")
    look_at_store(around, made, False, never)
    store = checkpoint_store(around, made, "joiner 0L0.0", "topic-1")
    manifest = Manifest(9, 1, 1, 0, (BlobRef("a", 0, 1, 0, False),))
    assert store.put("a", b"x")
    assert store.publish(OWNER, manifest) is Publication.PUBLISHED
    keys = [item["Key"] for item in s3_client.list_objects_v2(Bucket="joins")["Contents"]]
    assert keys[0] == "here/q@topic-1/blobs/a" and keys[1].startswith("here/q@topic-1/manifests/")
    assert checkpoint_store(around, made, "joiner 0L0.0", "topic-1").load(OWNER) == (manifest,)


def test_who_begins_anew_in_topics_of_the_same_names_finds_no_checkpoint_and_is_not_refused(
    s3_client: Any, around: Surroundings
) -> None:
    s3_client.create_bucket(Bucket="anew")
    place = f'{{bucket: anew, endpoint: "{s3_client.meta.endpoint_url}", region: us-east-1'
    made = query(f"{{s3: {place}, secretRef: {{name: s3-user}}}}}}")
    before = checkpoint_store(around, made, "joiner 0L0.0", "topic-1")
    assert before.publish(OWNER, Manifest(9 << 32, 7, 7, 0, ())) is Publication.PUBLISHED
    anew = checkpoint_store(around, made, "joiner 0L0.0", "topic-2")
    assert anew.load(OWNER) == ()
    assert anew.publish(OWNER, Manifest(1 << 32, 8, 8, 0, ())) is Publication.PUBLISHED


def test_a_bucket_that_is_not_there_is_refused(s3_client: Any, around: Surroundings) -> None:
    place = f'{{bucket: nowhere, endpoint: "{s3_client.meta.endpoint_url}", region: us-east-1'
    made = query(f"{{s3: {place}, secretRef: {{name: s3-user}}}}}}")
    with pytest.raises(Refused, match="bucket nowhere: there is no such bucket; make it, or correct"):
        look_at_store(around, made, True, never)


def test_a_server_that_does_not_answer_is_unavailable(around: Surroundings) -> None:
    endpoint = f"http://127.0.0.1:{processes.free_port()}"
    bucket = bucket_of(around, Bucket("joins", endpoint=endpoint, region="us-east-1", secret="s3-user"))
    with pytest.raises(StoreUnavailable):
        ObjectStore(bucket, "q").load(OWNER)


class Refusing(BaseHTTPRequestHandler):
    """A server of buckets that takes nobody's keys."""

    def do_GET(self) -> None:
        self.send_response(403)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(b"<Error><Code>InvalidAccessKeyId</Code><Message>no</Message></Error>")

    do_HEAD = do_PUT = do_GET

    def log_message(self, *args: object) -> None:
        """Nothing."""


@pytest.fixture
def refusing() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Refusing)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_keys_that_are_refused_stop_a_query_that_has_not_begun_and_warn_one_that_has(
    refusing: str, around: Surroundings, caplog: pytest.LogCaptureFixture
) -> None:
    place = f'{{bucket: joins, endpoint: "{refusing}", region: us-east-1, secretRef: {{name: s3-user}}}}'
    made = query(f"{{s3: {place}}}")
    with pytest.raises(Refused, match=r"bucket joins: it refuses us \(403\); correct its Secret or its secretRef"):
        look_at_store(around, made, False, never)
    with caplog.at_level(logging.WARNING):
        look_at_store(around, made, True, never)
    (said,) = [record.getMessage() for record in caplog.records if record.name.startswith("biclique")]
    assert "units work on without checkpoints until it is corrected" in said
    bucket = bucket_of(around, Bucket("joins", endpoint=refusing, region="us-east-1", secret="s3-user"))
    with pytest.raises(StoreRefusal, match=r"it refuses us \(InvalidAccessKeyId\)"):
        ObjectStore(bucket, "q").load(OWNER)
