"""RFC 4180 records in bytes: where each ends, and which are malformed.

A record is fields between commas, ended by LF or CRLF, or by the file's end. A field is quoted (any bytes, a quote
written twice) or has neither quote nor CR nor LF. What is not so is malformed, and ends with the first LF behind the
fault; a quote that is never closed, or not within RECORD_BYTES_MAX of its record's start, takes its record only up to
its first LF.

The fast way counts quotes: a LF with an even number of quotes before it ends a record, given that every odd quote
begins a field and every even one is followed by a comma, a line end or another quote. Up to the first place where
that does not hold the fast way is right; from there some records are matched one by one, then it goes on.
"""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from biclique.hosts.parsing.splitting import RECORD_BYTES_MAX, Split

SLOW_RECORDS = 64  # matched one by one behind the first fault, twice as many behind each next: faults come in crowds

LF, CR, COMMA, QUOTE = b'\n\r,"'
# Possessive, so that nothing is tried twice: time is linear in the bytes.
_FIELD = rb'(?:"(?:[^"]++|"")*+"|[^",\r\n]*+)'
_FIELDS = re.compile(_FIELD + rb"(?:," + _FIELD + rb")*+")


def split_csv(data: bytes, final: bool) -> Split:
    parts: list[NDArray[np.int64]] = []
    malformed: dict[int, str] = {}
    at = count = 0
    limit = SLOW_RECORDS
    while at < len(data):
        ends, fault = _fast(data, at, final)
        parts.append(ends)
        count += len(ends)
        if len(ends):
            at = int(ends[-1])
        if fault is None:
            break
        slow, bad = _one_by_one(data, at, final, limit)
        malformed |= {count + record: reason for record, reason in bad.items()}
        parts.append(np.array(slow, np.int64))
        count += len(slow)
        if len(slow) < limit:
            break
        at = slow[-1]
        limit *= 2
    return Split(np.concatenate([np.zeros(0, np.int64), *parts]), malformed)


def _fast(data: bytes, at: int, final: bool) -> tuple[NDArray[np.int64], int | None]:
    """The ends behind `at` up to the first fault, and where that is."""
    bytes_ = np.frombuffer(data, np.uint8)[at:]
    newlines = np.flatnonzero(bytes_ == LF)
    quotes = np.flatnonzero(bytes_ == QUOTE) if data.find(b'"', at) >= 0 else np.zeros(0, np.int64)
    faults = [_first_quote_fault(bytes_, quotes, final), _first_bare_return(data, bytes_, at, quotes, final)]
    if len(quotes):
        newlines = newlines[np.searchsorted(quotes, newlines) % 2 == 0]
    ends = newlines + 1
    open_quote = len(quotes) % 2 == 1
    if final and not open_quote and len(bytes_) > (ends[-1] if len(ends) else 0):
        ends = np.append(ends, len(bytes_))
    if open_quote and (final or len(bytes_) - quotes[-1] > RECORD_BYTES_MAX):
        faults.append(int(quotes[-1]))
    long = np.flatnonzero(np.diff(ends, prepend=0) > RECORD_BYTES_MAX)
    if len(long):
        faults.append(int(ends[long[0] - 1]) if long[0] else 0)
    fault = min((f for f in faults if f is not None), default=None)
    if fault is not None:
        ends = ends[: np.searchsorted(ends, fault, side="right")]
    return ends + at, fault


def _first_quote_fault(bytes_: NDArray[np.uint8], quotes: NDArray[np.int64], final: bool) -> int | None:
    opening, closing = quotes[0::2], quotes[1::2]
    if not len(opening):
        return None
    before = np.where(opening > 0, bytes_[opening - 1], LF)
    doubled = np.zeros(len(opening), np.bool_)
    doubled[1:] = opening[1:] == closing[: len(opening) - 1] + 1
    begins = (before == COMMA) | (before == LF) | doubled
    padded = np.append(bytes_, np.array([LF, LF], np.uint8))  # what is not there yet is not at fault
    after, next_ = padded[closing + 1], padded[closing + 2]
    ends = (after == COMMA) | (after == LF) | (after == QUOTE) | ((after == CR) & (next_ == LF))
    wrong = [*opening[~begins][:1].tolist(), *closing[~ends][:1].tolist()]
    return min(wrong, default=None)


def _first_bare_return(
    data: bytes, bytes_: NDArray[np.uint8], at: int, quotes: NDArray[np.int64], final: bool
) -> int | None:
    if data.find(b"\r", at) < 0:
        return None
    returns = np.flatnonzero(bytes_ == CR)
    after = np.append(bytes_, COMMA if final else LF)[returns + 1]
    bare = returns[after != LF]
    outside = bare[np.searchsorted(quotes, bare) % 2 == 0]
    return int(outside[0]) if len(outside) else None


def _one_by_one(data: bytes, at: int, final: bool, limit: int) -> tuple[list[int], dict[int, str]]:
    """The ends of some records from `at` on; fewer than `limit`: no more can be told from these bytes."""
    ends: list[int] = []
    malformed: dict[int, str] = {}
    while len(ends) < limit and at < len(data):
        found = _FIELDS.match(data, at)
        assert found is not None  # an empty field matches anywhere
        stop = found.end()
        rest = data[stop : stop + 2]
        end: int | None = None
        if rest[:1] == b"\n":
            end = stop + 1
        elif rest == b"\r\n":
            end = stop + 2
        elif not rest and final:
            end = stop
        if end is not None and end - at <= RECORD_BYTES_MAX:
            at = end
            ends.append(at)
            continue
        unclosed = rest[:1] == b'"' and (stop == at or data[stop - 1 : stop] == b",")
        long = end is not None or (unclosed and len(data) - at > RECORD_BYTES_MAX)
        if not (long or final) and (unclosed or len(rest) < 2):
            break
        newline = data.find(b"\n", at if long or unclosed else stop)
        if newline < 0 and not final:
            break
        malformed[len(ends)] = _reason(rest[:1], long, unclosed)
        at = newline + 1 if newline >= 0 else len(data)
        ends.append(at)
    return ends, malformed


def _reason(fault: bytes, long: bool, unclosed: bool) -> str:
    if long:
        return f"longer than {RECORD_BYTES_MAX >> 20} MiB, or a quote is not closed"
    if unclosed:
        return "a quote is not closed"
    if fault == b"\r":
        return "a carriage return outside quotes"
    return "a quote in a field that does not begin with one, or text behind a closing quote"
