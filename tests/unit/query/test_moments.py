"""Times and lengths of time: against the standard library, at the edges, and what is refused."""

from __future__ import annotations

import random
from datetime import UTC, date, datetime, timedelta, timezone

import pytest

from biclique.query.moments import days_of, duration_us, interval_us, microseconds_of

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def test_a_timestamp_is_what_the_standard_library_says() -> None:
    rng = random.Random(1)
    for _ in range(2000):
        zone = timezone(timedelta(minutes=rng.randint(-14 * 60, 14 * 60)))
        moment = datetime(2, 1, 1, tzinfo=zone) + timedelta(
            days=rng.randrange(3_600_000), microseconds=rng.randrange(10**11)
        )
        moment = moment.replace(microsecond=rng.choice((0, moment.microsecond)))
        expected = (moment - EPOCH) // timedelta(microseconds=1)
        assert microseconds_of(moment.isoformat(sep=rng.choice("T "))) == expected
        assert days_of(moment.date().isoformat()) == (moment.date() - date(1970, 1, 1)).days


@pytest.mark.parametrize(
    ("text", "micros"),
    [
        ("1970-01-01", 0),
        ("1969-12-31T23:59:59.999999Z", -1),
        ("2026-03-01 12:30", 1_772_368_200_000_000),
        (" 1970-01-01T00:00:00.5 ", 500_000),
        ("1970-01-01T00:00:00-01:00", 3_600_000_000),
    ],
)
def test_without_a_zone_it_is_utc(text: str, micros: int) -> None:
    assert microseconds_of(text) == micros


@pytest.mark.parametrize(
    "text",
    [
        *("", "now", "2026", "2026-3-1", "2026-02-30", "2026-03-01T25:00", "2026-03-01T10:60", "2026-03-01T10:00:60"),
        *("2026-03-01T10", "2026-03-01 10:00:00.1234567", "2026-03-01Z", "2026-03-01T10:00+1", "0000-01-01"),
        *("٢٠٢٦-03-01", "2026-03-01T10:00+99:00", "0001-01-01T00:00+01:00", "9999-12-31T23:59:59-01:00"),
    ],
)
def test_what_is_no_timestamp_is_none(text: str) -> None:
    assert microseconds_of(text) is None


@pytest.mark.parametrize(
    ("text", "micros"),
    [
        ("0s", 0),
        ("10m", 600_000_000),
        ("1.5h", 5_400_000_000),
        ("250ms", 250_000),
        ("2 d", 172_800_000_000),
        ("-0s", 0),
    ],
)
def test_a_duration_has_a_number_and_a_unit(text: str, micros: int) -> None:
    assert duration_us(text) == micros


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("10", "has no unit"),
        ("-10m", "is negative"),
        ("10 min", "has the unknown unit min"),
        ("ten", "is no duration"),
        ("", "is no duration"),
        ("1e3s", "is no duration"),
        ("0.0001ms", "is finer than a microsecond"),
        ("999999d", "is longer than a hundred years"),
        ("1" * 30 + "s", "is no duration"),
    ],
)
def test_a_bad_duration_is_said_to_be_one(text: str, says: str) -> None:
    assert duration_us(text) == says


@pytest.mark.parametrize(
    ("number", "unit", "micros"),
    [("5", "MINUTE", 300_000_000), ("-5", "minutes", -300_000_000), ("1.5", "Seconds", 1_500_000), ("0", "DAY", 0)],
)
def test_an_interval_has_a_word_for_its_unit(number: str, unit: str, micros: int) -> None:
    assert interval_us(number, unit) == micros


@pytest.mark.parametrize(
    ("number", "unit"),
    [
        ("1", "MONTH"),
        ("1", "m"),
        ("x", "MINUTE"),
        ("1", ""),
        ("99999999", "DAY"),
        ("1e3", "DAY"),
        ("0.0000001", "SECOND"),
    ],
)
def test_an_interval_of_no_fixed_length_is_none(number: str, unit: str) -> None:
    assert interval_us(number, unit) is None
