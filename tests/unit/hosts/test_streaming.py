"""What the readers of source partitions keep ahead of their tasks has a bound, however many they are; and which sources
are read together."""

from __future__ import annotations

import pytest

from biclique.hosts.shuffle.streaming import (
    FETCH_BYTES,
    FETCH_BYTES_LEAST,
    FETCH_BYTES_OF_ALL,
    fetch_bytes,
    readers_of,
)


def test_a_few_partitions_are_read_in_large_pieces() -> None:
    assert fetch_bytes(1) == fetch_bytes(16) == FETCH_BYTES


@pytest.mark.parametrize("partitions", [17, 50, 128])
def test_many_share_a_bound(partitions: int) -> None:
    assert FETCH_BYTES_LEAST <= fetch_bytes(partitions) < FETCH_BYTES
    assert partitions * fetch_bytes(partitions) <= FETCH_BYTES_OF_ALL


def test_no_partition_gets_less_than_the_client_asks_for_by_itself() -> None:
    assert fetch_bytes(10_000) == FETCH_BYTES_LEAST


def test_sources_that_are_reached_in_the_same_way_are_read_together() -> None:
    here, there = {"kafka.bootstrap.servers": "a:1"}, {"kafka.bootstrap.servers": "b:1"}
    topics = ["r", "s", "t"]
    assert readers_of((0, 1, 2), topics.__getitem__, [here, here, here]) == ({"r": 0, "s": 1, "t": 2},)
    assert readers_of((0, 1, 2), topics.__getitem__, [here, there, here]) == ({"r": 0, "t": 2}, {"s": 1})
    assert readers_of((0, 2), topics.__getitem__, [here, there, here]) == ({"r": 0, "t": 2},), "the second pauses"


def test_two_sources_that_read_one_topic_are_read_apart() -> None:
    """Each of its records is one of each."""
    topics = ["r", "r", "s"]
    assert readers_of((0, 1, 2), topics.__getitem__, [{}] * 3) == ({"r": 0, "s": 2}, {"r": 1})
