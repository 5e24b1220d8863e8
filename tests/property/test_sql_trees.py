"""What the checker makes of SQL is what the evaluators understand: compiled and plain, they agree on it.

Random trees of the right shape (tests/model/trees.py) judge the evaluator; these come the way a user's do, so a
form that only the checker makes, or that the evaluator does not expect, is found here.
"""

from __future__ import annotations

import math
import random

import pytest

from biclique.kernels.evaluate import compile_expression
from biclique.query.errors import QueryError
from biclique.query.expression import Column, Expression
from biclique.query.model import Aggregate, GroupKey
from biclique.query.sql import Checked, check_sql
from tests.model.domains import column, plain, vector
from tests.model.evaluate import Value, evaluate
from tests.property.sql_inputs import SOURCES, Grammar

ROWS = 24
QUERIES = 20


def expressions_of(checked: Checked) -> list[Expression]:
    found = [conjunct for conjuncts in checked.filters for conjunct in conjuncts]
    found += [*checked.predicates, *checked.group_by]
    for item in checked.items:
        argument = item.value.argument if isinstance(item.value, Aggregate) else item.value
        if argument is not None and not isinstance(argument, GroupKey):
            found.append(argument)
    return found


def accepted(rng: random.Random) -> Checked:
    while True:
        try:
            return check_sql(Grammar(rng).query(), SOURCES)
        except QueryError:
            continue


def same(left: Value, right: Value) -> bool:
    if isinstance(left, float) and isinstance(right, float) and math.isnan(left):
        return math.isnan(right)
    return left == right and type(left) is type(right)


@pytest.mark.parametrize("seed", range(12))
def test_both_evaluators_agree_on_what_sql_becomes(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(QUERIES):
        checked = accepted(rng)
        columns = [
            Column(relation, position, field.type)
            for relation, (_, source) in enumerate(checked.relations)
            for position, field in enumerate(SOURCES[source][1])
        ]
        values = {c: column(rng, c.type, ROWS, 0.2, 0.1) for c in columns}
        vectors = [vector(c.type, values[c]) for c in columns]
        for expression in expressions_of(checked):
            program = compile_expression(expression, {c: place for place, c in enumerate(columns)})
            given = [v if place in program.columns else None for place, v in enumerate(vectors)]
            found = plain(program.run(given, ROWS))
            for i in range(ROWS):
                expected = evaluate(expression, {c: values[c][i] for c in columns})
                assert same(found[i], expected), f"seed {seed}, row {i}: {expression}"
