"""What evaluation does on one thread, with columns already gathered, in chunks as an index hands them on."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from bench.cases import Measured, Scale
from biclique.core.rows import Vector
from biclique.index.protocol import PAIRS_PER_CHUNK
from biclique.kernels.evaluate import compile_predicate
from biclique.kernels.hashing import hash_rows, result_ids
from biclique.kernels.partials import shares_of
from biclique.query.expression import Call, Column, Literal, Op
from biclique.query.model import Aggregate, AggregateFunction
from biclique.query.types import BIGINT, BOOLEAN, Type

CLOCK = time.perf_counter
SEED = 7


def per_second(work: Callable[[], object], items: int, rounds: int) -> float:
    work()
    started = CLOCK()
    for _ in range(rounds):
        work()
    return items * rounds / (CLOCK() - started)


def columns(type_: Type = BIGINT, limit: int = 100) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(SEED)
    left, right = rng.integers(0, limit, (2, PAIRS_PER_CHUNK))
    return left.astype(f"int{type_.bits}"), right.astype(f"int{type_.bits}")


def residual_pairs_per_second(limit: int = 100, rounds: int = 300) -> float:
    """a.x * 2 + b.y > 100; with `limit` near 2**62 every row must be looked at for overflow."""
    x, y = Column(0, 0, BIGINT), Column(1, 0, BIGINT)
    doubled = Call(Op.MUL, (x, Literal(2, BIGINT)), BIGINT)
    residual = Call(Op.GT, (Call(Op.ADD, (doubled, y), BIGINT), Literal(100, BIGINT)), BOOLEAN)
    predicate = compile_predicate([residual], {x: 0, y: 1})
    given = [Vector(values) for values in columns(limit=limit)]
    return per_second(lambda: predicate.run(given, PAIRS_PER_CHUNK), PAIRS_PER_CHUNK, rounds)


def residual(scale: Scale) -> Measured:
    rounds = scale.of(1000, 50)
    checked = residual_pairs_per_second(1 << 62, rounds)
    note = f"{checked:.3g} where each row must be checked for overflow"
    return Measured(residual_pairs_per_second(rounds=rounds), note=note)


def result_ids_per_second(scale: Scale) -> Measured:
    ids = columns(limit=1 << 60)
    return Measured(per_second(lambda: result_ids(ids), PAIRS_PER_CHUNK, scale.of(1000, 50)))


def hashes_per_second(scale: Scale) -> Measured:
    vector = Vector(columns(limit=1 << 60)[0])
    return Measured(per_second(lambda: hash_rows([vector]), PAIRS_PER_CHUNK, scale.of(1000, 50)))


def grouped_matches_per_second(scale: Scale) -> Measured:
    """COUNT(*) and SUM of a chunk of matches in a hundred groups."""
    key, argument = (Vector(values) for values in columns())
    values = [
        Aggregate(AggregateFunction.COUNT, None, BIGINT),
        Aggregate(AggregateFunction.SUM, Column(1, 0, BIGINT), BIGINT),
    ]
    newest = np.zeros(PAIRS_PER_CHUNK, np.int64)

    def work() -> object:
        return shares_of(values, [key], [None, argument], newest)

    return Measured(per_second(work, PAIRS_PER_CHUNK, scale.of(200, 20)))
