"""Logs as lines of JSON on stderr, as the tiers write them; where a person looks on, as text."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime

STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "taskName", "settings", "k8s_skip", "k8s_ref"}


class JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        told = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **{key: value for key, value in vars(record).items() if key not in STANDARD},
        }
        if record.exc_info:
            told["traceback"] = self.formatException(record.exc_info)
        return json.dumps(told, default=str, ensure_ascii=False)


def begin_logging() -> None:
    handler = logging.StreamHandler(sys.stderr)
    person = sys.stderr.isatty()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s") if person else JsonLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO)
