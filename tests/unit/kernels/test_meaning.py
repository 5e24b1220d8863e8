"""What an expression means, case by case, in both evaluators: the sentences of the kernels' headers as a table.

A row: operator, arguments as (type, value), the type of the result, the result. FAILED is a failure, None a null.
"""

from __future__ import annotations

import math

import pytest

from biclique.kernels.evaluate import compile_expression, failures, truth
from biclique.query.expression import Call, Column, Literal, Op, Scalar
from biclique.query.types import BIGINT, BOOLEAN, DATE, DOUBLE, INT, STRING, TIMESTAMP, TINYINT, Type, decimal
from tests.model.domains import plain, vector
from tests.model.evaluate import FAILED, Value, evaluate

MIN, MAX = -(2**63), 2**63 - 1
NAN, INF = math.nan, math.inf
MONEY, RATE, WIDE = decimal(5, 2), decimal(3, 3), decimal(18, 2)
DAY = 86_400_000_000
Typed = tuple[Type, Scalar]


def same(op: Op, type_: Type, *cases: tuple[tuple[Scalar, ...], Value]) -> list:
    return [(op, [(type_, value) for value in args], type_, result) for args, result in cases]


def to(target: Type, source: Type, *cases: tuple[Scalar, Value]) -> list:
    return [(Op.CAST, [(source, value)], target, result) for value, result in cases]


