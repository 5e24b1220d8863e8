"""What goes to stderr past every logger: an object a line all the same, and nothing of connections that have ended."""

from __future__ import annotations

import io
import json
import logging
import os
import socket
import struct
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from biclique.hosts.logs import WHOSE, begin_logging, begin_logging_as_told, end_logging
from biclique.hosts.stray_lines import LINES_MAX, StrayLines


@contextmanager
def listening(stream: io.StringIO | None = None) -> Iterator[io.StringIO]:
    """To what goes to stderr while the log of a unit is written. pytest itself changes it before each test begins."""
    given, before, level = stream or io.StringIO(), sys.stderr, logging.getLogger().level
    sys.stderr = given
    try:
        begin_logging("q", "joiner", "0L0.0")
        yield given
        end_logging()
        assert sys.stderr is given
    finally:
        sys.stderr = before
        logging.getLogger().setLevel(level)


def told(stream: io.StringIO) -> list[tuple[str, str, str]]:
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert {(line["query"], line["tier"], line["unit"], line["event"]) for line in lines} <= {
        ("q", "joiner", "0L0.0", "stray")
    }
    return [(line["level"], line["message"], line.get("error", "")) for line in lines]


def raised(error: BaseException) -> None:
    try:
        raise error
    except BaseException:
        traceback.print_exc()


def test_a_traceback_is_one_event() -> None:
    with listening() as stderr:
        raised(ValueError("no such thing"))
    ((level, message, trace),) = told(stderr)
    assert (level, message) == ("warning", "ValueError: no such thing")
    assert trace.startswith("Traceback (most recent call last):\n") and trace.endswith("\n" + message)


def test_so_is_a_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading, "excepthook", threading.__excepthook__)  # pytest has its own
    with listening() as stderr:
        thread = threading.Thread(target=lambda: 1 / 0, name="a thread")
        thread.start()
        thread.join()
    ((_, message, trace),) = told(stderr)
    assert message == "ZeroDivisionError: division by zero"
    assert trace.startswith("Exception in thread a thread:\nTraceback")


def test_words_are_events_and_wait_for_their_lines_end() -> None:
    with listening() as stderr:
        print("half", end=" ", file=sys.stderr)
        assert told(stderr) == []
        print("a line", file=sys.stderr)
        assert told(stderr) == [("warning", "half a line", "")]


def of_spark(error: str) -> str:
    """As Spark's daemon prints it."""
    where = '  File "/venv/lib/python3.11/site-packages/pyspark/daemon.py", line 95, in worker\n    outfile.flush()\n'
    return f"Traceback (most recent call last):\n{where}{error}\n"


@pytest.mark.parametrize("error", ["BrokenPipeError: [Errno 32] Broken pipe", "ConnectionResetError", "EOFError"])
def test_that_sparks_connection_to_a_worker_has_ended_is_not_said(error: str) -> None:
    with listening() as stderr:
        sys.stderr.write(of_spark(error))
        sys.stderr.write(f"PySpark daemon failed to flush the output to the worker process:\n{of_spark(error)}\n")
        assert told(stderr) == []
        print("the next", file=sys.stderr)
    assert told(stderr) == [("warning", "the next", "")]


def test_that_another_connection_has_ended_is() -> None:
    with listening() as stderr:
        raised(EOFError())
    ((level, message, trace),) = told(stderr)
    assert (level, message) == ("warning", "EOFError") and trace.startswith("Traceback")


def test_what_a_message_has_behind_its_first_line_is_told_with_nothing_of_the_next() -> None:
    with listening() as stderr:
        print("ValueError: of Java", "  at this place", "  at that place", sep="\n", file=sys.stderr)
        raised(KeyError("another"))
        print("a line without an end", "  and more", sep="\n", end="", file=sys.stderr)
        sys.stderr.flush()
        sys.stderr.flush()
    found = told(stderr)
    assert [message for _, message, _ in found] == [
        "ValueError: of Java",
        "at that place",
        "KeyError: 'another'",
        "a line without an end",
        "and more",
    ]
    assert found[1][2] == "at this place\n  at that place" and found[2][2].startswith("Traceback")


