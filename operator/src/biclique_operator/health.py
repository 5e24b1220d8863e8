"""What the kubelet asks the operator: whether it is alive, and whether it knows what there is.

Alive: its threads live, it has listed everything not too long ago, its watches tell what lists find and what it wrote
itself, and, where it leads, somebody takes what waits in the queue. Ready: it has listed everything once, so that it
could lead at once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Health:
    """`ailing`, `unready`: why not, in a sentence; None: all is well."""

    def __init__(self, port: int, ailing: Callable[[], str | None], unready: Callable[[], str | None]) -> None:
        answers = {"/healthz": ailing, "/readyz": unready}

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                ask = answers.get(self.path.partition("?")[0])
                why = "there is no such page" if ask is None else ask()
                self.send_response(404 if ask is None else 200 if why is None else 503)
                self.send_header("Content-Type", "text/plain; charset=utf-8")
                self.end_headers()
                self.wfile.write(f"{why or 'ok'}\n".encode())

            def log_message(self, *about: object) -> None:
                """The kubelet asks every few seconds."""

        self._server = ThreadingHTTPServer(("0.0.0.0", port), Handler)
        self.port = self._server.server_address[1]

    def begin(self) -> None:
        threading.Thread(target=self._server.serve_forever, name="health", daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
