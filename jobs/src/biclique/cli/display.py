"""How far a run is, on stderr: a live line on a terminal, a line every few seconds elsewhere."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime
from types import TracebackType
from typing import Self, TextIO

from biclique.hosts.summary import Facts
from biclique.query.model import Query
from biclique.tiers.messages import TIME_NEVER

PLAIN_SECONDS = 5.0
COLUMNS = 120  # where a terminal does not say


class Display:
    def __init__(self, query: Query, stream: TextIO) -> None:
        self._names = [source.name for source in query.sources]
        self._stream, self._live = stream, stream.isatty()
        self._shown = 0  # width of the live line
        self._last: tuple[float, int, int] = (0.0, 0, 0)  # seconds, rows in, rows out at the line before

    def __enter__(self) -> Self:
        if self._live:
            self._line("starting …")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live and self._shown:
            self._stream.write("\r" + " " * self._shown + "\r")
            self._stream.flush()

    def __call__(self, facts: Facts) -> None:
        seconds, rows_in, rows_out = self._last
        since = facts.seconds - seconds
        if since < (0.5 if self._live else PLAIN_SECONDS):
            return
        total = sum(facts.rows_in)
        parts = [
            " + ".join(f"{n:,} {name}" for name, n in zip(self._names, facts.rows_in, strict=True)),
            f"{short((total - rows_in) / since)} rows/s",
            f"{facts.rows_out:,} out ({short((facts.rows_out - rows_out) / since)}/s)",
            f"holds {short(sum(rows for rows, _ in facts.state))} rows, {short(sum(size for _, size in facts.state))}B",
        ]
        if facts.watermark > TIME_NEVER:
            parts.append(f"watermark {moment(facts.watermark)}")
        self._last = (facts.seconds, total, facts.rows_out)
        self._line(" · ".join(parts))

    def _line(self, text: str) -> None:
        if self._live:
            text = text[: self._columns() - 1]  # a line that wraps cannot be written over
            self._stream.write("\r" + text.ljust(self._shown))
            self._shown = len(text)
        else:
            self._stream.write(f"{time.strftime('%H:%M:%S')} {text}\n")
        self._stream.flush()

    def _columns(self) -> int:
        """Asked each time: people resize windows."""
        try:
            return os.get_terminal_size(self._stream.fileno()).columns or COLUMNS
        except OSError:
            return COLUMNS


def short(number: float) -> str:
    for bound, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= bound:
            return f"{number / bound:.1f}{unit}"
    return f"{number:.0f}"


def moment(micros: int) -> str:
    try:
        return datetime.fromtimestamp(micros / 1e6, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError, OSError):
        return "beyond the calendar"
