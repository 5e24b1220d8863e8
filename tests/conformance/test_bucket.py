"""A bucket as a query names it in `state.durable.s3`: reached with keys from a Secret, missed with one sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from biclique.hosts.units.connections import bucket_store, checkpoint_store
from biclique.hosts.units.spec import Surroundings
from biclique.hosts.units.start_up import look_at_store
from biclique.ports.checkpoints import StoreUnavailable
from biclique.ports.refusals import Refused
from biclique.query.compile import compile_manifest
from biclique.query.errors import QueryError
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
    store = checkpoint_store(around, made, "joiner 0L0.0")
    assert store.put("a", b"x")
    assert store.publish(OWNER, Manifest(1, 1, 1, 0, (BlobRef("a", 0, 1, 0, False),))) is Publication.PUBLISHED
    keys = [item["Key"] for item in s3_client.list_objects_v2(Bucket="joins")["Contents"]]
    assert keys[0] == "here/q/blobs/a" and keys[1].startswith("here/q/manifests/")


def test_a_bucket_that_is_not_there_is_refused(s3_client: Any, around: Surroundings) -> None:
    place = f'{{bucket: nowhere, endpoint: "{s3_client.meta.endpoint_url}", region: us-east-1'
    made = query(f"{{s3: {place}, secretRef: {{name: s3-user}}}}}}")
    with pytest.raises(Refused, match="bucket nowhere: there is no such bucket; make it, or correct"):
        look_at_store(around, made, True, never)


def test_a_server_that_does_not_answer_is_unavailable(around: Surroundings) -> None:
    endpoint = f"http://127.0.0.1:{processes.free_port()}"
    store = bucket_store(around, Bucket("joins", endpoint=endpoint, region="us-east-1", secret="s3-user"))
    with pytest.raises(StoreUnavailable):
        store.load(OWNER)


def test_a_volume_is_refused_by_the_tiers(around: Surroundings) -> None:
    with pytest.raises(QueryError, match=r"spec\.state\.durable\.volume: tiers keep no checkpoints on a volume yet"):
        look_at_store(around, query("{volume: {claimName: c}}"), False, never)