CASES = [
    *same(Op.ADD, BIGINT, ((MAX, 1), FAILED), ((MAX, -1), MAX - 1), ((MIN, -1), FAILED), ((None, MAX), None)),
    *same(Op.SUB, BIGINT, ((MIN, 1), FAILED), ((0, MIN), FAILED), ((-1, MIN), MAX)),
    *same(Op.MUL, BIGINT, ((1 << 32, 1 << 31), FAILED), ((1 << 32, -(1 << 31)), MIN), ((MIN, -1), FAILED)),
    *same(Op.MUL, BIGINT, ((3_037_000_500, 3_037_000_500), FAILED), ((3_037_000_499,) * 2, 9223372030926249001)),
    *same(Op.DIV, BIGINT, ((-7, 2), -3), ((7, -2), -3), ((1, 0), FAILED), ((MIN, -1), FAILED), ((None, 0), None)),
    *same(Op.MOD, BIGINT, ((-7, 2), -1), ((7, -2), 1), ((MIN, -1), 0), ((1, 0), FAILED)),
    *same(Op.NEG, BIGINT, ((MIN,), FAILED), ((MAX,), -MAX)),
    *same(Op.ABS, BIGINT, ((MIN,), FAILED), ((-5,), 5)),
    *same(Op.ADD, DOUBLE, ((1e308, 1e308), FAILED), ((INF, 1.0), INF), ((INF, -INF), NAN)),
    *same(Op.DIV, DOUBLE, ((1.0, 0.0), FAILED), ((0.0, -0.0), FAILED), ((NAN, 0.0), FAILED), ((1.0, INF), 0.0)),
    *same(Op.MOD, DOUBLE, ((-7.5, 2.0), -1.5), ((7.5, -2.0), 1.5), ((1.0, 0.0), FAILED), ((5.0, INF), 5.0)),
    *same(Op.SQRT, DOUBLE, ((-1.0,), FAILED), ((NAN,), NAN), ((4.0,), 2.0)),
    *same(Op.ROUND, DOUBLE, ((2.5,), 3.0), ((-2.5,), -3.0), ((0.49999999999999994,), 0.0), ((INF,), INF)),
    *same(Op.FLOOR, DOUBLE, ((-0.5,), -1.0)),
    *same(Op.CEIL, DOUBLE, ((0.5,), 1.0)),
    (Op.ROUND, [(DOUBLE, 1.005), (BIGINT, 2)], DOUBLE, 1.0),  # 1.005 is less than it looks, and so is its product
    (Op.ROUND, [(DOUBLE, 1250.0), (BIGINT, -2)], DOUBLE, 1300.0),
    (Op.ROUND, [(BIGINT, -1250), (BIGINT, -2)], BIGINT, -1300),
    (Op.ROUND, [(BIGINT, MAX), (BIGINT, -1)], BIGINT, FAILED),
    (Op.ROUND, [(MONEY, -1250), (BIGINT, 1)], decimal(5, 1), -125),
    (Op.ROUND, [(MONEY, 1255), (BIGINT, 1)], decimal(5, 1), 126),
    (Op.FLOOR, [(MONEY, -1)], decimal(4, 0), -1),
    (Op.CEIL, [(MONEY, -1)], decimal(4, 0), 0),
    # DECIMAL
    (Op.ADD, [(MONEY, 99999), (MONEY, 1)], MONEY, FAILED),
    (Op.MUL, [(MONEY, 150), (RATE, 500)], decimal(8, 5), 75000),
    (Op.MUL, [(WIDE, 10**18 - 1), (WIDE, 100)], decimal(18, 4), FAILED),
    (Op.DIV, [(MONEY, 100), (MONEY, 300)], decimal(18, 6), 333333),
    (Op.DIV, [(MONEY, 200), (MONEY, -300)], decimal(18, 2), -67),
    (Op.DIV, [(MONEY, 1), (MONEY, 0)], MONEY, FAILED),
    # NaN and zero
    (Op.EQ, [(DOUBLE, NAN), (DOUBLE, NAN)], BOOLEAN, True),
    (Op.GT, [(DOUBLE, NAN), (DOUBLE, INF)], BOOLEAN, True),
    (Op.LT, [(DOUBLE, NAN), (DOUBLE, NAN)], BOOLEAN, False),
    (Op.LE, [(DOUBLE, 1.0), (DOUBLE, NAN)], BOOLEAN, True),
    (Op.EQ, [(DOUBLE, -0.0), (DOUBLE, 0.0)], BOOLEAN, True),
    (Op.LT, [(STRING, "Z"), (STRING, "a")], BOOLEAN, True),
    (Op.LT, [(STRING, "\uffff"), (STRING, "\U00010000")], BOOLEAN, True),  # by code point, not by UTF-16
    *same(Op.GREATEST, DOUBLE, ((1.0, NAN), NAN), ((None, 1.0), 1.0), ((None, None), None)),
    *same(Op.LEAST, BIGINT, ((None, 3, 2), 2)),
    # strings
    *same(Op.UPPER, STRING, (("é a",), "É A")),
    *same(Op.TRIM, STRING, (("  a b\t ",), "a b\t")),
    *same(Op.CONCAT, STRING, (("a", "漢"), "a漢"), (("a", None), None)),
    (Op.LENGTH, [(STRING, "漢\U0001f600")], BIGINT, 2),
    (Op.SUBSTRING, [(STRING, "漢字ab"), (BIGINT, 2), (BIGINT, 2)], STRING, "字a"),
    (Op.SUBSTRING, [(STRING, "abc"), (BIGINT, 0), (BIGINT, 2)], STRING, "a"),
    (Op.SUBSTRING, [(STRING, "abc"), (BIGINT, 2)], STRING, "bc"),
    (Op.SUBSTRING, [(STRING, "abc"), (BIGINT, 1), (BIGINT, -1)], STRING, FAILED),
    (Op.SUBSTRING, [(STRING, "abc"), (BIGINT, 2), (BIGINT, MAX)], STRING, "bc"),
    # time, also before 1970
    (Op.YEAR, [(TIMESTAMP, -1)], BIGINT, 1969),
    (Op.SECOND, [(TIMESTAMP, -1)], BIGINT, 59),
    (Op.DAY, [(TIMESTAMP, 19782 * DAY)], BIGINT, 29),  # 2024-02-29
    (Op.YEAR, [(TIMESTAMP, MIN)], BIGINT, -290308),
    (Op.DATE_TRUNC, [(STRING, "hour"), (TIMESTAMP, -1)], TIMESTAMP, -3_600_000_000),
    (Op.DATE_TRUNC, [(STRING, "week"), (TIMESTAMP, 0)], TIMESTAMP, -3 * DAY),
    (Op.DATE_TRUNC, [(STRING, "quarter"), (TIMESTAMP, 200 * DAY)], TIMESTAMP, 181 * DAY),
    (Op.DATE_TRUNC, [(STRING, "year"), (TIMESTAMP, MIN)], TIMESTAMP, FAILED),
    (Op.DATE_TRUNC, [(STRING, "second"), (TIMESTAMP, MIN)], TIMESTAMP, FAILED),
    # casts
    *to(TINYINT, BIGINT, (127, 127), (128, FAILED), (-129, FAILED), (None, None)),
    *to(BIGINT, DOUBLE, (2.9, 2), (-2.9, -2), (2.0**63, FAILED), (-(2.0**63), MIN), (NAN, FAILED), (INF, FAILED)),
    *to(INT, DOUBLE, (2147483647.5, 2147483647), (-2147483648.5, -2147483648), (2147483648.0, FAILED)),
    *to(MONEY, DOUBLE, (0.285, 28), (0.125, 13), (-0.125, -13), (1000.0, FAILED), (NAN, FAILED)),
    *to(MONEY, BIGINT, (999, 99900), (1000, FAILED), (MAX, FAILED)),
    *to(decimal(4, 1), MONEY, (125, 13), (-125, -13), (124, 12)),
    *to(BIGINT, MONEY, (199, 1), (-199, -1)),
    *to(DOUBLE, MONEY, (-125, -1.25)),
    *to(STRING, DOUBLE, (-0.0, "0.0"), (NAN, "NaN"), (1e22, "1e+22"), (0.1, "0.1"), (-INF, "-Infinity")),
    *to(STRING, MONEY, (-5, "-0.05"), (12345, "123.45")),
    *to(STRING, TIMESTAMP, (-1, "1969-12-31 23:59:59.999999"), (0, "1970-01-01 00:00:00")),
    *to(STRING, BOOLEAN, (True, "true")),
    *to(BIGINT, STRING, (" 42 ", 42), ("4 2", FAILED), ("", FAILED), ("9223372036854775808", FAILED), ("+7", 7)),
    *to(DOUBLE, STRING, ("1e400", FAILED), (".5", 0.5), ("-Infinity", -INF), ("0x1", FAILED), ("1_0", FAILED)),
    *to(MONEY, STRING, ("1.005", 101), ("-1.005", -101), ("1e1", 1000), ("1e9", FAILED), ("1e999999", FAILED)),
    *to(BOOLEAN, STRING, ("TRUE", True), ("0", FAILED)),
    *to(DATE, STRING, ("1969-12-31", -1), ("2026-02-29", FAILED), ("20260101", FAILED)),
    *to(TIMESTAMP, STRING, ("1970-01-01T01:00+01:00", 0), ("1970-01-01 00:00:00.5", 500_000), ("noon", FAILED)),
    *to(TIMESTAMP, DATE, (-1, -DAY), (200_000_000, FAILED)),
    *to(DATE, TIMESTAMP, (-1, -1), (DAY, 1)),
]


