"""Statistics that a user gives: what they change, and one sentence about each that is wrong."""

from __future__ import annotations

import pytest

from biclique.plan.describe import describe
from biclique.plan.explain import explain
from biclique.plan.given import given_statistics
from biclique.plan.make import make_plan
from biclique.plan.statistics import RelationStatistics, default_statistics
from biclique.query.errors import QueryError
from biclique.query.model import Query
from tests.unit.plan.queries import query

WINDOWED = "SELECT a.id FROM a JOIN b ON a.n = b.n WITHIN 1 MINUTE"
CHAIN = "SELECT a.id FROM a JOIN b ON a.n = b.n JOIN c ON b.i = c.i WITHIN 1 MINUTE"


def results_per_s(asked: Query, *settings: str) -> float:
    known = given_statistics(asked, settings)
    return describe(make_plan(asked, known), known)["stages"][-1]["results_per_s"]


def test_without_any_the_defaults_stand() -> None:
    asked = query(WINDOWED)
    assert given_statistics(asked, ()) == default_statistics(asked)


def test_a_rate_brings_its_rows_unless_these_are_given_too() -> None:
    asked = query(WINDOWED)
    assert given_statistics(asked, ["a.rate=50"]).relations == (
        RelationStatistics(50.0, 3_000.0),
        RelationStatistics(1_000.0, 60_000.0),
    )
    found = given_statistics(asked, ["a.rate=50", "a.rows=7e3", "a.heaviest=0.25"]).relations[0]
    assert found == RelationStatistics(50.0, 7_000.0, 0.25)


def test_distinct_keys_are_the_share_of_an_equality_stage_by_stage() -> None:
    """l |R| + r |L| pairs a second times one in as many as the greater number of keys."""
    asked = query(WINDOWED)
    pairs = 2 * 1_000 * 60_000
    assert results_per_s(asked, "a.distinct=1000") == pytest.approx(pairs / 1_000)
    assert results_per_s(asked, "a.distinct=1000", "b.distinct=4e4") == pytest.approx(pairs / 40_000)
    assert results_per_s(asked, "equality=0.001") == results_per_s(asked, "a.distinct=1000")
    chain = query(CHAIN)
    assert results_per_s(chain, "a.distinct=1e4", "c.distinct=100") == pytest.approx(
        results_per_s(chain, "equality=1e-4") * 100
    )


def test_a_heavy_key_changes_the_plan() -> None:
    asked = query(WINDOWED, units=4)
    plans = [make_plan(asked, given_statistics(asked, given)) for given in ((), ("a.heaviest=0.9",))]
    assert [plan.stages[0].strategy.value for plan in plans] == ["hash", "biclique"]


def test_every_share_is_taken() -> None:
    asked = query(WINDOWED)
    settings = [f"{name}=0.125" for name in ("equality", "band", "range", "inequality", "unequal", "other")]
    found = given_statistics(asked, [*settings, "string_bytes=40", "delay_s=0.5"])
    assert set(describe(make_plan(asked, found), found)["assumed"]["shares"].values()) == {0.125}
    assert (found.string_bytes, found.delay_s) == (40.0, 0.5)


def test_a_source_stands_for_all_relations_made_of_it_and_an_alias_for_itself() -> None:
    asked = query("SELECT p.id FROM a AS p JOIN a AS q ON p.n = q.n WITHIN 1 MINUTE")
    assert [r.rate for r in given_statistics(asked, ["a.rate=9"]).relations] == [9.0, 9.0]
    assert [r.rate for r in given_statistics(asked, ["Q.rate=9"]).relations] == [1_000.0, 9.0]


def test_explain_says_what_was_given() -> None:
    asked = query(WINDOWED)
    known = given_statistics(asked, [" a.rate = 50 ", "b.distinct=2e4"])
    text = explain(make_plan(asked, known), known)
    assert "assumed      a 50/s and 3k rows stored, b 1k/s and 60k rows stored, 20k keys\n" in text
    assert text.endswith("\ngiven        a.rate=50, b.distinct=2e4\n")
    assumed = describe(make_plan(asked, known), known)["assumed"]
    assert assumed["given"] == ["a.rate=50", "b.distinct=2e4"]
    assert [relation["distinct_keys"] for relation in assumed["relations"]] == [None, 20_000.0]


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (["a.rate"], "--stat a.rate: a statistic is a name, = and a number; write one such as --stat orders.rate=5000"),
        (["=5"], "--stat =5: a statistic is a name, = and a number; write one"),
        (["a.rate="], "--stat a.rate=: a statistic is a name, = and a number; write one"),
        (["z.rate=5"], "--stat z.rate=5: there is no relation z; the relations are a, b"),
        (["a.rats=5"], "--stat a.rats=5: there is no statistic rats; did you mean rate?"),
        (["bond=5"], "--stat bond=5: there is no statistic bond; did you mean band?"),
        (["rate=5"], "--stat rate=5: rate is of one relation; write a.rate=..."),
        (["a.band=0.5"], "--stat a.band=0.5: there is no statistic band; the statistics of a relation are rate, rows"),
        (["a.rate=fast"], "--stat a.rate=fast: fast is no number; write one such as 5000, 0.25 or 1e-6"),
        (["a.rate=-1"], "--stat a.rate=-1: it must be above zero; write 1e-09 to 1e+15"),
        (["delay_s=-0.5"], "--stat delay_s=-0.5: it must not be below zero; write 0 to 1e+09"),
        (["a.rate=--1"], "--stat a.rate=--1: --1 is no number; write"),
        (["a.rate=nan"], "--stat a.rate=nan: nan is no number; write"),
        (["a.rate=1e99"], "--stat a.rate=1e99: 1e99 is out of range; write 1e-09 to 1e+15"),
        (["a.rate=0"], "--stat a.rate=0: 0 is out of range; write"),
        (["band=1.5"], "--stat band=1.5: 1.5 is out of range; write 1e-18 to 1"),
        (["a.distinct=0.5"], "--stat a.distinct=0.5: 0.5 is out of range; write 1 to 1e+18"),
        (["a.heaviest=2"], "--stat a.heaviest=2: 2 is out of range; write 0 to 1"),
        (["a.rate=5", "A.rate=6"], "--stat A.rate=6: it is given twice; keep one of them"),
        (["a.rate=5\x1b[2J\n"], "--stat a.rate=5?[2J?: 5?[2J is no number; write one"),
    ],
)
def test_what_is_wrong_gets_one_sentence(settings: list[str], sentence: str) -> None:
    with pytest.raises(QueryError) as refused:
        given_statistics(query(WINDOWED), settings)
    assert str(refused.value).startswith(sentence)
    assert refused.value.remedy
