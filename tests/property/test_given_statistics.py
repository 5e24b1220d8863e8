"""Whatever a user says of the data, within the bounds of what may be said: a plan comes out, its numbers are finite and
none is negative, and it is JSON."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator

import pytest

from biclique.plan.describe import describe
from biclique.plan.explain import explain
from biclique.plan.given import OF_RELATION, RANGES, WHOLE, given_statistics
from biclique.plan.make import make_plan
from tests.unit.plan.queries import query

QUERIES = (
    "SELECT a.id FROM a JOIN b ON a.n = b.n WITHIN 1 MINUTE",
    "SELECT a.id FROM a JOIN b ON a.x BETWEEN b.lo AND b.hi AND a.i < b.j",
    "SELECT a.id FROM a JOIN b ON a.x < b.x AND a.y > b.y AND a.s = b.s WITHIN 1 DAY",
    "SELECT a.id FROM a JOIN b ON a.s || b.s = 'ab'",
    "SELECT a.id FROM a JOIN b ON ABS(a.n - b.n) <= 5 JOIN c ON b.f = c.f AND a.x < c.y WITHIN 1 SECOND",
)
LAYOUTS: tuple[dict[str, object], ...] = (
    {},
    {"units": 5},
    {"units": 3, "strategy": "random"},
    {"units": 4, "strategy": "matrix"},
)


def setting(rng: random.Random, name: str) -> str:
    allowed = RANGES[name.rpartition(".")[2]]
    least = max(allowed.least, 1e-18)
    value = rng.choice((least, allowed.most, math.exp(rng.uniform(math.log(least), math.log(allowed.most)))))
    return f"{name}={min(max(value, allowed.least), allowed.most)!r}"


def numbers(value: object) -> Iterator[float]:
    match value:
        case dict():
            for inner in value.values():
                yield from numbers(inner)
        case list():
            for inner in value:
                yield from numbers(inner)
        case int() | float():
            yield value


@pytest.mark.parametrize("seed", range(150))
def test_every_number_is_finite_and_none_is_negative(seed: int) -> None:
    rng = random.Random(seed)
    asked = query(rng.choice(QUERIES), **rng.choice(LAYOUTS))  # type: ignore[arg-type]
    names = [f"{relation.name}.{name}" for relation in asked.relations for name in OF_RELATION] + list(WHOLE)
    known = given_statistics(asked, [setting(rng, name) for name in rng.sample(names, rng.randrange(len(names)))])
    plan = make_plan(asked, known)
    described = describe(plan, known)
    for stage in described["stages"]:
        ratios = stage.pop("growth_ratio")  # type: ignore[misc]
        assert all(math.isfinite(ratio) for ratio in ratios)  # below 0: the copies alone are more than a unit has
    assert all(math.isfinite(number) and number >= 0 for number in numbers(described))
    assert json.loads(json.dumps(described, allow_nan=False)) == described
    assert explain(plan, known).startswith("Plan of q: ")
