"""How far a run is: the exact words, a live line on a terminal and plain lines elsewhere."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import struct
import termios
from contextlib import suppress
from dataclasses import replace

import pytest

from biclique.cli.display import Display, moment, short
from biclique.hosts.summary import Facts
from biclique.query.model import Query
from biclique.tiers.messages import TIME_NEVER
from tests.unit.plan.queries import query

NOON = 1_772_366_400_000_000  # 2026-03-01 12:00:00 UTC
FACTS = Facts(
    seconds=6.0,
    rows_in=(1_200_000, 800_000),
    rows_out=1_234_567,
    bytes_read=((0, 10), (5, 10)),
    watermark=NOON,
    state=((1_500, 3_000_000), (900, 2_000_000_000)),
)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def asked() -> Query:
    return query("SELECT a.id FROM a JOIN b ON a.n = b.n WITHIN 1 MINUTE")


def test_elsewhere_a_line_every_few_seconds_with_the_time_of_day_and_no_control_sequence() -> None:
    stream = io.StringIO()
    with Display(asked(), stream) as display:
        display(replace(FACTS, seconds=4.9))
        display(FACTS)
        display(replace(FACTS, seconds=10.9))
        display(
            replace(
                FACTS, seconds=16.0, rows_in=(1_200_500, 800_000), rows_out=1_234_567, watermark=TIME_NEVER, state=()
            )
        )
    first, second = stream.getvalue().splitlines()
    assert re.fullmatch(r"\d\d:\d\d:\d\d", first[:8])
    assert first[9:] == (
        "1,200,000 a + 800,000 b · 333.3k rows/s · 1,234,567 out (205.8k/s) · holds 2.4k rows, 2.0GB · "
        "watermark 2026-03-01 12:00:00"
    )
    assert second[9:] == "1,200,500 a + 800,000 b · 50 rows/s · 1,234,567 out (0/s) · holds 0 rows, 0B"
    assert stream.getvalue().replace("\n", "").isprintable()


def test_on_a_terminal_one_line_that_is_written_over_and_cleared() -> None:
    stream = Terminal()
    with Display(asked(), stream) as display:
        display(replace(FACTS, seconds=0.4))  # too soon
        display(replace(FACTS, seconds=1.0))
        display(replace(FACTS, seconds=2.0, rows_in=(1_200_001, 800_001), state=(), watermark=TIME_NEVER))
    start, long, shorter, cleared, nothing = stream.getvalue().removeprefix("\r").split("\r")
    assert start == "starting …"
    assert long.startswith("1,200,000 a + 800,000 b · 2.0M rows/s")
    assert shorter.rstrip() == "1,200,001 a + 800,001 b · 2 rows/s · 1,234,567 out (0/s) · holds 0 rows, 0B"
    assert len(shorter) == len(long)
    assert (cleared.strip(), nothing) == ("", "")
    assert "\n" not in stream.getvalue()


def test_on_a_narrow_terminal_the_line_is_cut_and_never_wraps() -> None:
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 60, 0, 0))
    with os.fdopen(slave, "w", encoding="utf-8") as stream, Display(asked(), stream) as display:
        display(FACTS)
    said = b""
    with os.fdopen(master, "rb", buffering=0) as screen, suppress(OSError):  # which is how its end is told
        while part := screen.read(4096):
            said += part
    _, _, shown, cleared, nothing = said.decode().split("\r")
    assert shown == "1,200,000 a + 800,000 b · 333.3k rows/s · 1,234,567 out (20"
    assert len(shown) == 59 and cleared == " " * 59 and nothing == ""


def test_a_run_that_ended_before_its_first_line_leaves_nothing_behind() -> None:
    stream = io.StringIO()
    with Display(asked(), stream):
        pass
    assert stream.getvalue() == ""


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0"), (999, "999"), (1_000, "1.0k"), (1_249_999, "1.2M"), (2_000_000_000, "2.0G"), (12.4, "12")],
)
def test_numbers_are_short(number: float, text: str) -> None:
    assert short(number) == text


def test_a_moment_beyond_the_calendar_is_said_to_be_one() -> None:
    assert moment(NOON) == "2026-03-01 12:00:00"
    assert moment(-1) == "1969-12-31 23:59:59"
    assert moment(1 << 62) == "beyond the calendar"
