"""The account of a run: exact words, and numbers that must add up."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from biclique.hosts.summary import SourceFates, Summary, as_text, failed_on_entry, fates_of
from biclique.tiers.dispatcher import ACCEPTED, DEAD, DROPPED, FAILED_EXPRESSION, FAILED_FILTER, FILTERED, LATE
from tests.unit.plan.queries import query

SUMMARY = Summary(
    sources=(SourceFates("orders", 1_000_000, 999_000, 600, 300, 90, 10), SourceFates("offers", 20, 20, 0, 0, 0, 0)),
    rows_out=1_234_567,
    failed_expressions=0,
    seconds=2.5,
    start_seconds=3.14,
    warm_up_seconds=0.9,
    rows_this_run=1_000_020,
    state_rows=7,
    state_bytes=700,
    watermark=None,
    dead_in="out/_dead",
    first_dead="orders/000.csv, row 3, column k: 'many' is no INT",
)


def test_the_text_is_as_written() -> None:
    assert as_text(SUMMARY) == (
        "             read   joined  filtered  late  dead  dropped\n"
        "orders  1,000,000  999,000       600   300    90       10\n"
        "offers         20       20         0     0     0        0\n"
        "1,234,567 rows written\n"
        "dead: 90, in out/_dead, first: orders/000.csv, row 3, column k: 'many' is no INT\n"
        "2.50 s from the start of reading to the last file, 400,008 rows a second (start: 3.1 s)"
    )


def test_failed_expressions_are_said_where_there_are_any() -> None:
    assert as_text(replace(SUMMARY, failed_expressions=1_003)).splitlines()[4] == (
        "1,003 expressions failed (division by zero, overflow)"
    )


def test_a_run_that_read_nothing_has_no_rate() -> None:
    assert as_text(replace(SUMMARY, rows_this_run=0, seconds=0.0)).splitlines()[-1] == (
        "0.00 s from the start of reading to the last file (start: 3.1 s)"
    )


def test_where_no_row_is_dead_none_is_told_of() -> None:
    alive = tuple(replace(source, read=source.read - source.dead, dead=0) for source in SUMMARY.sources)
    assert "dead:" not in as_text(replace(SUMMARY, sources=alive))


def test_the_text_has_no_control_sequence() -> None:
    assert as_text(SUMMARY).replace("\n", "").isprintable()


def test_json_has_every_number_and_the_rate() -> None:
    body = json.loads(json.dumps(SUMMARY.to_json()))
    assert body["sources"][0] == {
        "name": "orders",
        "read": 1_000_000,
        "joined": 999_000,
        "filtered": 600,
        "late": 300,
        "dead": 90,
        "dropped": 10,
    }
    assert {key: body[key] for key in ("rows_out", "failed_expressions", "watermark", "state_rows", "first_dead")} == {
        "rows_out": 1_234_567,
        "failed_expressions": 0,
        "watermark": None,
        "state_rows": 7,
        "first_dead": "orders/000.csv, row 3, column k: 'many' is no INT",
    }
    assert body["rows_per_second"] == pytest.approx(400_008)
    assert replace(SUMMARY, seconds=0.0).rows_per_second == 0.0


def test_fates_of_all_dispatchers_are_added_up_source_by_source() -> None:
    asked = query("SELECT a.id FROM a JOIN b ON a.n = b.n WITHIN 1 MINUTE")
    counts = [
        {ACCEPTED: (5, 1), FILTERED: (2, 0), LATE: (1, 0), FAILED_FILTER: (1, 0), FAILED_EXPRESSION: (0, 2)},
        {ACCEPTED: (1, 6), DEAD: (0, 3), DROPPED: (0, 1)},
    ]
    found = fates_of(asked, (9, 11), counts)
    assert found == (SourceFates("a", 9, 6, 2, 1, 0, 0), SourceFates("b", 11, 7, 0, 0, 3, 1))
    assert failed_on_entry(counts) == 3
    with pytest.raises(AssertionError, match="rows of b are unaccounted for"):
        fates_of(asked, (9, 12), counts)
