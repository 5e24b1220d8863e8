"""Keys compare as values do, bounds are exact where keys are, and never too narrow where they are not."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from biclique.core.rows import Vector
from biclique.index.keys import double_keys, equality_keys, high_bounds, low_bounds, order_keys, text_keys
from biclique.index.protocol import KEY_MAX, KEY_MIN
from biclique.query.types import BIGINT, BOOLEAN, DATE, DOUBLE, INT, STRING, TIMESTAMP, decimal

DOUBLES = [
    -math.inf, -1.7976931348623157e308, -2.5, -1.0, -5e-324, -0.0, 0.0, 5e-324, 0.1, 1.0, 2.5, 1e16,
    1.7976931348623157e308, math.inf, math.nan,
]  # fmt: skip


def sql_less(a: float, b: float) -> bool:
    """NaN equals NaN and is the greatest."""
    if math.isnan(a):
        return False
    return math.isnan(b) or a < b


def test_doubles_keep_their_order_and_their_equals() -> None:
    keys = double_keys(np.array(DOUBLES)).tolist()
    for a, key_a in zip(DOUBLES, keys, strict=True):
        for b, key_b in zip(DOUBLES, keys, strict=True):
            assert (key_a < key_b) == sql_less(a, b)


def test_every_nan_is_one() -> None:
    bits = np.array([0x7FF8000000000000, 0x7FF0000000000001, 0xFFF8000000000000], np.uint64)
    assert len(set(double_keys(bits.view(np.float64)).tolist())) == 1


def test_making_keys_changes_no_value() -> None:
    values = np.array([-0.0, 1.0])
    double_keys(values)
    assert np.signbit(values[0])


def test_texts_keep_the_order_of_their_first_eight_bytes() -> None:
    texts = ["", "a", "a\0", "abcdefgh", "abcdefghi", "abd", "b", "zz", "é", "€", "\U0001f600", "￿"]
    keys = text_keys(pa.array(texts, pa.string())).tolist()
    for a, key_a in zip(texts, keys, strict=True):
        for b, key_b in zip(texts, keys, strict=True):
            if a.encode() < b.encode():
                assert key_a <= key_b
            assert (key_a == key_b) == (a.encode()[:8].ljust(8, b"\0") == b.encode()[:8].ljust(8, b"\0"))


def test_a_slice_of_texts_has_the_keys_of_its_own() -> None:
    texts = pa.array(["aa", "bb", "cc"], pa.string())
    assert text_keys(texts.slice(1, 2)).tolist() == text_keys(pa.array(["bb", "cc"])).tolist()
    assert text_keys(texts.slice(3, 0)).tolist() == []


@pytest.mark.parametrize(
    ("type_", "values"),
    [
        (BIGINT, np.array([KEY_MIN, -1, KEY_MAX])),
        (INT, np.array([-5, 7, 9], np.int32)),
        (DATE, np.array([-5, 7, 9], np.int32)),
        (TIMESTAMP, np.array([-5, 7, 9])),
        (decimal(10, 2), np.array([-5, 7, 9])),
        (BOOLEAN, np.array([False, True, True])),
    ],
)
def test_numbers_are_their_own_keys(type_: object, values: np.ndarray) -> None:
    keys, exact = order_keys(Vector(values), type_)  # type: ignore[arg-type]
    assert exact and keys.dtype == np.int64 and keys.tolist() == [int(v) for v in values]


def test_equality_of_one_number_is_exact_and_of_anything_else_a_hash() -> None:
    numbers, texts = Vector(np.array([1, 2, 1])), Vector(pa.array(["x", "y", "x"]))
    assert equality_keys([numbers], [BIGINT])[1]
    zero, negative_zero = (equality_keys([Vector(np.array([v]))], [DOUBLE])[0] for v in (0.0, -0.0))
    assert zero == negative_zero
    for vectors, types in (([texts], [STRING]), ([numbers, texts], [BIGINT, STRING])):
        keys, exact = equality_keys(vectors, types)
        assert not exact and keys[0] == keys[2] != keys[1]


# --- bounds ----------------------------------------------------------------------------------------------------------

EDGES = [KEY_MIN, KEY_MIN + 1, -3, 0, 3, KEY_MAX - 1, KEY_MAX]
SHIFTS = [0, 1, -1, 5, -5, KEY_MAX, KEY_MIN]


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("shift", SHIFTS)
def test_bounds_on_numbers_are_those_of_unbounded_numbers(shift: int, strict: bool) -> None:
    values = Vector(np.array(EDGES))
    lows, low_possible = low_bounds(values, BIGINT, shift, strict)
    highs, high_possible = high_bounds(values, BIGINT, shift, strict)
    for i, value in enumerate(EDGES):
        for stored in EDGES:
            above = stored > value + shift if strict else stored >= value + shift
            below = stored < value + shift if strict else stored <= value + shift
            assert above == ((low_possible is None or bool(low_possible[i])) and stored >= lows[i])
            assert below == ((high_possible is None or bool(high_possible[i])) and stored <= highs[i])


@pytest.mark.parametrize("strict", [False, True])
def test_bounds_on_doubles_are_exact_without_a_shift(strict: bool) -> None:
    lows, low_possible = low_bounds(Vector(np.array(DOUBLES)), DOUBLE, 0, strict)
    highs, high_possible = high_bounds(Vector(np.array(DOUBLES)), DOUBLE, 0, strict)
    assert low_possible is None and high_possible is None
    keys = double_keys(np.array(DOUBLES))
    for i, value in enumerate(DOUBLES):
        for stored, key in zip(DOUBLES, keys, strict=True):
            assert (key >= lows[i]) == (sql_less(value, stored) if strict else not sql_less(stored, value))
            assert (key <= highs[i]) == (sql_less(stored, value) if strict else not sql_less(value, stored))


def test_strict_bounds_on_texts_stay_inclusive() -> None:
    value = Vector(pa.array(["abcdefgh"]))
    stored = text_keys(pa.array(["abcdefghi"]))
    assert low_bounds(value, STRING, 0, True)[0] <= stored


def test_shifted_bounds_on_doubles_hold_every_match_of_the_written_predicate() -> None:
    """stored - shift <= value, evaluated in doubles: cancellation, ties to even, overflow."""
    rng = np.random.default_rng(1)
    scales = np.array([1e-300, 1e-9, 0.1, 1.0, 3.0, 1e16, 9e15, 1.7e308])
    for _ in range(4000):
        value, shift = (
            float(rng.choice(scales) * rng.choice([-1, 1]) * rng.choice([1, 1, rng.random()])) for _ in "ab"
        )
        with np.errstate(all="ignore"):
            centre = np.float64(value) + np.float64(shift)
            near = np.nextafter(centre, rng.choice([-np.inf, np.inf]))
            stored = float(rng.choice([centre, near, centre + abs(value) * 2**-53, centre - abs(value) * 2**-53, 0.5]))
            difference = np.float64(stored) - np.float64(shift)
        if not math.isfinite(stored) or not math.isfinite(difference):
            continue
        key = double_keys(np.array([stored]))
        vector = Vector(np.array([value]))
        if difference <= value:
            assert key <= high_bounds(vector, DOUBLE, shift, False)[0], (stored, shift, value)
        if difference >= value:
            assert key >= low_bounds(vector, DOUBLE, shift, False)[0], (stored, shift, value)


def test_shifted_bounds_on_doubles_are_not_much_too_wide() -> None:
    high = high_bounds(Vector(np.array([2.0])), DOUBLE, 0.5, True)[0]
    assert double_keys(np.array([2.5])) <= high < double_keys(np.array([2.5 + 1e-14]))
    assert Fraction(2.5) < Fraction(2.5 + 1e-14)
