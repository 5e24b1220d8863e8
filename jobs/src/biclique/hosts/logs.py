"""What a tier says, on stderr: an object of JSON on each line, or a line of words where a person is looking.

    {"time": …, "level": …, "query": …, "tier": …, "unit": …, "event": …, "message": …, and what else the event tells}

The event is a short name that does not change, given with each call (`extra={"event": …}`, held by a test); the message
is the sentence for people. Whoever else logs in this process (a library) has its logger's name as event, and says
something once a minute at most: a collector that is away is no reason to fill a disk.
What goes to stderr past all loggers is an event, too (stray_lines.py).
A secret never comes here on purpose; should one stand in an address or behind a telling name, it is struck out.
"""

from __future__ import annotations

import json
import logging
import re
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, TextIO

from biclique.hosts.stray_lines import StrayLines

OURS = "biclique"
OF_A_RECORD = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName", "event"}
ADDRESS = re.compile(r"(?<=://)[^/\s@]*:[^/\s@]*@")
TELLING = r"password|passwd|secret|token|credential|authorization|api[._-]?key"
NAMED = re.compile(rf"(?i)((?:{TELLING})[\w.-]*[\"']?\s*[=:]\s*[\"']?)((?:(?:basic|bearer)\s+)?[^\s\"',;&]+)")
STRUCK = "***"
OTHERS_S = 60.0
WHOSE = "BICLIQUE_WHOSE"  # in the environment of Spark's Python: query and tier


def without_secrets(text: str) -> str:
    return NAMED.sub(rf"\1{STRUCK}", ADDRESS.sub(f"{STRUCK}@", text))


def facts_of(record: logging.LogRecord) -> dict[str, Any]:
    """What a call told besides its sentence."""
    told = {name: value for name, value in record.__dict__.items() if name not in OF_A_RECORD}
    return {name: STRUCK if re.search(TELLING, name, re.IGNORECASE) else _plain(value) for name, value in told.items()}


def _plain(value: object) -> object:
    return value if isinstance(value, int | float | bool | None) else without_secrets(str(value))


def event_of(record: logging.LogRecord) -> str:
    return str(getattr(record, "event", record.name))


class JsonLines(logging.Formatter):
    """`whose`: query, tier and unit of this process."""

    def __init__(self, whose: Mapping[str, str]) -> None:
        super().__init__()
        self._whose = whose

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line = {
            "time": moment.replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            **self._whose,
            "event": event_of(record),
            "message": without_secrets(record.getMessage()),
            **facts_of(record),
        }
        if record.exc_info:
            line["error"] = without_secrets(self.formatException(record.exc_info))
        return json.dumps(line, ensure_ascii=False, default=str)


class Words(logging.Formatter):
    """For a person: time, whose, sentence. What the sentence says, the facts need not say again."""

    def __init__(self, whose: Mapping[str, str]) -> None:
        super().__init__()
        self._whose = " ".join(part for part in (whose["tier"], whose["unit"]) if part)

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created).astimezone().strftime("%H:%M:%S")
        level = "" if record.levelno <= logging.INFO else f"{record.levelname.lower()}: "
        line = f"{moment} {self._whose}: {level}{without_secrets(record.getMessage())}"
        if record.exc_info:
            line += "\n" + without_secrets(self.formatException(record.exc_info))
        return line


class NowAndThen(logging.Filter):
    """Lets pass what is ours, and of every other logger a line a minute."""

    def __init__(self) -> None:
        super().__init__()
        self._last: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        if record.name.split(".")[0] == OURS:
            return True
        if record.created < self._last.get(record.name, float("-inf")) + OTHERS_S:
            return False
        self._last[record.name] = record.created
        return True


class TierLines(logging.StreamHandler[TextIO]):
    """The one handler of a tier's process."""


def begin_logging(query: str, tier: str, unit: str = "", stream: TextIO | None = None) -> None:
    """From now on; said again, it changes whose lines these are. `unit`: empty in a tier's driver."""
    given = stream if stream is not None else _stderr()
    whose = {"query": query, "tier": tier, "unit": unit}
    handler = TierLines(given)
    handler.setFormatter(Words(whose) if given.isatty() else JsonLines(whose))
    handler.addFilter(NowAndThen())
    root = logging.getLogger()
    root.handlers[:] = [other for other in root.handlers if not isinstance(other, TierLines)]
    root.addHandler(handler)
    root.setLevel(logging.WARNING)
    logging.getLogger(OURS).setLevel(logging.INFO)
    sys.excepthook = _unforeseen
    if stream is None and not given.isatty():
        sys.stderr = StrayLines(given)


def begin_logging_as_told(environment: Mapping[str, str]) -> None:
    """Of a process that serves a tier, and knows nothing but its environment."""
    query, _, tier = environment.get(WHOSE, "").partition(" ")
    if tier:
        begin_logging(query, tier)


def _stderr() -> TextIO:
    return sys.stderr.below if isinstance(sys.stderr, StrayLines) else sys.stderr


def logging_begun() -> bool:
    return any(isinstance(handler, TierLines) for handler in logging.getLogger().handlers)


def end_logging() -> None:
    root = logging.getLogger()
    root.handlers[:] = [handler for handler in root.handlers if not isinstance(handler, TierLines)]
    sys.excepthook = sys.__excepthook__
    sys.stderr = _stderr()


def _unforeseen(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """A bug of ours, with all that is known of it."""
    message = f"unforeseen: {kind.__name__}: {error}"
    logging.getLogger(OURS).critical(message, exc_info=(kind, error, trace), extra={"event": "bug"})
