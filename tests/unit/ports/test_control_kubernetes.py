"""What a unit tells of itself, where a request of another thread of its driver's is still under way."""

from __future__ import annotations

import logging
import socketserver
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from kubernetes import client

from biclique.ports.control import Condition, State
from biclique.ports.control_kubernetes import ControlKubernetes
from biclique.ports.looking import Looking
from biclique.ports.refusals import Unreachable
from biclique.routing.table import RoutingTable

UNIT = "joiner 0L0.0"
WAITS, STANDS = Condition(State.WAITS, "Kafka is away"), Condition(State.STANDS, "no room")


class Api:
    """One ConfigMap. `slow`: what the watching thread writes takes a while to arrive."""

    def __init__(self) -> None:
        self.data: dict[str, str] = {}
        self.version = 1
        self.watched, self.ended = threading.Event(), threading.Event()

    def read_namespaced_config_map(self, *_: object, **__: object) -> client.V1ConfigMap:
        about = client.V1ObjectMeta(resource_version=str(self.version), annotations={})
        return client.V1ConfigMap(data=dict(self.data), metadata=about)

    def patch_namespaced_config_map(self, _: str, __: str, body: dict[str, Any], **___: object) -> client.V1ConfigMap:
        if threading.current_thread().name == "control":
            self.watched.set()
            time.sleep(0.3)
        self.version += 1
        for key, text in body["data"].items():
            self.data.pop(key, None)
            if text is not None:
                self.data[key] = text
        return self.read_namespaced_config_map()

    def list_namespaced_config_map(self, *_: object, **__: object) -> None:
        self.ended.wait(10)
        raise client.ApiException(status=500)


@pytest.fixture
def api() -> Iterator[Api]:
    made = Api()
    yield made
    made.ended.set()


def test_what_was_told_last_stands_where_the_watching_thread_is_telling_what_was_so_before(api: Api) -> None:
    control = ControlKubernetes(api, "shop", "orders-routing")  # type: ignore[arg-type]
    control._untold[UNIT] = WAITS  # as when it was told while the API was away
    control._looking.begin()
    assert api.watched.wait(5)
    control.tell(UNIT, STANDS)
    time.sleep(0.5)
    assert control.conditions() == {UNIT: STANDS}
    control.close()


def test_that_there_is_no_table_is_believed_of_no_copy(api: Api) -> None:
    control, other = (ControlKubernetes(api, "shop", "orders-routing") for _ in range(2))  # type: ignore[arg-type]
    assert control.table(None) is None
    other.publish(RoutingTable(0, {}, {}, {}))
    assert control.table(None) == RoutingTable(0, {}, {}, {}), "though no watch has told of it"
    for each in (control, other):
        each.close()


class Breaking(socketserver.BaseRequestHandler):
    """Where TLS begins, and does not come to its end: as of a server, or a load balancer before it, that goes."""

    def handle(self) -> None:
        self.request.recv(1)


def test_a_connection_that_breaks_within_tls_is_one_that_was_not_answered() -> None:
    """The client says so with an error of its own, which was the end of the thread that watches."""
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Breaking) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        settings = client.Configuration(host=f"https://127.0.0.1:{server.server_address[1]}")
        settings.verify_ssl, settings.retries = False, False
        control = ControlKubernetes(client.CoreV1Api(client.ApiClient(settings)), "shop", "orders-routing")
        with pytest.raises(Unreachable, match="the Kubernetes API does not answer"):
            control.noted()
        thread = control._looking._thread
        assert thread is not None
        thread.join(0.5)
        assert thread.is_alive()
        control.close()
        server.shutdown()


def test_who_looks_goes_on_whatever_a_look_comes_to(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("biclique.ports.looking.AWAY_S", 0.01)
    looks, enough = [0], threading.Event()

    def look() -> None:
        looks[0] += 1
        if looks[0] == 4:
            enough.set()
        raise KeyError("nobody thought of it")

    looking = Looking("control", look, 0.01)
    with caplog.at_level(logging.ERROR):
        looking.begin()
        assert enough.wait(10)
        looking.end()
    (said,) = [record.getMessage() for record in caplog.records]
    assert said == "unforeseen, in control: KeyError: 'nobody thought of it'"