def test_whoever_logs_while_another_writes_waits_for_nobody() -> None:
    """What a log's handler writes by the way goes here too, while it holds its own lock."""

    class Complaining(io.StringIO):
        complains = True

        def write(self, text: str) -> int:
            if self.complains and threading.current_thread().name == "logs":
                self.complains = False
                print("by the way", file=sys.stderr)
                self.complains = True
            return super().write(text)

    with listening(Complaining()) as stderr:
        log = logging.getLogger("biclique")
        writes = threading.Thread(target=lambda: [print("stray", file=sys.stderr) for _ in range(500)], daemon=True)
        logs = threading.Thread(
            target=lambda: [log.warning("a line", extra={"event": "stray"}) for _ in range(500)],
            name="logs",
            daemon=True,
        )
        for thread in (writes, logs):
            thread.start()
        for thread in (writes, logs):
            thread.join(60)
            assert not thread.is_alive()
    assert stderr.getvalue().count('"stray", "message": "stray"') == 500


def test_an_event_has_so_many_lines_at_the_most() -> None:
    with listening() as stderr:
        print("  indented\n" * (2 * LINES_MAX), end="", file=sys.stderr)
    assert len(told(stderr)) == 2


def test_a_secret_is_struck_out_of_them() -> None:
    with listening() as stderr:
        raised(ValueError("redis://user:hush@host"))
    assert told(stderr) and "hush@" not in stderr.getvalue()


def test_a_log_that_cannot_be_written_ends_nothing() -> None:
    class Gone(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError(32, "Broken pipe")

    with listening(Gone()):
        print("a line", file=sys.stderr)
        logging.getLogger("biclique").warning("another", extra={"event": "test"})


def test_begun_again_it_is_not_wrapped_again() -> None:
    with listening() as stderr:
        begin_logging("q", "joiner", "0L0.0")
        assert isinstance(sys.stderr, StrayLines) and sys.stderr.below is stderr


def test_a_persons_terminal_shows_them_as_they_are() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    with listening(Terminal()) as stderr:
        print("a line", file=sys.stderr)
    assert stderr.getvalue() == "a line\n"


def test_whose_process_it_is_stands_in_the_environment() -> None:
    with listening() as stderr:
        begin_logging_as_told({})
        print("still of the unit", file=sys.stderr)
        begin_logging_as_told({WHOSE: "other shuffler"})
        print("of a worker", file=sys.stderr)
    whose = [(line["query"], line["tier"], line["unit"]) for line in map(json.loads, stderr.getvalue().splitlines())]
    assert whose == [("q", "joiner", "0L0.0"), ("other", "shuffler", "")]


class Daemon:
    """Of Spark's workers, as Java starts it."""

    def __init__(self, folder: Path) -> None:
        settings = {
            **os.environ,
            "PYTHON_UNIX_DOMAIN_ENABLED": "true",
            "PYTHON_WORKER_FACTORY_SOCK_DIR": str(folder),
            "SPARK_REUSE_WORKER": "1",
            WHOSE: "q joiner",
        }
        command = [sys.executable, "-m", "biclique.hosts.task_daemon", "pyspark.worker"]
        pipe = subprocess.PIPE
        self.process: Any = subprocess.Popen(command, env=settings, stdin=pipe, stdout=pipe, stderr=pipe)
        (length,) = struct.unpack(">i", self.process.stdout.read(4))
        self.address = self.process.stdout.read(length).decode()

    def connected(self) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(30)
        connection.connect(self.address)
        return connection

    def said(self) -> str:
        """Until it was told to end, and had."""
        with self.process:
            _, said = self.process.communicate(timeout=30)
        return str(said.decode())


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """A socket's address has no more than 107 bytes."""
    with TemporaryDirectory() as name:
        yield Path(name)


def test_spark_may_end_its_connections_whenever_it_likes(short_folder: Path) -> None:
    daemon = Daemon(short_folder)
    daemon.connected().close()
    workers = []
    for sent in (b"", struct.pack(">i", 0), struct.pack(">i", 0) + b"\0\0"):
        with daemon.connected() as connection:
            workers.append(Path(f"/proc/{struct.unpack('>i', connection.recv(4))[0]}"))
            connection.sendall(sent)
    deadline = time.monotonic() + 30
    while any(worker.exists() for worker in workers):  # the daemon waits for none: who has ended is gone
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert daemon.said() == ""
