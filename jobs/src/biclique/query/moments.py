"""Points in time and lengths of time as people write them, to the integers that the engine holds.

A timestamp is ISO 8601, to the microsecond; one without a zone is UTC, whatever the zone of the machine. Years are 1 to
9999. A duration in a manifest is a number and a unit without a space (`10m`); in SQL the unit is a word. Every function
returns None for what it does not understand: the caller knows the place and says the sentence.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

MICROSECONDS = {
    "ms": 1_000,
    "s": 1_000_000,
    "m": 60_000_000,
    "h": 3_600_000_000,
    "d": 86_400_000_000,
}
_WORDS = {"MILLISECOND": "ms", "SECOND": "s", "MINUTE": "m", "HOUR": "h", "DAY": "d"}
INTERVAL_UNITS = tuple(_WORDS)
DURATION_US_MAX = 36_525 * MICROSECONDS["d"]  # a hundred years: a bound that keeps every sum of times inside 64 bits

_DATE = re.compile(r"(\d{4})-(\d{2})-(\d{2})", re.ASCII)
_TIMESTAMP = re.compile(
    r"(\d{4}-\d{2}-\d{2})(?:[T ](\d{2}):(\d{2})(?::(\d{2})(?:\.(\d{1,6}))?)?(Z|[+-]\d{2}:\d{2})?)?", re.ASCII
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def days_of(text: str) -> int | None:
    """`2026-03-01` as days since 1970-01-01."""
    found = _DATE.fullmatch(text.strip())
    if not found:
        return None
    try:
        return date(*(int(part) for part in found.groups())).toordinal() - _EPOCH.toordinal()
    except ValueError:
        return None


def microseconds_of(text: str) -> int | None:
    """`2026-03-01`, `2026-03-01 12:00`, `2026-03-01T12:00:00.5+02:00` as microseconds since 1970-01-01 UTC."""
    found = _TIMESTAMP.fullmatch(text.strip())
    if not found:
        return None
    day, hour, minute, second, fraction, zone = found.groups()
    days = days_of(day)
    if days is None or int(hour or 0) > 23 or int(minute or 0) > 59 or int(second or 0) > 59:
        return None
    seconds = int(hour or 0) * 3600 + int(minute or 0) * 60 + int(second or 0)
    if zone and zone != "Z":
        hours, minutes = int(zone[1:3]), int(zone[-2:])
        if hours > 15 or minutes > 59:
            return None
        seconds -= (hours * 3600 + minutes * 60) * (1 if zone[0] == "+" else -1)
    micros = int((fraction or "").ljust(6, "0") or 0)
    try:  # a zone may carry the first or the last moment out of the years we hold
        moment = _EPOCH + timedelta(days=days, seconds=seconds, microseconds=micros)
    except OverflowError:
        return None
    return (moment - _EPOCH) // timedelta(microseconds=1)


def interval_us(number: str, unit: str) -> int | None:
    """`5` and `MINUTE` (or MINUTES, any case): whole microseconds, of either sign, within a hundred years."""
    word = unit.upper()
    short = _WORDS.get(word) or _WORDS.get(word.removesuffix("S"))
    if short is None or not re.fullmatch(r"-?\d{1,18}(\.\d{0,18})?", number, re.ASCII):
        return None
    value = Decimal(number) * MICROSECONDS[short]
    if value != value.to_integral_value() or abs(value) > DURATION_US_MAX:
        return None
    return int(value)


def duration_us(text: str) -> int | str:
    """`10m` as microseconds, or the rest of a sentence that begins with what was written."""
    found = re.fullmatch(r"\s*(-?)(\d{1,18}(?:\.\d{1,18})?)\s*([A-Za-zµ]*)\s*", text, re.ASCII)
    if not found:
        return "is no duration"
    sign, number, unit = found.groups()
    if not unit:
        return "has no unit"
    if unit not in MICROSECONDS:
        return f"has the unknown unit {unit}"
    if sign and Decimal(number):
        return "is negative"
    value = Decimal(number) * MICROSECONDS[unit]
    if value > DURATION_US_MAX:
        return "is longer than a hundred years"
    if value != value.to_integral_value():
        return "is finer than a microsecond"
    return int(value)
