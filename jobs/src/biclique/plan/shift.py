"""`base + literal`, taken apart and put together.

`a.at - INTERVAL 5 SECONDS <= b.at AND b.at <= a.at + INTERVAL 5 SECONDS` is one band over `a.at`, not two
inequalities over two expressions: adding literals to both sides of a comparison of integers keeps it. What it may not
keep is failure: where `a.at + INTERVAL …` overflows, the conjunct as written is not true, and `a.at` alone would know
nothing of it. So the key of such a band is a *round trip*, `(a.at + i) - i`: the value of `a.at`, and failed wherever
the original fails.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from biclique.plan.constant import INT64_MAX, constant
from biclique.query.expression import Call, Expression, Literal, Op
from biclique.query.types import BIGINT, DECIMAL_DIGITS_MAX, INTERVAL, Kind, Type, decimal


@dataclass(frozen=True, slots=True)
class Peeled:
    """expression = base + total, rounded once if `total` is a float; `steps` are its additions of literals, innermost
    first, and at which argument the operand of each is."""

    base: Expression
    total: int | float = 0
    steps: tuple[tuple[Call, int], ...] = ()


def peeled(expression: Expression) -> Peeled:
    if isinstance(expression, Call) and widens(expression):
        return peeled(expression.args[0])
    if not isinstance(expression, Call) or expression.op not in (Op.ADD, Op.SUB):
        return Peeled(widened(expression))
    for position in (0, 1) if expression.op is Op.ADD else (0,):
        operand, literal = expression.args[position], constant(expression.args[1 - position])
        if literal is None:
            continue
        if expression.op is Op.SUB:
            literal = -literal
        if isinstance(literal, float):  # one step only: the index allows for the rounding of one
            return Peeled(operand, literal, ((expression, position),))
        if adds_exactly(operand.type, expression.args[1 - position].type, expression.type):
            inner = peeled(operand)
            total = inner.total + literal
            if isinstance(total, int) and abs(total) <= INT64_MAX:
                return Peeled(inner.base, total, (*inner.steps, (expression, position)))
    return Peeled(widened(expression))


def adds_exactly(operand: Type, literal: Type, result: Type) -> bool:
    match operand.kind:
        case Kind.INTEGER:
            return literal.kind is Kind.INTEGER and result.kind is Kind.INTEGER
        case Kind.DECIMAL:
            return (
                literal.kind is Kind.DECIMAL
                and result.kind is Kind.DECIMAL
                and literal.scale == operand.scale == result.scale
            )
        case Kind.TIMESTAMP | Kind.INTERVAL:
            return literal.kind is Kind.INTERVAL and result.kind is operand.kind
        case _:
            return False


def round_trip(originals: Sequence[Peeled]) -> Expression:
    """The common base of exact types, failed wherever one of the originals fails."""
    assert originals and len({original.base for original in originals}) == 1
    value = originals[0].base
    for original in originals:
        for step, position in original.steps:
            args = (value, step.args[1]) if position == 0 else (step.args[0], value)
            value = Call(step.op, args, step.type)
        assert isinstance(original.total, int)
        value = _added(value, -original.total)
    return value


def _added(value: Expression, literal: int) -> Expression:
    match value.type.kind:
        case Kind.TIMESTAMP | Kind.INTERVAL:
            type_ = INTERVAL
        case _:
            type_ = value.type
    op = Op.ADD if literal >= 0 else Op.SUB
    return value if literal == 0 else Call(op, (value, Literal(abs(literal), type_)), value.type)


def widened(expression: Expression) -> Expression:
    """An integer as BIGINT, a DECIMAL with all the digits that its scale leaves: both sides of a key are then of one
    type, and the same column is the same expression however the checker has cast it. Neither cast can fail."""
    widest = _widest(expression.type)
    inner = unwidened(expression)
    return inner if inner.type == widest else Call(Op.CAST, (inner,), widest)


def unwidened(expression: Expression) -> Expression:
    """Without casts that only widen: a key of the narrow value is the same number."""
    while isinstance(expression, Call) and widens(expression):
        expression = expression.args[0]
    return expression


def widens(call: Call) -> bool:
    """A cast that keeps every value in its memory form, and has room for it."""
    if call.op is not Op.CAST:
        return False
    source, target = call.args[0].type, call.type
    return (
        source.kind is target.kind
        and (source.kind is Kind.INTEGER or source.kind is Kind.DECIMAL)
        and source.scale == target.scale
        and source.bits <= target.bits
        and source.precision <= target.precision
    )


def _widest(type_: Type) -> Type:
    match type_.kind:
        case Kind.INTEGER:
            return BIGINT
        case Kind.DECIMAL:
            return decimal(DECIMAL_DIGITS_MAX, type_.scale)
        case _:
            return type_
