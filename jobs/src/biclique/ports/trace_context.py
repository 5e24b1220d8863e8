"""Where a trace stands, as a text that travels: the `traceparent` of W3C Trace Context, version 00.

    00-<trace id: 32 hexadecimal digits>-<span id: 16>-<flags: 2>

In a record's `trace` field and in a message's header the empty text means that nobody follows it. What users' records
bring is not ours to trust: whatever does not read as such a text counts as none.
"""

from __future__ import annotations

import re
from typing import NamedTuple

HEADER = "traceparent"
SAMPLED = 1
_FORM = re.compile(r"(?!ff)[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(?:-.*)?")


class Context(NamedTuple):
    trace_id: int
    span_id: int
    sampled: bool

    def __str__(self) -> str:
        return f"00-{self.trace_id:032x}-{self.span_id:016x}-{SAMPLED if self.sampled else 0:02x}"


def context_of(text: str) -> Context | None:
    """None: no context, or none that can be read. A later version's is read as far as this one goes."""
    found = _FORM.fullmatch(text)
    if found is None or (text.startswith("00-") and len(text) != 55):
        return None
    trace_id, span_id, flags = (int(part, 16) for part in found.groups())
    return Context(trace_id, span_id, bool(flags & SAMPLED)) if trace_id and span_id else None


def followed(text: str) -> bool:
    """Whether somebody upstream has decided to record this trace."""
    context = context_of(text)
    return context is not None and context.sampled


def header_of(trace: str) -> dict[str, bytes]:
    return {HEADER: trace.encode()} if trace else {}
