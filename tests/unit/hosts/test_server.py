"""The driver's server: who may ask what, and that nobody holds it up."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from biclique.hosts.units import server
from biclique.hosts.units.board import Board
from biclique.hosts.units.server import serving
from biclique.ports.control import Condition, State
from biclique.ports.control_folder import ControlFolder
from biclique.ports.control_relay import ControlRelay
from biclique.ports.refusals import Unreachable
from biclique.ports.reports import Figures, Report
from biclique.query.errors import QueryError
from tests.unit.hosts.test_board import TURNING

HERE, TOKEN, UNIT = "127.0.0.1", "the token", "joiner 0L0.0"


class Driver:
    def __init__(self, folder: Path) -> None:
        self.control = ControlFolder(folder)
        self.asked = False
        self.board = Board("joiner", None, {UNIT: "0L0.0"}, self.stopping, self.control.paused)
        self.port = 0

    def stopping(self) -> bool:
        return self.asked or self.control.stopping()

    def ask(self, method: str, path: str, body: bytes = b"", **headers: str) -> tuple[int, str]:
        connection = http.client.HTTPConnection(HERE, self.port, timeout=5)
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[Driver]:
    made = Driver(tmp_path / "control")
    with serving(HERE, 0, made.board, made.control, TOKEN) as made.port:
        yield made


def test_probes_and_status(driver: Driver) -> None:
    assert driver.ask("GET", "/ready") == (503, "the tier begins")
    driver.board.say("")
    driver.board.reported(UNIT, TURNING)
    assert driver.ask("GET", "/ready?x=1") == (200, "ready")
    assert driver.ask("GET", "/alive") == (200, "alive")
    status, text = driver.ask("GET", "/status")
    assert (status, json.loads(text)) == (200, driver.board.status())
    assert TOKEN not in text
    assert driver.ask("GET", "/")[0] == 404


def test_only_the_tiers_own_units_are_answered(driver: Driver) -> None:
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": f"Bearer {TOKEN}x"}):
        assert driver.ask("POST", "/control/attempts", b'["a"]', **headers)[0] == 401
    ours = {"Authorization": f"Bearer {TOKEN}"}
    assert driver.ask("POST", "/control/attempts", b'["a"]', **ours) == (200, "0")
    for path, body in (("stop", b"[]"), ("attempts", b"[]"), ("attempts", b"no json"), ("tell", b'["a", 3]')):
        assert driver.ask("POST", f"/control/{path}", body, **ours) == (400, "no such call")
    assert driver.ask("GET", "/control/noted", **ours)[0] == 404
    large = {"Content-Length": str(server.REQUEST_BYTES_MAX + 1)}
    assert driver.ask("POST", "/control/note", **ours, **large)[0] == 413, "and it is not read first"


def test_what_units_tell_and_show_is_on_the_board_and_what_is_told_at_the_control_port(driver: Driver) -> None:
    relay = ControlRelay(HERE, driver.port, TOKEN)
    relay.tell(UNIT, Condition(State.STANDS, "no room"))
    assert driver.control.conditions() == {UNIT: Condition(State.STANDS, "no room")}
    assert relay.show(UNIT, lambda: Report(5, 0.2, Figures(load=0.7)))
    assert not relay.stopping()
    driver.asked = True
    deadline = time.monotonic() + 5
    while not relay.stopping():
        assert time.monotonic() < deadline, "the driver was asked by a signal, and its units heard nothing"
        time.sleep(0.05)
    shown = driver.board.status()["units"]["0L0.0"]
    assert (shown["state"], shown["why"], shown["epoch"]) == ("stands still", "no room", 5)
    assert shown["figures"]["load"] == 0.7
    relay.close()


def test_a_unit_goes_on_while_its_driver_is_slow_or_away(tmp_path: Path) -> None:
    """Only an attempt is waited for; what is told meanwhile is told later."""
    driver = Driver(tmp_path / "control")
    with serving(HERE, 0, driver.board, driver.control, TOKEN) as driver.port:
        relay = ControlRelay(HERE, driver.port, TOKEN)
        assert relay.table(None) is None
    began = time.monotonic()
    for _ in range(1000):
        assert not relay.stopping()
        assert relay.table(None) is None
    relay.tell(UNIT, Condition(State.STANDS, "no room"))
    assert time.monotonic() < began + 1
    with pytest.raises(Unreachable, match=r"^the tier's driver at 127\.0\.0\.1:\d+ does not answer"):
        relay.next_attempt(UNIT)
    with serving(HERE, driver.port, driver.board, driver.control, TOKEN):
        deadline = time.monotonic() + 10
        while not driver.control.conditions():
            assert time.monotonic() < deadline, "what was told meanwhile is lost"
            time.sleep(0.05)
        assert relay.next_attempt(UNIT) == 1
    relay.close()


def test_who_sends_slowly_or_nothing_is_let_go(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "REQUEST_S", 1.0)
    slow = socket.create_connection((HERE, driver.port))
    slow.sendall(b"POST /control/attempts HTTP/1.0\r\n")

    def dribble() -> None:
        with suppress(OSError):
            while True:
                slow.sendall(b"x")
                time.sleep(0.2)

    threading.Thread(target=dribble, daemon=True).start()
    deadline = time.monotonic() + 5
    while any("process_request" in thread.name for thread in threading.enumerate()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    slow.close()


def test_who_comes_when_there_is_no_room_is_turned_away_and_nobody_else(driver: Driver) -> None:
    held = [socket.create_connection((HERE, driver.port)) for _ in range(server.REQUESTS_MAX)]
    deadline = time.monotonic() + 5
    while True:
        try:
            driver.ask("GET", "/alive")
        except (http.client.HTTPException, ConnectionError):
            break
        assert time.monotonic() < deadline
    held.pop().close()
    deadline = time.monotonic() + 5
    while True:
        try:
            assert driver.ask("GET", "/alive")[0] == 200
            break
        except (http.client.HTTPException, ConnectionError):
            assert time.monotonic() < deadline
            time.sleep(0.05)
    for one in held:
        one.close()


def test_a_port_that_is_taken_is_one_sentence(driver: Driver) -> None:
    second = serving(HERE, driver.port, driver.board, driver.control, TOKEN)
    with pytest.raises(QueryError, match="nothing can be served at port"), second:
        pass
