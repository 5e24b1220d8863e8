"""Values as text and back, one at a time: what CAST to and from STRING means.

Reading passes over white space at both ends and gives None for anything but:
* an integer: digits with an optional sign;
* a number: also with a fraction and an exponent; for a DOUBLE also NaN, Infinity and -Infinity in any case of
  letters; a DOUBLE too large for its type is no number; a DECIMAL is rounded half away from zero to its scale;
* true and false in any case of letters;
* what query/moments.py takes for a DATE or a TIMESTAMP, as a literal does.

Writing gives the shortest text that reads back as the same number (-0.0 is 0.0: equal values have equal text),
DECIMALs with all the places of their scale, times as YYYY-MM-DD HH:MM:SS with six more digits where they are not all
zero; years outside 0 to 9999 carry a sign.
"""

from __future__ import annotations

import math
import re

from biclique.kernels.calendars import DAY_US, date_of
from biclique.kernels.decimals import Rounding, rounded_quotient

INTEGER = re.compile(r"[+-]?[0-9]+")
NUMBER = re.compile(r"([+-]?)([0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE]([+-]?[0-9]{1,9}))?")
NAMED = {"nan": math.nan, "infinity": math.inf, "+infinity": math.inf, "-infinity": -math.inf}
DIGITS_MAX = 400  # longer text is refused before any arithmetic is done with it: the cost of a value is bounded


def integer_from(text: str, bits: int = 64) -> int | None:
    text = text.strip()
    if len(text) > DIGITS_MAX or not INTEGER.fullmatch(text):
        return None
    value = int(text)
    return value if -(1 << (bits - 1)) <= value < 1 << (bits - 1) else None


def double_from(text: str) -> float | None:
    text = text.strip()
    if text.lower() in NAMED:
        return NAMED[text.lower()]
    if len(text) > DIGITS_MAX or not NUMBER.fullmatch(text):
        return None
    value = float(text)
    return None if math.isinf(value) else value


def decimal_from(text: str, precision: int, scale: int) -> int | None:
    """The unscaled number."""
    text = text.strip()
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
    return {"true": True, "false": False}.get(text.strip().lower())


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
    days, time = divmod(instant, DAY_US)
    seconds, micros = divmod(time, 1_000_000)
    clock = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return f"{date_text(days)} {clock}" + (f".{micros:06d}" if micros else "")


def _year_text(year: int) -> str:
    return f"{year:04d}" if 0 <= year <= 9999 else f"{year:+05d}"
