"""The vectorised evaluator against the plain-Python one, on random typed trees over random data from tiny domains."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from biclique.kernels.evaluate import CACHE_ROWS, compile_expression, compile_predicate, failures, truth
from biclique.query.expression import Call, Column, Expression, Literal, Op
from biclique.query.types import BOOLEAN
from tests.model.domains import ALL_TYPES, column, plain, vector
from tests.model.evaluate import FAILED, Value, evaluate
from tests.model.trees import Trees

COLUMNS = tuple(Column(relation, field, type_) for relation in range(2) for field, type_ in enumerate(ALL_TYPES))
POSITIONS = {column: place for place, column in enumerate(COLUMNS)}
ROWS = 24


def data(rng: random.Random, count: int = ROWS) -> list[list[Value]]:
    nulls, extreme = rng.choice((0.0, 0.25)), rng.choice((0.0, 0.0, 0.3))
    return [column(rng, c.type, count, nulls, extreme) for c in COLUMNS]


def same(left: Value, right: Value) -> bool:
    if isinstance(left, float) and isinstance(right, float) and math.isnan(left):
        return math.isnan(right)
    return left == right and type(left) is type(right)


def row(values: list[list[Value]], i: int) -> dict[Column, Value]:
    return {c: values[place][i] for c, place in POSITIONS.items()}


@pytest.mark.parametrize("seed", range(60))
def test_vectorised_is_scalar(seed: int) -> None:
    rng = random.Random(seed)
    values = data(rng)
    vectors = [vector(c.type, v) for c, v in zip(COLUMNS, values, strict=True)]
    rows = [row(values, i) for i in range(ROWS)]
    trees = Trees(rng, COLUMNS)
    for number in range(60):
        tree = trees.of(rng.choice(ALL_TYPES), rng.randint(1, 4))
        program = compile_expression(tree, POSITIONS)
        given = [v if place in program.columns else None for place, v in enumerate(vectors)]
        result = program.run(given, ROWS)
        found, expected = plain(result), [evaluate(tree, r) for r in rows]
        wrong = [i for i in range(ROWS) if not same(found[i], expected[i])]
        assert not wrong, (
            f"seed {seed}, tree {number}: {tree}\n{rows[wrong[0]]}\n{found[wrong[0]]} != {expected[wrong[0]]}"
        )
        assert failures(result) == expected.count(FAILED)
        assert len(program.run([v.slice(0, 0) for v in vectors], 0)) == 0
        assert program.fails or FAILED not in expected
        if result.valid is not None:  # the contract of a stored column: nothing under a null
            empty = [v for v, there in zip(_raw(result), result.valid, strict=True) if not there]
            assert all(not v for v in empty)


def _raw(result: object) -> list[Value]:
    return plain(type(result)(result.values))


@pytest.mark.parametrize("seed", range(30))
def test_a_conjunction_is_its_conjuncts_and_so_is_its_count_of_failures(seed: int) -> None:
    rng = random.Random(seed)
    values = data(rng, 64)
    vectors = [vector(c.type, v) for c, v in zip(COLUMNS, values, strict=True)]
    trees = Trees(rng, COLUMNS)
    copies = CACHE_ROWS // 64 + 3  # more than one block, and the last one short
    several = [v.take(np.tile(np.arange(64), copies)) for v in vectors]
    for number in range(25):
        conjuncts = [trees.predicate(rng.randint(1, 3)) for _ in range(rng.randint(0, 4))]
        predicate = compile_predicate(conjuncts, POSITIONS)
        mask, failed = predicate.run(vectors, 64)
        whole: Expression = Literal(True, BOOLEAN)
        for conjunct in conjuncts:
            whole = Call(Op.AND, (whole, conjunct), BOOLEAN)
        expected = [evaluate(whole, row(values, i)) for i in range(64)]
        assert mask.tolist() == [v is True for v in expected], f"seed {seed}, {number}: {conjuncts}"
        assert failed == expected.count(FAILED), f"seed {seed}, {number}: {conjuncts}"
        assert truth(compile_expression(whole, POSITIONS).run(vectors, 64)).tolist() == mask.tolist()
        if number == 0:
            masks, failed_in_all = predicate.run(several, 64 * copies)
            assert (masks.reshape(copies, 64) == mask).all() and failed_in_all == failed * copies
