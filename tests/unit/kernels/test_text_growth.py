"""Texts that grow: the bound holds, evaluation in stretches changes nothing, and a text that is too long fails."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from biclique.core.rows import Vector
from biclique.index.access import ProbeKeysOf, StoredKeysOf
from biclique.kernels import strings, text_growth
from biclique.kernels.evaluate import compile_expression, compile_predicate, failures
from biclique.kernels.text_growth import result_growth
from biclique.query.expression import Call, Column, Literal, Op
from biclique.query.types import BIGINT, BOOLEAN, STRING
from tests.model.domains import ALL_TYPES, column, plain, vector
from tests.model.evaluate import FAILED, evaluate
from tests.model.trees import Trees

pytestmark = pytest.mark.slow  # as many rows, or queries, take longer than make check has

COLUMNS = tuple(Column(relation, field, type_) for relation in range(2) for field, type_ in enumerate(ALL_TYPES))
POSITIONS = {column: place for place, column in enumerate(COLUMNS)}
TEXT, NUMBER = Column(0, 0, STRING), Column(0, 1, BIGINT)
PLACES = {TEXT: 0, NUMBER: 1}
ROWS = 40


def call(op: Op, *args: Column | Literal | Call) -> Call:
    return Call(op, args, STRING)


@pytest.mark.parametrize("seed", range(20))
def test_the_bound_holds_on_any_tree(seed: int) -> None:
    rng = random.Random(seed)
    values = [column(rng, c.type, ROWS, 0.2, 0.3) for c in COLUMNS]
    trees, seen = Trees(rng, COLUMNS), 0
    for _ in range(60):
        tree = trees.of(STRING, rng.randint(1, 4))
        growth = result_growth(tree)
        for i in range(ROWS):
            row = {c: values[place][i] for c, place in POSITIONS.items()}
            made = evaluate(tree, row)
            if isinstance(made, str):
                texts = {c: len(str(row[c] or "").encode()) for c in growth.times}
                assert len(made.encode()) <= growth.fixed + sum(growth.times[c] * n for c, n in texts.items()), tree
                seen += 1
    assert seen > 500


@pytest.mark.parametrize("step_bytes", [0, 1, 37, 300])
@pytest.mark.parametrize("seed", range(6))
def test_stretches_of_any_size_change_nothing(seed: int, step_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed)
    vectors = [vector(c.type, column(rng, c.type, ROWS, 0.2, 0.3)) for c in COLUMNS]
    trees, paced = Trees(rng, COLUMNS), 0
    for _ in range(40):
        tree = trees.of(rng.choice((STRING, BIGINT, BOOLEAN)), rng.randint(1, 4))
        condition = trees.predicate(rng.randint(1, 3))
        equal, other = trees.of(STRING, 2), trees.of(STRING, 2)
        program, predicate = compile_expression(tree, POSITIONS), compile_predicate([condition], POSITIONS)
        keys = [kind([(equal, other)], None, None, POSITIONS) for kind in (StoredKeysOf, ProbeKeysOf)]

        def run() -> list[object]:
            result, (mask, failed) = program.run(vectors, ROWS), predicate.run(vectors, ROWS)  # noqa: B023
            found = [of(vectors, ROWS) for of in keys]  # noqa: B023
            return [
                repr(plain(result)),
                failures(result),
                mask.tolist(),
                failed,
                *(None if k.equal is None else k.equal.tolist() for k in found),
                *(None if m is None or m.all() else m.tolist() for m in (found[0].indexed, found[1].active)),
            ]

        whole = run()
        with monkeypatch.context() as small:
            small.setattr(text_growth, "STEP_BYTES_MAX", step_bytes)
            assert run() == whole, tree
            if program.pace is not None and not program.pace.fits(vectors, ROWS):
                assert all(b - a >= 1 for a, b in program.pace.stretches(vectors, ROWS))
                paced += 1
    assert paced > 2


def test_a_stretch_has_no_more_bytes_than_allowed_or_one_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_growth, "STEP_BYTES_MAX", 100)
    program = compile_expression(call(Op.CONCAT, TEXT, TEXT, Literal("xyz", STRING)), PLACES)
    lengths = [0, 1, 2, 3, 90, 5, 5, 5, 200]
    given = [Vector(pa.array(["x" * n for n in lengths], pa.string())), None]
    assert program.pace is not None
    for start, stop in program.pace.stretches(given, len(lengths)):
        assert stop - start == 1 or sum(4 * n + 6 for n in lengths[start:stop]) <= 100
    assert plain(program.run(given, len(lengths))) == ["x" * 2 * n + "xyz" for n in lengths]


def test_what_makes_no_text_has_no_bound_to_look_at() -> None:
    for expression in (
        TEXT,
        NUMBER,
        Call(Op.ADD, (NUMBER, NUMBER), BIGINT),
        Call(Op.EQ, (TEXT, Literal("x", STRING)), BOOLEAN),
        Call(Op.LENGTH, (TEXT,), BIGINT),
    ):
        assert compile_expression(expression, PLACES).pace is None
    for expression in (Literal("x", STRING), call(Op.TRIM, TEXT), Call(Op.LENGTH, (call(Op.TRIM, TEXT),), BIGINT)):
        assert compile_expression(expression, PLACES).pace is not None


def test_columns_beyond_two_gibibytes_are_never_made() -> None:
    """A whole chunk of pairs: 9 times 4,000 bytes is 2.4 GB, and so is a literal of 36 kB beside a number."""
    rows = 1 << 16
    text = Vector(pa.array(["x" * 4000], pa.string()).take(pa.array(np.zeros(rows, np.int64))))
    numbers = Vector(np.arange(rows, dtype=np.int64))
    long = Literal("y" * 36_000, STRING)
    number = call(Op.CAST, NUMBER)
    for made in (call(Op.CONCAT, *[TEXT] * 9), call(Op.CONCAT, long, number)):
        predicate = compile_predicate([Call(Op.GT, (Call(Op.LENGTH, (made,), BIGINT), NUMBER), BOOLEAN)], PLACES)
        mask, failed = predicate.run([text, numbers], rows)
        lengths = [36_000] * rows if made.args[0] is TEXT else [36_000 + len(str(i)) for i in range(rows)]
        assert mask.tolist() == [n > i for i, n in enumerate(lengths)] and failed == 0


@pytest.mark.parametrize("op", [Op.UPPER, Op.LOWER, Op.CONCAT])
def test_a_text_that_is_too_long_fails(op: Op, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strings, "TEXT_MAX", 8)
    args = (TEXT, Literal("é", STRING)) if op is Op.CONCAT else (TEXT,)
    most = 6 if op is Op.CONCAT else 8
    program = compile_expression(call(op, *args), PLACES)
    words = ["", "ab", "x" * most, "x" * (most + 1), None, "漢字漢"]
    result = program.run([vector(STRING, words), None], len(words))
    expected = [None if w is None else evaluate(call(op, *args), {TEXT: w}) for w in words]
    too_long = [w is not None and len(w.encode()) > most for w in words]
    assert plain(result) == [FAILED if bad else e for bad, e in zip(too_long, expected, strict=True)]
    assert failures(result) == 2 and program.fails
