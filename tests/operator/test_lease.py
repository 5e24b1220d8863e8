"""Who leads, by clocks that need not agree."""

from __future__ import annotations

import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from kubernetes import client

from biclique_operator.cluster import Cluster, Unreachable
from biclique_operator.lease import DURATION_S, GIVE_UP_S, Lease
from biclique_operator.telemetry import silent
from tests.operator.memory_cluster import MemoryCluster
from tests.operator.stage import Clock


class Candidate:
    def __init__(self, cluster: Any, name: str, lease: str = "biclique-operator") -> None:
        self.clock = Clock(lambda: 0.0)
        self.told: list[bool] = []
        self.lease = Lease(cluster, "biclique-system", lease, name, self.told.append, self.clock)

    def turn(self, after_s: float = 0.0) -> bool:
        self.clock.passes(after_s)
        self.lease._turn()
        self.lease._tell()
        return self.lease.is_held


def test_one_of_two_leads() -> None:
    cluster = MemoryCluster(Clock())
    one, two = Candidate(cluster, "one"), Candidate(cluster, "two")
    assert one.turn() and not two.turn()
    for _ in range(10):
        assert one.turn(3) and not two.turn(3)
    assert one.told == [True] and two.told == []


def test_two_installations_in_one_namespace_lead_each_for_itself() -> None:
    cluster = MemoryCluster(Clock())
    one, other = Candidate(cluster, "one", "orders-operator"), Candidate(cluster, "two", "clicks-operator")
    assert one.turn() and other.turn() and one.turn(3) and other.turn(3)


def test_one_that_is_not_renewed_is_taken_over_by_the_own_clock() -> None:
    cluster = MemoryCluster(Clock())
    one, two = Candidate(cluster, "one"), Candidate(cluster, "two")
    one.turn()
    assert not two.turn(1000), "what its clock says of the other's time counts for nothing"
    assert not two.turn(DURATION_S - 1)
    assert two.turn(2)
    assert not one.turn(1)
    assert (one.told, two.told) == ([True, False], [True])


def test_who_cannot_renew_stops_writing_before_another_may_begin() -> None:
    cluster = MemoryCluster(Clock())
    one = Candidate(cluster, "one")
    assert one.turn()
    cluster.before_write = _raise  # type: ignore[assignment]
    with pytest.raises(Unreachable):
        one.turn(1)
    one.clock.passes(GIVE_UP_S)
    assert not one.lease.is_held


def _raise(*about: object) -> None:
    raise Unreachable("the API is away")


def test_one_that_ends_lets_go_at_once() -> None:
    cluster = MemoryCluster(Clock())
    one, two = Candidate(cluster, "one"), Candidate(cluster, "two")
    one.turn()
    two.turn()
    stopping = threading.Event()
    stopping.set()
    one.lease.run(stopping)
    assert not one.lease.is_held
    assert two.turn(0.1)


def test_whoever_is_second_by_a_hair_does_not_lead() -> None:
    cluster = MemoryCluster(Clock())
    one, two = Candidate(cluster, "one"), Candidate(cluster, "two")
    real = cluster.create

    def overtaken(desired: dict[str, Any]) -> dict[str, Any]:
        cluster.create = real  # type: ignore[method-assign]
        one.turn()
        return real(desired)

    cluster.create = overtaken  # type: ignore[method-assign]
    assert not two.turn()
    assert one.lease.is_held


def test_a_write_that_hangs_has_ended_before_another_may_lead() -> None:
    """Begun at the last moment, and taken by a server that says nothing: nothing of it may count later."""
    asked: list[str] = []

    class Silent(BaseHTTPRequestHandler):
        def do_PATCH(self) -> None:
            asked.append(self.path)
            ended.wait(30)

        def log_message(self, *about: object) -> None:
            """Nobody reads it."""

    ended, server = threading.Event(), ThreadingHTTPServer(("127.0.0.1", 0), Silent)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    settings = client.Configuration(host=f"http://127.0.0.1:{server.server_port}")
    settings.retries = False
    began = time.monotonic()
    try:
        with pytest.raises(Unreachable):
            Cluster(client.ApiClient(settings), silent()).merge("ConfigMap", "default", "any", {})
        took_s = time.monotonic() - began
    finally:
        ended.set()
        server.shutdown()
        server.server_close()
    assert GIVE_UP_S + took_s < DURATION_S
    (told,) = parse_qs(urlsplit(asked[0]).query)["timeout"]
    assert GIVE_UP_S + float(told.removesuffix("s")) < DURATION_S, "the server gives it up, too"
