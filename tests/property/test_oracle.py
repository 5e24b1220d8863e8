"""The nested loop against DuckDB: two judges that share nothing must agree before either judges us."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from biclique.query.model import GroupKey, Item
from biclique.query.types import TIMESTAMP
from tests.model import duckdb_oracle, oracle
from tests.model.generate import Shape, random_data, random_query, tuples_of

SHAPES = {
    "pairs": Shape(aggregating=False, distinct=False, exotic=False),
    "distinct": Shape(aggregating=False, distinct=True, windowed=False, exotic=False),
    "aggregates": Shape(aggregating=True, exotic=False),
    "five relations": Shape(relations=(5, 5), exotic=False),
}


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("seed", range(40))
def test_the_nested_loop_and_duckdb_agree(name: str, seed: int) -> None:
    rng = random.Random(f"{name} {seed}")
    query = random_query(rng, SHAPES[name])
    relations = tuples_of(query, random_data(rng, query, {2: 20, 3: 9, 4: 6, 5: 5}[len(query.relations)]))
    ours, theirs = oracle.expected(query, relations), duckdb_oracle.expected(query, relations)
    assert not oracle.differences(ours, theirs), f"{query}\n{duckdb_oracle.statement(query)}\n{relations}"


@pytest.mark.parametrize("seed", range(20))
def test_they_agree_on_where_a_span_starts(seed: int) -> None:
    rng = random.Random(f"span {seed}")
    query = random_query(rng, Shape(relations=(2, 3), aggregating=True, tumbling=True, exotic=False))
    start = Item("start", GroupKey(len(query.group_by), TIMESTAMP), TIMESTAMP)
    query = replace(query, items=(*query.items, start))
    relations = tuples_of(query, random_data(rng, query, 9))
    ours, theirs = oracle.expected(query, relations), duckdb_oracle.expected(query, relations)
    assert not oracle.differences(ours, theirs), f"{query}\n{duckdb_oracle.statement(query)}\n{relations}"


def test_the_queries_have_results() -> None:
    """A generator whose predicates hardly ever hold would prove nothing."""
    sizes = []
    for seed in range(60):
        rng = random.Random(seed)
        query = random_query(rng, Shape(relations=(2, 2), aggregating=False, distinct=False))
        sizes.append(sum(oracle.expected(query, tuples_of(query, random_data(rng, query, 30))).values()))
    assert sum(size > 0 for size in sizes) > 40
    assert sum(size > 20 for size in sizes) > 12
