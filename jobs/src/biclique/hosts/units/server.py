"""The driver's own HTTP server: its probes, its status, and the control port of its units.

    GET  /ready          200, or 503 with the reason
    GET  /alive          200 while the driver's main loop turns, else 503
    GET  /status         board.py as JSON, without anything secret
    POST /control/…      a call of ports/control_relay.py; with the units' token

Nothing that a client does holds it up: a request has a largest size and a time within which it must have come, and
there are so many at once and no more; who comes beyond that is turned away, and units look again.
"""

from __future__ import annotations

import hmac
import json
import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import SHUT_RDWR, socket
from socketserver import TCPServer
from typing import Any

from biclique.hosts.units.board import Board
from biclique.ports.control import Control
from biclique.ports.control_relay import PATH, answer
from biclique.query.errors import QueryError

LOG = logging.getLogger(__name__)
REQUEST_S = 10.0
REQUEST_BYTES_MAX = 1 << 20
REQUESTS_MAX = 32  # at once


class StatusServer(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, address: tuple[str, int], board: Board, control: Control, token: str) -> None:
        self.board, self.control, self.token = board, control, token
        self._room = threading.BoundedSemaphore(REQUESTS_MAX)
        self._since: dict[socket, float] = {}
        super().__init__(address, Request)

    def server_bind(self) -> None:
        """Without asking what this machine is called: where no name server answers, that takes many seconds."""
        TCPServer.server_bind(self)
        self.server_port = self.server_address[1]

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._room.acquire(blocking=False):
            self.shutdown_request(request)
            return
        self._since[request] = time.monotonic()
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._since.pop(request, None)
            self._room.release()

    def service_actions(self) -> None:
        """Twice a second: whoever sends a byte now and then has had his time, too."""
        late = time.monotonic() - REQUEST_S
        for request, since in list(self._since.items()):
            if since < late:
                with suppress(OSError):  # it has gone meanwhile
                    request.shutdown(SHUT_RDWR)

    def handle_error(self, request: socket | tuple[bytes, socket], client_address: Any) -> None:
        """A client that went away, or sent what is no HTTP."""


class Request(BaseHTTPRequestHandler):
    server: StatusServer
    timeout = REQUEST_S

    def do_GET(self) -> None:
        board = self.server.board
        match self.path.partition("?")[0]:
            case "/ready":
                why = board.unready()
                self._say(503 if why else 200, why or "ready")
            case "/alive":
                alive = board.alive()
                self._say(200 if alive else 503, "alive" if alive else "the driver's main loop stands still")
            case "/status":
                self._say_json(200, board.status())
            case _:
                self._say(404, "there are /ready, /alive and /status")

    def do_POST(self) -> None:
        given = self.headers.get("Authorization", "").removeprefix("Bearer ")
        if not hmac.compare_digest(given.encode(), self.server.token.encode()):
            self._say(401, "this is for the tier's own units")
            return
        length = self.headers.get("Content-Length", "")
        if not length.isdigit() or int(length) > REQUEST_BYTES_MAX:
            self._say(413, f"a request has at most {REQUEST_BYTES_MAX} bytes")
            return
        try:
            arguments = json.loads(self.rfile.read(int(length)))
            status, said = answer(self.server.control, self.server.board, self.path.removeprefix(PATH), arguments)
        except (KeyError, TypeError, ValueError, AttributeError):
            self._say(400, "no such call")
            return
        if status == 200:
            self._say_json(status, said)
        else:
            self._say(status, said)

    def _say(self, status: int, text: str) -> None:
        self._send(status, text.encode(), "text/plain; charset=utf-8")

    def _say_json(self, status: int, value: Any) -> None:
        self._send(status, json.dumps(value, ensure_ascii=False).encode(), "application/json")

    def _send(self, status: int, body: bytes, kind: str) -> None:
        self.send_response_only(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *said: Any) -> None:
        """Probes come every few seconds; what is worth telling is told where it happens."""


@contextmanager
def serving(host: str, port: int, board: Board, control: Control, token: str) -> Iterator[int]:
    """Yields the port: the one that is asked for; of 0, any that is free. Raises QueryError."""
    try:
        server = StatusServer((host, port), board, control, token)
    except OSError as error:
        problem = f"nothing can be served at port {port} ({error.strerror})"
        raise QueryError("BICLIQUE_STATUS_PORT", problem, "choose a port that is free") from None
    thread = threading.Thread(target=server.serve_forever, name="status", daemon=True)
    thread.start()
    told = {"event": "status.served", "port": server.server_port}
    LOG.info("status is served at port %d", server.server_port, extra=told)
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join(REQUEST_S)
