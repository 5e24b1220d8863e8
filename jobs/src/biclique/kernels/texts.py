"""Values as text and back, one at a time: what CAST to and from STRING means.

Reading passes over ASCII spaces at both ends and gives None for anything but:
* an integer: digits with an optional sign;
* a number: also with a fraction and an exponent; for a DOUBLE also NaN, Infinity and -Infinity in any case of
  letters; a DOUBLE too large for its type is no number; a DECIMAL is rounded half away from zero to its scale;
* true and false in any case of letters;
* YYYY-MM-DD, and for a TIMESTAMP also T or a space, HH:MM, optionally :SS and a fraction of up to 6 digits, and
  optionally Z or ±HH:MM (without: UTC).

Writing gives the shortest text that reads back as the same number (-0.0 is 0.0: equal values have equal text),
DECIMALs with all the places of their scale, times as YYYY-MM-DD HH:MM:SS with six more digits where they are not all
zero; years outside 0 to 9999 carry a sign.
"""

from __future__ import annotations

import math
import re

from biclique.kernels.calendars import DAY_US, date_of, days_of
from biclique.kernels.decimals import Rounding, rounded_quotient
from biclique.kernels.lanes import INT64_MAX, INT64_MIN

INTEGER = re.compile(r"[+-]?[0-9]+")
NUMBER = re.compile(r"([+-]?)([0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE]([+-]?[0-9]{1,9}))?")
DATE = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
TIME = re.compile(r"[T ]([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:\.([0-9]{1,6}))?)?(?:(Z)|([+-])([0-9]{2}):([0-9]{2}))?")
NAMED = {"nan": math.nan, "infinity": math.inf, "+infinity": math.inf, "-infinity": -math.inf}
DIGITS_MAX = 400  # longer text is refused before any arithmetic is done with it: the cost of a value is bounded
MONTH_DAYS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def integer_from(text: str, bits: int = 64) -> int | None:
    text = text.strip(" ")
    if len(text) > DIGITS_MAX or not INTEGER.fullmatch(text):
        return None
    value = int(text)
    return value if -(1 << (bits - 1)) <= value < 1 << (bits - 1) else None


def double_from(text: str) -> float | None:
    text = text.strip(" ")
    if text.lower() in NAMED:
        return NAMED[text.lower()]
    if len(text) > DIGITS_MAX or not NUMBER.fullmatch(text):
        return None
    value = float(text)
    return None if math.isinf(value) else value


def decimal_from(text: str, precision: int, scale: int) -> int | None:
    """The unscaled number."""
    text = text.strip(" ")
    match = NUMBER.fullmatch(text) if len(text) <= DIGITS_MAX else None
    if match is None:
        return None
    sign, digits, exponent = match.groups()
    whole, _, fraction = digits.partition(".")
    value, power = int(whole + fraction or "0"), int(exponent or 0) - len(fraction) + scale
    if value == 0 or power < -2 * DIGITS_MAX:
        return 0
    if power > DIGITS_MAX:
        return None
    unscaled = value * 10**power if power >= 0 else rounded_quotient(value, 10**-power, Rounding.HALF_AWAY)
    return None if unscaled >= 10**precision else -unscaled if sign == "-" else unscaled


def boolean_from(text: str) -> bool | None:
    return {"true": True, "false": False}.get(text.strip(" ").lower())


def date_from(text: str) -> int | None:
    match = DATE.fullmatch(text.strip(" "))
    return None if match is None else _days(match)


def timestamp_from(text: str) -> int | None:
    text = text.strip(" ")
    match = DATE.match(text)
    days = None if match is None else _days(match)
    if days is None:
        return None
    if len(text) == 10:
        return days * DAY_US
    time = TIME.fullmatch(text[10:])
    if time is None:
        return None
    hour, minute, second, fraction, _, sign, zone_hour, zone_minute = time.groups()
    if int(hour) > 23 or int(minute) > 59 or int(second or 0) > 59 or int(zone_minute or 0) > 59:
        return None
    micros = ((int(hour) * 60 + int(minute)) * 60 + int(second or 0)) * 1_000_000 + int((fraction or "").ljust(6, "0"))
    zone = (int(zone_hour or 0) * 60 + int(zone_minute or 0)) * 60_000_000
    if zone > 18 * 3_600_000_000:
        return None
    return days * DAY_US + micros + (zone if sign == "-" else -zone)


def _days(match: re.Match[str]) -> int | None:
    year, month, day = (int(part) for part in match.groups())
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    if not 1 <= month <= 12 or not 1 <= day <= MONTH_DAYS[month - 1] + (leap and month == 2):
        return None
    return int(days_of(year, month, day))


def double_text(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return repr(value + 0.0)


def decimal_text(unscaled: int, scale: int) -> str:
    if scale == 0:
        return str(unscaled)
    digits = str(abs(unscaled)).rjust(scale + 1, "0")
    return ("-" if unscaled < 0 else "") + digits[:-scale] + "." + digits[-scale:]


def date_text(days: int) -> str:
    year, month, day = date_of(days)
    return f"{_year_text(int(year))}-{month:02d}-{day:02d}"


def timestamp_text(instant: int) -> str:
    assert INT64_MIN <= instant <= INT64_MAX
    days, time = divmod(instant, DAY_US)
    seconds, micros = divmod(time, 1_000_000)
    clock = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return f"{date_text(days)} {clock}" + (f".{micros:06d}" if micros else "")


def _year_text(year: int) -> str:
    return f"{year:04d}" if 0 <= year <= 9999 else f"{year:+05d}"
