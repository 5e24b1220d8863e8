"""The semijoin paper's numbers (section 5.3), what blocks make of them, and what the planner chooses by them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from biclique.plan.describe import describe
from biclique.plan.make import make_plan
from biclique.plan.model import PLACE, Plan, Transport
from biclique.plan.semijoin import Link, Shipped, keys_first, published, rows_read, whole
from biclique.plan.statistics import default_statistics
from biclique.query.model import Query
from biclique.query.types import BIGINT, INT
from tests.unit.plan.queries import query

LINK = Link(0.005, 1000.0)
DEFAULT = Shipped(500, 500, 500, 500, 1 / 10_000, 100, 10)


def shipped(**changed: float) -> Shipped:
    return replace(DEFAULT, **changed)


def windows(rows: float) -> Shipped:
    return shipped(rows=rows, other_rows=rows)


@pytest.mark.parametrize(
    ("given", "link", "once", "twice"),
    [
        (DEFAULT, LINK, 4.0, 4.8),
        (shipped(share=1 / 500), LINK, 0.79, 0.88),
        (shipped(share=1 / 1000), LINK, 1.1, 1.3),
        (shipped(share=1 / 2000), LINK, 1.6, 2.1),
        (shipped(share=1 / 100_000), LINK, 6.5, 6.7),
        (shipped(whole_bytes=10), LINK, 0.84, 0.86),
        (shipped(whole_bytes=50), LINK, 2.5, 2.8),
        (shipped(whole_bytes=200), LINK, 5.7, 7.6),
        (windows(50), LINK, 6.5, 6.7),
        (windows(1000), LINK, 2.8, 3.6),
        (windows(5000), LINK, 1.1, 1.3),
        (DEFAULT, Link(0.005, 1e4), 1.9, 2.0),
        (DEFAULT, Link(0.005, 1e5), 0.97, 0.98),
    ],
)
def test_the_ratios_of_the_paper(given: Shipped, link: Link, once: float, twice: float) -> None:
    assert whole(given, link) / keys_first(given, link) == pytest.approx(once, rel=0.05)
    assert whole(given, link) / published(given, link) == pytest.approx(twice, rel=0.05)


def test_a_block_is_read_for_one_of_its_rows_and_no_more_often_than_there_are_blocks() -> None:
    assert rows_read(0.0, 16) == 16
    assert rows_read(1e-6, 16) == pytest.approx(16, rel=1e-3)
    assert rows_read(1.0, 16) == 1.0
    assert rows_read(0.3, 1.0) == pytest.approx(1.0)


def planned(sql: str, transport: str = "auto", string_bytes: float = 16.0, kafka: bool = True) -> Plan:
    asked = _asked(sql, transport, kafka)
    return make_plan(asked, replace(default_statistics(asked), string_bytes=string_bytes))


def _asked(sql: str, transport: str, kafka: bool = True) -> Query:
    made = query(sql, kafka=kafka, units=4)
    return replace(made, hints=replace(made.hints, transport=transport))


NUMBERS = "SELECT a.id, a.n, a.x, a.y, a.lo, a.hi, b.x AS z FROM a JOIN b ON a.i = b.i WITHIN 1 HOURS"
TEXT = "SELECT a.id, a.s, b.x FROM a JOIN b ON a.i = b.i WITHIN 1 SECONDS"


def test_what_predicates_need_travels_and_the_rest_stays_behind() -> None:
    left, right = planned(TEXT, "semijoin").stages[0].sides
    assert left.transport is right.transport is Transport.SEMIJOIN
    assert [left.columns[at].field for at in left.payload] == [0, 10]
    assert left.types[PLACE:] == (BIGINT, INT)
    assert len(left.types) == len(left.columns) + 2


@pytest.mark.parametrize(
    ("plan", "transports"),
    [
        (planned(TEXT, "tuples"), ("tuples", "tuples")),
        (planned(TEXT, "semijoin", kafka=False), ("tuples", "tuples")),  # files have no shuffled that lasts
        (planned("SELECT a.i FROM a JOIN b ON a.i = b.i", "semijoin"), ("tuples", "tuples")),  # nothing is left behind
        (planned("SELECT a.i, COUNT(*) FROM a JOIN b ON a.i = b.i GROUP BY a.i", "semijoin"), ("tuples", "tuples")),
        (planned(TEXT), ("measured", "tuples")),  # only one has a text; eight bytes save nothing
        (planned(TEXT, string_bytes=1000), ("measured", "tuples")),
        (planned(NUMBERS), ("measured", "tuples")),  # how many match, no plan knows
    ],
)
def test_what_is_chosen(plan: Plan, transports: tuple[str, str]) -> None:
    assert tuple(side.transport.value for side in plan.stages[0].sides) == transports


def test_it_says_why() -> None:
    for string_bytes, begins in ((16.0, "whole tuples until"), (1000.0, "keys first until")):
        asked = _asked(TEXT, "auto")
        known = replace(default_statistics(asked), string_bytes=string_bytes)
        (why,) = describe(make_plan(asked, known), known)["stages"][0]["left"]["transport_why"]
        assert why.startswith(begins) and "of keys and" in why


def test_partial_results_travel_whole() -> None:
    sql = "SELECT a.s, b.t, c.s AS u FROM a JOIN b ON a.i = b.i JOIN c ON b.j = c.j"
    first, second = planned(sql, "semijoin").stages
    assert all(side.payload for side in first.sides)
    assert not second.sides[0].payload and second.sides[1].payload
