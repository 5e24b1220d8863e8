"""Values to test with: for every type a small domain, so that ties, duplicates, nulls, NaN and extremes are common.

Rows are plain tuples; `vector` gives them their memory form and `plain` reads a Vector back, failures included.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from biclique.core.rows import Vector
from biclique.query.expression import Scalar
from biclique.query.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    INTERVAL,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TINYINT,
    Kind,
    Type,
    decimal,
)
from tests.model.evaluate import FAILED, Value

STORED_TYPES = (
    *(BIGINT, INT, SMALLINT, TINYINT, DOUBLE, BOOLEAN, STRING, DATE, TIMESTAMP),
    *(decimal(5, 2), decimal(9, 0), decimal(18, 4), decimal(18, 18)),
)
ALL_TYPES = (*STORED_TYPES, INTERVAL)
DAY = 86_400_000_000
WORDS = (
    "",
    "a",
    "b",
    "ab",
    "A b",
    " a ",
    "é",
    "Zé",
    "\u0416",
    "漢字",
    "\U0001f600",
    "12",
    "-3.5",
    "1e3",
    "true",
    "NaN",
)
MOMENTS = ("1969-12-31", "2026-02-30", "2024-02-29 23:59:59.5", "1970-01-01T00:00Z", "0001-01-01 00:00:00+01:00")
NUMPY = {
    Kind.DOUBLE: np.float64,
    Kind.BOOLEAN: np.bool_,
    Kind.DATE: np.int32,
    Kind.DECIMAL: np.int64,
    Kind.TIMESTAMP: np.int64,
    Kind.INTERVAL: np.int64,
}


def value(rng: random.Random, type_: Type, extreme: float = 0.0) -> Scalar:
    """A value of a tiny domain; with the given chance one near the limits of its type."""
    if rng.random() < extreme:
        return extreme_value(rng, type_)
    match type_.kind:
        case Kind.INTEGER | Kind.DATE:
            return rng.randint(-3, 5)
        case Kind.DECIMAL:
            few = (-250, -150, -50, -1, 0, 1, 50, 99, 100, 150)
            return rng.choice([v for v in few if abs(v) < 10**type_.precision])
        case Kind.DOUBLE:
            return rng.choice((-2.5, -1.0, -0.5, -0.0, 0.0, 0.1, 0.5, 1.0, 2.5, 3.0, math.nan))
        case Kind.BOOLEAN:
            return rng.random() < 0.5
        case Kind.STRING:
            return rng.choice(WORDS[:8])
        case _:
            return rng.randint(-4, 6) * 1_000_000


def extreme_value(rng: random.Random, type_: Type) -> Scalar:
    match type_.kind:
        case Kind.DOUBLE:
            huge = (math.inf, -math.inf, math.nan, 1.7e308, -1.7e308, 5e-324, 2.0**53, -(2.0**63), 9.3e18, 1e17, 0.285)
            return rng.choice(huge)
        case Kind.BOOLEAN:
            return True
        case Kind.STRING:
            return rng.choice((*WORDS, *MOMENTS))
        case Kind.DECIMAL:
            limit = 10**type_.precision
        case Kind.DATE:
            limit = 1 << 31
        case _:
            limit = 1 << (type_.bits - 1)
    near = (
        limit - 1,
        1 - limit,
        limit // 2,
        -(limit // 2),
        limit // 3,
        limit // 10 * 5,
        rng.randrange(-limit + 1, limit),
    )
    return rng.choice(near if type_.kind is Kind.DECIMAL else (*near, -limit))


def column(rng: random.Random, type_: Type, count: int, nulls: float = 0.2, extreme: float = 0.0) -> list[Scalar]:
    return [None if rng.random() < nulls else value(rng, type_, extreme) for _ in range(count)]


def vector(type_: Type, values: Sequence[Scalar]) -> Vector:
    """A stored column."""
    mask = np.array([v is not None for v in values], np.bool_)
    valid = None if mask.all() else mask
    if type_.kind is Kind.STRING:
        return Vector(pa.array([v or "" for v in values], pa.string()), valid)
    dtype = NUMPY.get(type_.kind, f"int{type_.bits}")
    return Vector(np.array([0 if v is None else v for v in values], dtype), valid)


def plain(vector: Vector) -> list[Value]:
    values = vector.values.to_pylist() if isinstance(vector.values, pa.Array) else vector.values.tolist()
    if vector.valid is not None:
        values = [v if there else None for v, there in zip(values, vector.valid.tolist(), strict=True)]
    if vector.failed is not None:
        values = [FAILED if bad else v for v, bad in zip(values, vector.failed.tolist(), strict=True)]
    return values
