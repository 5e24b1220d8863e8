"""A TCP relay on this machine that can stop forwarding, one way or both: a network that is cut, and heals.

Neither end learns of a cut but by waiting: connections stay open, new ones are taken, and no byte moves. What was on
its way arrives when the cut heals, as by TCP's own retransmission, so also the request of a client that has given up
long since. It needs no privilege, and cuts off one client of a server without the others.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from enum import Enum

CHUNK = 1 << 16
REFUSED_S = 0.5


class Way(Enum):
    BOTH = "both ways"
    REQUESTS = "requests are lost"
    ANSWERS = "answers are lost"


class Relay:
    """Listens on `port`, connects to `target`; both on 127.0.0.1."""

    def __init__(self, port: int, target: int) -> None:
        self.port, self._target = port, target
        self._requests, self._answers = threading.Event(), threading.Event()
        self._deafened: list[threading.Event] = []
        self._sockets: set[socket.socket] = set()
        self.heal()
        self._listener = socket.create_server(("127.0.0.1", port), backlog=128)
        threading.Thread(target=self._accept, daemon=True, name=f"relay-{port}").start()

    def cut(self, way: Way) -> None:
        if way is not Way.ANSWERS:
            self._requests.clear()
        if way is not Way.REQUESTS:
            self._answers.clear()

    def heal(self) -> None:
        self._requests.set()
        self._answers.set()

    def deafen(self) -> None:
        """Connections that are open now get no answer any more, and nobody learns of it; new ones are as ever."""
        self._answers.clear()
        self._deafened.append(self._answers)
        self._answers = threading.Event()
        self._answers.set()

    def hear(self) -> None:
        """What those that were deafened would have been told arrives, late."""
        for gate in self._deafened:
            gate.set()

    def close(self) -> None:
        self.heal()
        self.hear()
        for each in (self._listener, *list(self._sockets)):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return  # closed
            threading.Thread(target=self._join, args=(client,), daemon=True).start()

    def _join(self, client: socket.socket) -> None:
        self._requests.wait()  # a new connection gets no further than its first packet
        try:
            server = socket.create_connection(("127.0.0.1", self._target), timeout=10)
        except OSError:
            time.sleep(REFUSED_S)  # nobody listens there; who was let in here comes back as soon as it is let go
            client.close()
            return
        server.settimeout(None)
        for each in (client, server):
            with contextlib.suppress(OSError):  # the client may be gone again
                each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._sockets.add(each)
        for source, sink, gate in ((client, server, self._requests), (server, client, self._answers)):
            threading.Thread(target=self._pump, args=(source, sink, gate), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket, gate: threading.Event) -> None:
        """Until one end is closed; the other is then closed too, once nothing is cut."""
        with contextlib.suppress(OSError):
            while data := source.recv(CHUNK):
                gate.wait()
                sink.sendall(data)
        gate.wait()
        for each in (source, sink):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
            self._sockets.discard(each)