@pytest.mark.parametrize("case", CASES, ids=[f"{n} {case[0].value}" for n, case in enumerate(CASES)])
def test_both_evaluators_say_so(case: tuple[Op, list[Typed], Type, Value]) -> None:
    op, arguments, type_, result = case
    # DATE_TRUNC's unit and ROUND's digits are literals; everything else is a column, beside two rows that are null.
    literal = {Op.DATE_TRUNC: (0,), Op.ROUND: (1,)}.get(op, ())
    args = [Literal(value, of) if n in literal else Column(0, n, of) for n, (of, value) in enumerate(arguments)]
    call = Call(op, tuple(args), type_)
    columns = [c for c in args if isinstance(c, Column)]
    program = compile_expression(call, {c: c.field for c in columns})
    given = [vector(of, [None, value, None]) for of, value in arguments]
    assert repr(plain(program.run(given, 3))[1]) == repr(result)
    row = {c: arguments[c.field][1] for c in columns}
    assert repr(evaluate(call, row)) == repr(result)


def tri(value: Value) -> Literal | Call:
    """A literal, or what always fails."""
    if value is FAILED:
        return Call(
            Op.EQ, (Call(Op.DIV, (Literal(1, BIGINT), Literal(0, BIGINT)), BIGINT), Literal(1, BIGINT)), BOOLEAN
        )
    return Literal(value, BOOLEAN)


STATES = (True, False, None, FAILED)


@pytest.mark.parametrize("left", STATES)
@pytest.mark.parametrize("right", STATES)
def test_four_valued_logic(left: Value, right: Value) -> None:
    def weakest(*order: Value) -> Value:
        return next(state for state in order if state is left or state is right)

    wanted = {
        Op.AND: weakest(False, FAILED, None, True),
        Op.OR: weakest(True, FAILED, None, False),
        Op.COALESCE: right if left is None else left,
    }
    for op, result in wanted.items():
        call = Call(op, (tri(left), tri(right)), BOOLEAN)
        column = compile_expression(call, {}).run([], 2)
        assert plain(column) == [result] * 2
        assert evaluate(call, {}) is result
        assert truth(column).tolist() == [result is True] * 2
        assert failures(column) == 2 * (result is FAILED)


@pytest.mark.parametrize("condition", STATES)
def test_case_looks_only_at_what_it_chooses(condition: Value) -> None:
    call = Call(Op.CASE, (tri(condition), tri(True), tri(FAILED)), BOOLEAN)
    result = True if condition is True else FAILED
    other = Call(Op.CASE, (tri(condition), tri(FAILED), tri(True)), BOOLEAN)
    other_result = FAILED if condition in (True, FAILED) else True
    for tree, wanted in ((call, result), (other, other_result)):
        assert plain(compile_expression(tree, {}).run([], 1)) == [wanted]
        assert evaluate(tree, {}) is wanted


def test_is_null_of_a_failure_is_a_failure() -> None:
    call = Call(Op.IS_NULL, (tri(FAILED),), BOOLEAN)
    assert plain(compile_expression(call, {}).run([], 1)) == [FAILED] == [evaluate(call, {})]
