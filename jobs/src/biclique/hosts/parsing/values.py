"""One text → one value, exactly; the reason where it is none. This is what the fast paths are allowed to agree with.

| type      | text                                                                                 | value           |
|-----------|--------------------------------------------------------------------------------------|-----------------|
| INTEGER   | sign? digits, within the width                                                       | int             |
| DOUBLE    | a decimal number within the range (too small is 0), nan, inf, infinity in any case   | float           |
| DECIMAL   | a decimal number that the type holds without rounding                                | int, unscaled   |
| BOOLEAN   | true, false in any case, 1, 0                                                        | bool            |
| STRING    | anything                                                                             | str             |
| DATE      | YYYY-MM-DD, years 0001 to 9999                                                       | int, days       |
| TIMESTAMP | date, or date T or blank HH[:MM[:SS[.f…]]] and Z, ±HH, ±HHMM or ±HH:MM; without a z  | int, µs, UTC    |
|           | it is UTC; up to nine digits of fraction, of which six are kept; the instant within  |                 |
|           | years 0001 to 9999                                                                   |                 |

Blanks around a value are part of it, as RFC 4180 has them: ` 5` is no number.
"""

from __future__ import annotations

import math
import re
from datetime import date
from decimal import Decimal

from biclique.query.types import Kind, Type

Value = int | float | bool | str

MICROS_PER_DAY = 86_400_000_000
EPOCH_ORDINAL = date(1970, 1, 1).toordinal()
DATE_MIN, DATE_MAX = date.min.toordinal() - EPOCH_ORDINAL, date.max.toordinal() - EPOCH_ORDINAL
INSTANT_MIN, INSTANT_MAX = DATE_MIN * MICROS_PER_DAY, (DATE_MAX + 1) * MICROS_PER_DAY - 1
DIGITS_MAX = 400  # more digits or a greater exponent than any value of ours can need

_INTEGER = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE]([+-]?[0-9]+))?")
_SPECIAL = re.compile(r"([+-]?)(nan|inf|infinity)", re.IGNORECASE)
_DATE = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
_INSTANT = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})"
    r"(?:[T ]([0-9]{2})(?::([0-9]{2})(?::([0-9]{2})(?:\.([0-9]{1,9}))?)?)?"
    r"(?:(Z)|([+-])([0-9]{2})(?::?([0-9]{2}))?)?)?"
)


class Refused(Exception):
    """Why a text is no value of its type; shown in the dead letter."""


def value_of(text: str, kind: Type) -> Value:
    match kind.kind:
        case Kind.INTEGER:
            return _integer(text, kind)
        case Kind.DOUBLE:
            return _double(text)
        case Kind.DECIMAL:
            return _decimal(text, kind)
        case Kind.BOOLEAN:
            return _boolean(text)
        case Kind.STRING:
            return text
        case Kind.DATE:
            return _days(text)
        case Kind.TIMESTAMP:
            return _instant(text)
        case Kind.INTERVAL:
            raise AssertionError("no column is an INTERVAL")


def quoted(text: str) -> str:
    """For a message: short, on one line."""
    shown = text if len(text) <= 40 else text[:37] + "..."
    return repr(shown)


def _integer(text: str, kind: Type) -> int:
    if not _INTEGER.fullmatch(text):
        raise Refused(f"{quoted(text)} is no {kind}")
    if len(text) > DIGITS_MAX or not -(1 << kind.bits - 1) <= int(text) < 1 << kind.bits - 1:
        raise Refused(f"{quoted(text)} is out of the range of {kind}")
    return int(text)


def _double(text: str) -> float:
    special = _SPECIAL.fullmatch(text)
    if special:
        return float(text)
    if not _NUMBER.fullmatch(text):
        raise Refused(f"{quoted(text)} is no DOUBLE")
    value = float(text)
    if math.isinf(value):
        raise Refused(f"{quoted(text)} is out of the range of DOUBLE")
    return value


def _decimal(text: str, kind: Type) -> int:
    number = _NUMBER.fullmatch(text)
    if not number:
        raise Refused(f"{quoted(text)} is no {kind}")
    exponent = number.group(1)
    if len(text) > DIGITS_MAX or (exponent and abs(int(exponent)) > DIGITS_MAX):
        raise Refused(f"{quoted(text)} is out of the range of {kind}")
    sign, digits, power = Decimal(text).as_tuple()
    assert isinstance(power, int)
    unscaled = int("".join(map(str, digits)))
    shift = power + kind.scale
    if shift < 0:
        unscaled, rest = divmod(unscaled, 10**-shift)
        if rest:
            raise Refused(f"{quoted(text)} has more decimals than {kind}")
    else:
        unscaled *= 10**shift
    if unscaled >= 10**kind.precision:
        raise Refused(f"{quoted(text)} is out of the range of {kind}")
    return -unscaled if sign else unscaled


def _boolean(text: str) -> bool:
    value = {"true": True, "1": True, "false": False, "0": False}.get(text.lower())
    # lower() of some letters that are not ASCII is ASCII
    if value is None or not text.isascii():
        raise Refused(f"{quoted(text)} is no BOOLEAN")
    return value


def _days(text: str) -> int:
    found = _DATE.fullmatch(text)
    if not found:
        raise Refused(f"{quoted(text)} is no DATE (YYYY-MM-DD)")
    try:
        return date(*map(int, found.groups())).toordinal() - EPOCH_ORDINAL
    except ValueError:
        raise Refused(f"{quoted(text)} is not in the calendar of the years 0001 to 9999") from None


def _instant(text: str) -> int:
    found = _INSTANT.fullmatch(text)
    if not found:
        raise Refused(f"{quoted(text)} is no TIMESTAMP (ISO 8601)")
    day, hour, minute, second, fraction, _, sign, zone_hour, zone_minute = found.groups()
    hours, minutes, seconds = (int(part or 0) for part in (hour, minute, second))
    ahead_hours, ahead_minutes = int(zone_hour or 0), int(zone_minute or 0)
    if hours > 23 or minutes > 59 or seconds > 59 or ahead_hours > 23 or ahead_minutes > 59:
        raise Refused(f"{quoted(text)} is no time of day")
    ahead = (ahead_hours * 60 + ahead_minutes) * (-60 if sign == "-" else 60)
    seconds += (hours * 60 + minutes) * 60 - ahead
    micros = int((fraction or "").ljust(6, "0")[:6])
    value = _days(day) * MICROS_PER_DAY + seconds * 1_000_000 + micros
    if not INSTANT_MIN <= value <= INSTANT_MAX:
        raise Refused(f"{quoted(text)} is before the year 0001 or after 9999")
    return value
