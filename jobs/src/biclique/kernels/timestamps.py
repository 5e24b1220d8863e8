"""Fields and truncation of TIMESTAMP, and what is between it and DATE. Always UTC, also before 1970.

SECOND is whole seconds. A week starts on Monday. What cannot be said in 64 bits of microseconds fails.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from biclique.core.rows import Mask
from biclique.kernels.calendars import DAY_US, DAYS_MAX, DAYS_MIN, date_of, days_and_time, days_of
from biclique.kernels.lanes import INT64_MIN, Lane, with_failures
from biclique.query.expression import Op

Int64s = NDArray[np.int64]

FIELDS = {Op.YEAR: 0, Op.MONTH: 1, Op.DAY: 2, Op.HOUR: 3, Op.MINUTE: 4, Op.SECOND: 5}
UNITS_US = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
}
UNITS_DAYS = {"day": 0, "week": 1, "month": 2, "quarter": 3, "year": 4}
UNITS = (*UNITS_US, *UNITS_DAYS)  # what DATE_TRUNC knows


@njit(cache=True, nogil=True)
def _field(values: Int64s, field: int, out: Int64s) -> None:
    for i in range(len(values)):
        days, time = days_and_time(values[i])
        if field <= 2:
            out[i] = date_of(days)[field]
        elif field == 3:
            out[i] = time // 3_600_000_000
        elif field == 4:
            out[i] = time // 60_000_000 % 60
        else:
            out[i] = time // 1_000_000 % 60


@njit(cache=True, nogil=True)
def _first_day(days: Int64s, unit: int, out: Int64s) -> None:
    for i in range(len(days)):
        day = days[i]
        if unit == 1:
            day -= (day + 3) % 7  # 1970-01-01 was a Thursday
        elif unit >= 2:
            year, month, _ = date_of(day)
            month = 1 if unit == 4 else (month - 1) // 3 * 3 + 1 if unit == 3 else month
            day = days_of(year, month, 1)
        out[i] = day


@njit(cache=True, nogil=True)
def _floor(values: Int64s, unit: int, out: Int64s, bad: Mask) -> None:
    for i in range(len(values)):
        rest = values[i] % unit
        bad[i] = values[i] < np.int64(INT64_MIN) + rest
        out[i] = 0 if bad[i] else values[i] - rest


def field(op: Op, lane: Lane) -> Lane:
    out = np.empty(len(lane.values), np.int64)
    _field(np.ascontiguousarray(lane.values), FIELDS[op], out)
    return Lane(out, lane.valid, lane.failed)


def date_trunc(unit: str, lane: Lane) -> Lane:
    out = np.empty(len(lane.values), np.int64)
    if unit in UNITS_DAYS:
        _first_day(to_date(lane).values.astype(np.int64), UNITS_DAYS[unit], out)
        return to_timestamp(Lane(out, lane.valid, lane.failed))
    bad = np.empty(len(lane.values), np.bool_)
    _floor(np.ascontiguousarray(lane.values), UNITS_US[unit], out, bad)
    return with_failures(Lane(out, lane.valid, lane.failed), bad)


def to_timestamp(lane: Lane) -> Lane:
    """Days to microseconds at midnight."""
    days = lane.values.astype(np.int64)
    bad = (days < DAYS_MIN) | (days > DAYS_MAX)
    return with_failures(Lane(np.where(bad, 0, days) * DAY_US, lane.valid, lane.failed), bad)


def to_date(lane: Lane) -> Lane:
    """Microseconds to the day they are in; every one fits."""
    return Lane(np.floor_divide(lane.values, DAY_US).astype(np.int32), lane.valid, lane.failed)
