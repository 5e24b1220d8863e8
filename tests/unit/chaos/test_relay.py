"""The relay forwards as if it were not there, and a cut holds bytes back without telling either end."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from infra.processes import free_port
from tests.chaos.relay import Relay, Way


@pytest.fixture
def echo() -> Iterator[int]:
    """A server that answers what it is sent, in capitals."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve(client: socket.socket) -> None:
        while data := client.recv(100):
            client.sendall(data.upper())
        client.close()

    def accept() -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=serve, args=(client,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    yield listener.getsockname()[1]
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()


@pytest.fixture
def relay(echo: int) -> Iterator[Relay]:
    made = Relay(free_port(), echo)
    yield made
    made.close()


def asked(client: socket.socket, text: bytes) -> bytes | None:
    client.sendall(text)
    return answer(client)


def answer(client: socket.socket) -> bytes | None:
    try:
        return client.recv(100)
    except TimeoutError:
        return None


@pytest.mark.parametrize("way", list(Way))
def test_a_cut_is_silence_and_what_was_under_way_arrives_when_it_heals(relay: Relay, way: Way) -> None:
    with socket.create_connection(("127.0.0.1", relay.port), timeout=0.3) as client:
        assert asked(client, b"before") == b"BEFORE"
        relay.cut(way)
        assert asked(client, b"meanwhile") is None
        relay.heal()
        client.settimeout(5)
        assert answer(client) == b"MEANWHILE"
        assert asked(client, b"after") == b"AFTER"


def test_who_comes_during_a_cut_is_heard_when_it_heals(relay: Relay) -> None:
    relay.cut(Way.BOTH)
    with socket.create_connection(("127.0.0.1", relay.port), timeout=0.3) as client:
        assert asked(client, b"hello") is None
        relay.heal()
        client.settimeout(5)
        assert answer(client) == b"HELLO"


def test_who_is_deafened_is_alone_with_it_and_hears_in_the_end(relay: Relay) -> None:
    with socket.create_connection(("127.0.0.1", relay.port), timeout=0.3) as deaf:
        assert asked(deaf, b"before") == b"BEFORE"
        relay.deafen()
        assert asked(deaf, b"meanwhile") is None
        with socket.create_connection(("127.0.0.1", relay.port), timeout=5) as other:
            assert asked(other, b"hello") == b"HELLO"
        relay.hear()
        deaf.settimeout(5)
        assert answer(deaf) == b"MEANWHILE"
        assert asked(deaf, b"after") == b"AFTER"


def test_the_end_of_one_is_the_end_of_the_other(relay: Relay, echo: int) -> None:
    with socket.create_connection(("127.0.0.1", relay.port), timeout=5) as client:
        assert asked(client, b"last") == b"LAST"
        client.shutdown(socket.SHUT_WR)
        assert client.recv(100) == b""


def test_where_nobody_listens_the_connection_ends() -> None:
    relay = Relay(free_port(), free_port())
    with socket.create_connection(("127.0.0.1", relay.port), timeout=20) as client:
        assert client.recv(100) == b""
    relay.close()
