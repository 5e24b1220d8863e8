"""The proleptic Gregorian calendar in whole numbers, for every 64-bit microsecond: no time zone, no leap second, years
before 1 and after 9999 included.

A year is taken to start in March, so that the leap day comes last; an era is 400 years of 146,097 days. All divisions
floor.
"""

from __future__ import annotations

from numba import njit

DAY_US = 86_400_000_000
DAYS_MIN = -106_751_991  # the first day that starts within 64 bits of microseconds
DAYS_MAX = 106_751_991  # the last day that starts within them


@njit(cache=True, nogil=True)
def days_of(year: int, month: int, day: int) -> int:
    """Days since 1970-01-01."""
    if month <= 2:
        year -= 1
    era = year // 400
    year_of_era = year - era * 400
    day_of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    day_of_era = year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year
    return era * 146_097 + day_of_era - 719_468


@njit(cache=True, nogil=True)
def date_of(days: int) -> tuple[int, int, int]:
    """(year, month, day)."""
    shifted = days + 719_468
    era = shifted // 146_097
    day_of_era = shifted - era * 146_097
    year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    month = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * month + 2) // 5 + 1
    month = month + 3 if month < 10 else month - 9
    year = year_of_era + era * 400
    return (year + 1 if month <= 2 else year), month, day


@njit(cache=True, nogil=True)
def days_and_time(instant: int) -> tuple[int, int]:
    """The day of an instant and the microseconds since its midnight."""
    days = instant // DAY_US
    return days, instant - days * DAY_US
