"""What of the test server is decided here and not by Kafka."""

from __future__ import annotations

import uuid

from infra.kafka_server import cluster_id


def test_no_cluster_id_looks_like_an_option() -> None:
    # One in 64 random ids would begin with a dash, and Kafka's command line then finds no id.
    ids = [cluster_id(uuid.UUID(int=first << 122 | 12345)) for first in range(64)]
    assert not [one for one in ids if one.startswith("-")]
    assert {len(one) for one in ids} == {22}
