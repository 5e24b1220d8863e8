"""What `explain` must say beyond the golden file: trouble that a user would otherwise meet when the query runs."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from biclique.plan.describe import describe
from biclique.plan.explain import explain
from biclique.plan.make import make_plan
from biclique.plan.statistics import default_statistics
from biclique.query.errors import QueryError
from tests.unit.plan.queries import query


def test_a_plan_is_plain_values() -> None:
    asked = query("SELECT a.id FROM a JOIN b ON a.n = b.n WITHIN 1 MINUTE", units=2)
    described = describe(make_plan(asked), default_statistics(asked))
    assert json.loads(json.dumps(described)) == described
    assert described["stages"][0]["strategy"] == "hash"


def test_state_beyond_a_unit_is_said_before_the_run() -> None:
    asked = query("SELECT a.id FROM a JOIN b ON a.n = b.n WITHIN 1 MINUTE")
    small = replace(asked, hints=replace(asked.hints, memory_bytes=1_000_000))
    statistics = default_statistics(asked)
    assert "MORE THAN A UNIT HAS" in explain(make_plan(small), statistics)
    assert "MORE THAN A UNIT HAS" not in explain(make_plan(asked), statistics)


def test_a_scan_is_said_with_its_price() -> None:
    asked = query("SELECT a.id FROM a JOIN b ON a.s || b.s = 'ab' WITHIN 1 MINUTE", units=2)
    text = explain(make_plan(asked), default_statistics(asked))
    assert "NO INDEX: no condition that an index serves" in text
    assert "compared with all 30k rows of a unit, 30M comparisons/s in each unit" in " ".join(text.split())


def test_no_line_but_the_picture_is_wider_than_a_screen() -> None:
    joins = " JOIN b ON a.n = b.n JOIN c ON b.n = c.n JOIN d ON c.n = d.n JOIN e ON d.n = e.n"
    asked = query(f"SELECT a.id FROM a{joins} AND a.x < e.x WITHIN 1 MINUTE")
    lines = explain(make_plan(asked), default_statistics(asked)).splitlines()
    assert max(len(line) for line in lines if "shuffler" not in line) <= 118


@pytest.mark.parametrize(
    ("sql", "hints", "sentence"),
    [
        (
            "SELECT a.id FROM a JOIN b ON a.n < b.n",
            {"strategy": "hash"},
            "spec.plan.strategy: hash needs an equality to route by, and the query has none; use biclique or random",
        ),
        (
            "SELECT a.id FROM a JOIN b ON a.n = b.n",
            {"strategy": "random", "subgroups": {"a": 2}},
            "spec.plan.subgroups: random routing has one subgroup a side, not 2; use biclique",
        ),
    ],
)
def test_hints_that_contradict_the_query_are_refused(sql: str, hints: dict[str, object], sentence: str) -> None:
    with pytest.raises(QueryError) as refused:
        make_plan(query(sql, **hints))  # type: ignore[arg-type]
    assert str(refused.value) == sentence
