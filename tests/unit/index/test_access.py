"""From expressions to keys: nulls, failures, strictness and shifts as a plan gives them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from biclique.core.rows import Vector
from biclique.index.access import ProbeKeysOf, StoredKeysOf
from biclique.query.expression import Call, Column, Expression, Literal, Op
from biclique.query.types import BIGINT, STRING

STORED_X, STORED_NAME = Column(0, 0, BIGINT), Column(0, 1, STRING)
PROBE_Y, PROBE_NAME = Column(1, 0, BIGINT), Column(1, 1, STRING)


@dataclass(frozen=True)
class Range:
    stored: Expression
    low: Expression | None = None
    low_strict: bool = False
    low_shift: int | float = 0
    high: Expression | None = None
    high_strict: bool = False
    high_shift: int | float = 0


def numbers(*values: int | None) -> Vector:
    valid = np.array([v is not None for v in values])
    return Vector(np.array([0 if v is None else v for v in values]), None if valid.all() else valid)


def test_a_null_key_leaves_the_row_out() -> None:
    keys = StoredKeysOf((), Range(STORED_X), None, {STORED_X: 0})([numbers(1, None, 3)], 3)
    assert keys.indexed is not None and keys.indexed.tolist() == [True, False, True]
    assert keys.first is not None and keys.first[[0, 2]].tolist() == [1, 3]


def test_a_failed_key_leaves_the_row_out() -> None:
    inverse = Call(Op.MOD, (Literal(10, BIGINT), STORED_X), BIGINT)
    keys = StoredKeysOf((), Range(inverse), None, {STORED_X: 0})([numbers(3, 0, None)], 3)
    assert keys.indexed is not None and keys.indexed.tolist() == [True, False, False]


def test_bounds_carry_strictness_and_shift() -> None:
    asked = Range(STORED_X, PROBE_Y, True, -5, PROBE_Y, False, 5)
    keys = ProbeKeysOf((), asked, None, {PROBE_Y: 0})([numbers(10, 20)], 2)
    assert keys.first_low is not None and keys.first_low.tolist() == [6, 16]
    assert keys.first_high is not None and keys.first_high.tolist() == [15, 25]
    assert keys.active is None and keys.equal is None and keys.second_low is None


def test_a_bound_beyond_the_last_key_silences_its_probe() -> None:
    asked = Range(STORED_X, low=PROBE_Y, low_strict=True)
    keys = ProbeKeysOf((), asked, None, {PROBE_Y: 0})([numbers(2**63 - 1, 4, None)], 3)
    assert keys.active is not None and keys.active.tolist() == [False, True, False]


def test_both_sides_hash_equal_parts_alike() -> None:
    equal = ((STORED_X, PROBE_Y), (STORED_NAME, PROBE_NAME))
    stored_of = StoredKeysOf(equal, None, None, {STORED_NAME: 0, STORED_X: 1})
    probe_of = ProbeKeysOf(equal, None, None, {PROBE_Y: 0, PROBE_NAME: 1})
    texts = Vector(pa.array(["a", "b"], pa.string()))
    stored = stored_of([texts, numbers(1, 2)], 2)
    probe = probe_of([numbers(1, 2), texts], 2)
    assert stored.equal is not None and probe.equal is not None
    assert stored.equal.tolist() == probe.equal.tolist()
    assert stored.equal[0] != stored.equal[1]
