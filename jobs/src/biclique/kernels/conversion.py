"""CAST, from any type to any type for which it has one meaning; a value that the target cannot hold fails.

| from \\ to | INTEGER          | DOUBLE        | DECIMAL(p, s)            | BOOLEAN | STRING | DATE  | TIMESTAMP |
|-----------|------------------|---------------|--------------------------|---------|--------|-------|-----------|
| INTEGER   | range checked    | nearest       | range checked            | <> 0    | digits |       |           |
| DOUBLE    | toward zero      | -             | x * 10**s, half away     |         | texts  |       |           |
| DECIMAL   | toward zero      | u / 10**s     | half away, range checked |         | texts  |       |           |
| BOOLEAN   | 0, 1             |               |                          | -       | texts  |       |           |
| STRING    | texts            | texts         | texts                    | texts   | -      | texts | texts     |
| DATE      |                  |               |                          |         | texts  | -     | midnight  |
| TIMESTAMP |                  |               |                          |         | texts  | floor | -         |

NaN and the infinities fail except to DOUBLE and STRING. "x * 10**s" and "u / 10**s" (u: the unscaled number) are one
operation in double arithmetic. INTERVAL is cast to nothing but itself. `castable` says which pairs exist; the checker
refuses the others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from biclique.kernels import arithmetic, texts
from biclique.kernels.decimals import Rounding, limited, rescaled
from biclique.kernels.lanes import Lane, dtype_of, with_failures
from biclique.kernels.rounding import half_away
from biclique.kernels.timestamps import to_date, to_timestamp
from biclique.query import moments
from biclique.query.types import Kind, Type

NUMBERS = (Kind.INTEGER, Kind.DOUBLE, Kind.DECIMAL)
Conversion = Callable[[Lane], Lane]


def castable(source: Type, target: Type) -> bool:
    kinds = {source.kind, target.kind}
    if len(kinds) == 1:
        return True
    if Kind.INTERVAL in kinds:
        return False
    numeric = source.kind in NUMBERS and target.kind in NUMBERS
    return numeric or Kind.STRING in kinds or kinds in ({Kind.INTEGER, Kind.BOOLEAN}, {Kind.DATE, Kind.TIMESTAMP})


def conversion(source: Type, target: Type) -> Conversion:
    assert castable(source, target), f"the checker lets no CAST of {source} to {target} through"
    match source.kind, target.kind:
        case (Kind.DECIMAL, Kind.DECIMAL):
            return lambda lane: limited(rescaled(lane, source.scale, target.scale), target.precision)
        case (Kind.INTEGER, Kind.INTEGER):
            return lambda lane: _to_width(lane, target)
        case (a, b) if a is b:
            return lambda lane: lane
        case (Kind.STRING, _):
            return _reader(target)
        case (_, Kind.STRING):
            return _writer(source)
        case (Kind.INTEGER, Kind.DECIMAL):
            return lambda lane: limited(rescaled(arithmetic.as_int64(lane), 0, target.scale), target.precision)
        case (Kind.INTEGER | Kind.BOOLEAN, Kind.DOUBLE | Kind.BOOLEAN | Kind.INTEGER):
            return lambda lane: Lane(lane.values.astype(dtype_of(target)), lane.valid, lane.failed)
        case (Kind.DOUBLE, Kind.INTEGER):
            return lambda lane: double_to_integer(lane, target)
        case (Kind.DOUBLE, Kind.DECIMAL):
            return lambda lane: _double_to_decimal(lane, target)
        case (Kind.DECIMAL, Kind.DOUBLE):
            return lambda lane: Lane(lane.values / 10.0**source.scale, lane.valid, lane.failed)
        case (Kind.DECIMAL, Kind.INTEGER):
            return lambda lane: arithmetic.narrowed(
                rescaled(lane, source.scale, 0, Rounding.TRUNCATE), dtype_of(target)
            )
        case (Kind.DATE, Kind.TIMESTAMP):
            return to_timestamp
        case (Kind.TIMESTAMP, Kind.DATE):
            return to_date
        case _:
            raise AssertionError((source, target))


def _to_width(lane: Lane, target: Type) -> Lane:
    dtype = dtype_of(target)
    if lane.values.dtype.itemsize <= dtype.itemsize:
        # The narrow type bounds the values: a later operation on the wide ones knows them.
        known = lane.known
        if known is None and lane.values.dtype.itemsize < 8:
            info = np.iinfo(lane.values.dtype)
            known = int(info.min), int(info.max)
        return Lane(lane.values.astype(dtype, copy=False), lane.valid, lane.failed, known)
    return arithmetic.narrowed(lane, dtype)


def double_to_integer(lane: Lane, target: Type) -> Lane:
    """Toward zero. The bounds of every integer width are powers of two, so doubles hold them exactly."""
    limit = 2.0 ** (target.bits - 1)
    whole = np.trunc(lane.values)
    bad = ~((whole >= -limit) & (whole < limit))
    return with_failures(Lane(np.where(bad, 0.0, whole).astype(dtype_of(target)), lane.valid, lane.failed), bad)


def _double_to_decimal(lane: Lane, target: Type) -> Lane:
    scaled = half_away(lane.values * 10.0**target.scale)
    bad = ~(np.abs(scaled) < 10.0**target.precision)
    return with_failures(Lane(np.where(bad, 0.0, scaled).astype(np.int64), lane.valid, lane.failed), bad)


def _reader(target: Type) -> Conversion:
    read: Callable[[str], int | float | None]
    match target.kind:
        case Kind.INTEGER:
            read = lambda text: texts.integer_from(text, target.bits)  # noqa: E731
        case Kind.DOUBLE:
            read = texts.double_from
        case Kind.DECIMAL:
            read = lambda text: texts.decimal_from(text, target.precision, target.scale)  # noqa: E731
        case Kind.BOOLEAN:
            read = texts.boolean_from
        case Kind.DATE:
            read = moments.days_of
        case Kind.TIMESTAMP:
            read = moments.microseconds_of
        case _:
            raise AssertionError(target)

    def convert(lane: Lane) -> Lane:
        found = [read(text) for text in lane.values.to_pylist()]
        bad = np.array([value is None for value in found], np.bool_)
        values = np.array([value or 0 for value in found], dtype_of(target))
        return with_failures(Lane(values, lane.valid, lane.failed), bad)

    return convert


def _writer(source: Type) -> Conversion:
    write: Callable[[Any], str]
    match source.kind:
        case Kind.INTEGER:
            write = str
        case Kind.DOUBLE:
            write = texts.double_text
        case Kind.DECIMAL:
            write = lambda unscaled: texts.decimal_text(unscaled, source.scale)  # noqa: E731
        case Kind.BOOLEAN:
            write = {False: "false", True: "true"}.__getitem__
        case Kind.DATE:
            write = texts.date_text
        case Kind.TIMESTAMP:
            write = texts.timestamp_text
        case _:
            raise AssertionError(source)

    def convert(lane: Lane) -> Lane:
        return Lane(pa.array([write(value) for value in lane.values.tolist()], pa.string()), lane.valid, lane.failed)

    return convert
