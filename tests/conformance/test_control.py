"""One suite for every control port: versions in turn, attempts that only grow, sources that pause."""

from __future__ import annotations

import resource
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest

from biclique.hosts.units.board import Board
from biclique.hosts.units.server import serving
from biclique.plan.table import first_table
from biclique.ports.control import Condition, Control, OutOfTurn, Pause, State
from biclique.ports.control_folder import ControlFolder
from biclique.ports.controls import open_control, relay_at
from biclique.ports.table_json import decode_table, encode_table
from biclique.routing.table import Move, RoutingTable, Subgroup, UnitId
from tests.unit.tiers.building import plan

SQL = "SELECT r.v FROM r JOIN s ON r.k = s.k"
SUBGROUP = Subgroup(0, 1, 0)
OLD, NEW = UnitId(SUBGROUP, 0), UnitId(SUBGROUP, 1, 3)
SEEN_S = 20.0


Connect = Callable[[], Control]


@contextmanager
def folder(path: Path, request: pytest.FixtureRequest) -> Iterator[Connect]:
    yield lambda: ControlFolder(path / "control")


@contextmanager
def relay(path: Path, request: pytest.FixtureRequest) -> Iterator[Connect]:
    """Units, behind a driver with a folder."""
    control = ControlFolder(path / "control")
    board = Board("joiner", None, {"joiner 0L0.0": "0L0.0"}, control.stopping, control.paused)
    with serving("127.0.0.1", 0, board, control, "token") as port:
        yield lambda: open_control(relay_at("127.0.0.1", port), "token")


@contextmanager
def kubernetes(path: Path, request: pytest.FixtureRequest) -> Iterator[Connect]:
    """A ConfigMap in a real API, made as the operator makes it."""
    place = request.getfixturevalue("routing_config_map")
    yield lambda: open_control(place)


@pytest.fixture(params=[folder, relay, kubernetes], ids=lambda make: make.__name__)
def connect(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Connect]:
    """Each call is another process's connection to the same place."""
    with request.param(tmp_path, request) as connected, ExitStack() as open_ones:
        yield lambda: open_ones.enter_context(closing(connected()))


def seen(look: Callable[[], object], wanted: object) -> bool:
    """What another has written is seen within a moment, by those too who have looked before."""
    deadline = time.monotonic() + SEEN_S
    while look() != wanted:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def version(number: int) -> RoutingTable:
    return RoutingTable(
        number,
        stores={SUBGROUP: (OLD,), Subgroup(1, 2, 4): ()},
        probes={SUBGROUP: (OLD, NEW)},
        switch={n: 1 << (40 - n) for n in range(number)},
        moves=(Move(OLD, NEW, number),),
        stage_switch={(number, 0): 5, (number, 1): 6},
        born={NEW: number},
    )


def test_a_table_comes_back_whole() -> None:
    for table in (version(3), first_table(plan(SQL))):
        assert decode_table(encode_table(table)) == table


def test_the_newest_version_is_seen_by_everybody_and_the_older_ones_stay(connect: Connect) -> None:
    writer = connect()
    assert writer.table(None) is None
    for number in range(3):
        writer.publish(version(number))
    reader = connect()
    assert reader.table(None) == version(2)
    assert [reader.table(number) for number in range(4)] == [version(0), version(1), version(2), None]


def test_a_version_is_written_once_and_in_turn(connect: Connect) -> None:
    one, other = connect(), connect()
    one.publish(version(0))
    other.publish(version(0))
    with pytest.raises(OutOfTurn):
        other.publish(version(2))
    with pytest.raises(OutOfTurn):
        other.publish(RoutingTable(0, {}, {}, {}))
    other.publish(version(1))
    with pytest.raises(OutOfTurn):
        one.publish(version(0))


def test_of_many_that_ask_at_once_each_gets_an_attempt_of_its_own(connect: Connect) -> None:
    given: list[int] = []

    def ask() -> None:
        control = connect()
        given.extend(control.next_attempt("joiner 0L0.0") for _ in range(20))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(given) == list(range(1, 81))
    assert connect().attempts("joiner 0L0.0") == 80
    assert connect().attempts("a/b") == 0, "each name counts for itself"
    assert connect().next_attempt("a/b") == 1


def test_an_attempt_that_cannot_be_written_does_not_begin_to_count_anew(tmp_path: Path) -> None:
    control = ControlFolder(tmp_path)
    assert [control.next_attempt("joiner 0L0.0") for _ in range(11)] == list(range(1, 12))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))  # as on a disk that is full
    try:
        with pytest.raises(OSError, match="File too large"):
            control.next_attempt("joiner 0L0.0")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert control.attempts("joiner 0L0.0") == 11
    assert control.next_attempt("joiner 0L0.0") == 12


def test_a_unit_tells_how_it_is_until_it_tells_anew(connect: Connect) -> None:
    unit, reader = connect(), connect()
    stands, waits = Condition(State.STANDS, "no room / for “a step”"), Condition(State.WAITS, "Kafka is away")
    unit.tell("joiner 0L0.0#2", waits)
    unit.tell("joiner 0L0.0#2", stands)
    unit.tell("merger 1", waits)
    unit.tell("dispatcher 0", None)
    assert seen(reader.conditions, {"joiner 0L0.0#2": stands, "merger 1": waits})
    unit.tell("joiner 0L0.0#2", None)
    assert connect().conditions() == {"merger 1": waits}


def test_what_a_query_was_when_it_began_is_what_was_noted_last_before_its_first_table(connect: Connect) -> None:
    assert connect().noted() is None
    connect().note("first")
    late = connect()
    assert late.table(None) is None, "who looked before the table was there"
    connect().note("ä\nsecond")
    connect().publish(version(0))
    late.note("third")
    connect().note("fourth")
    assert connect().noted() == "ä\nsecond"


def test_where_nothing_was_noted_before_the_first_table_the_first_note_stands(connect: Connect) -> None:
    connect().publish(version(0))
    for text in ("first", "second"):
        connect().note(text)
    assert connect().noted() == "first"


def test_of_many_that_note_at_once_nobody_changes_what_who_has_published_then_reads(connect: Connect) -> None:
    publisher, enough = connect(), threading.Event()

    def note(name: str, control: Control) -> None:
        for number in range(20):
            control.note(f"{name} {number}")
            if enough.wait(0.005):
                break
        control.note(f"{name} at last")

    threads = [threading.Thread(target=note, args=(name, connect())) for name in "abc"]
    for thread in threads:
        thread.start()
    while publisher.noted() is None:
        time.sleep(0.001)
    publisher.publish(version(0))
    stands = publisher.noted()
    enough.set()
    for thread in threads:
        thread.join()
    assert stands is not None
    assert connect().noted() == stands


def test_a_pause_stands_until_it_is_resumed_whoever_looks(connect: Connect) -> None:
    writer = connect()
    assert writer.paused() == {}
    first = Pause("9 of 10 are bad: `x`", "schema 1")
    writer.pause("a/ü", first)
    connect().pause("a/ü", Pause("later", "schema 2"))
    connect().pause("b", Pause("why"))
    assert connect().paused() == {"a/ü": first, "b": Pause("why")}
    connect().resume("a/ü")
    connect().resume("never paused")
    assert seen(writer.paused, {"b": Pause("why")})


def test_a_person_pauses_with_a_file(tmp_path: Path) -> None:
    control = ControlFolder(tmp_path)
    (tmp_path / "paused" / "orders.json").write_text("maintenance")
    assert control.paused() == {"orders": Pause("by hand")}
    control.resume("orders")
    assert control.paused() == {}
