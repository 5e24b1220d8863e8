"""What comes in the place of an answer of the API's: whoever called hears that there was none."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from kubernetes import client

from biclique_operator.cluster import Cluster, Unreachable
from biclique_operator.telemetry import silent


@contextmanager
def answering(body: bytes, promised: int) -> Iterator[Cluster]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(promised))
            self.end_headers()
            self.wfile.write(body)
            self.close_connection = True

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    settings = client.Configuration(host=f"http://127.0.0.1:{server.server_port}")
    settings.retries = False
    try:
        yield Cluster(client.ApiClient(settings), silent())
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize(
    ("body", "promised"),
    [
        pytest.param(b'{"items": [', 1000, id="it breaks off"),
        pytest.param(b"<html>be right back</html>", 26, id="a proxy's page"),
        pytest.param(b"[]", 2, id="no object"),
    ],
)
def test_it_is_no_answer(body: bytes, promised: int) -> None:
    with answering(body, promised) as cluster, pytest.raises(Unreachable):
        cluster.list("Pod", "default")
