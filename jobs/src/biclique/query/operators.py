"""Comparison, arithmetic and their types: what `=`, `+` and the rest accept, and the call that they become."""

from __future__ import annotations

from collections.abc import Sequence

from biclique.query.constants import folded
from biclique.query.conversion import (
    NUMERIC,
    ORDERED,
    Bare,
    Mismatch,
    Operand,
    Untyped,
    as_decimal,
    convert,
    exact_decimal,
    meet,
    settle,
)
from biclique.query.expression import Call, Expression, Literal, Op
from biclique.query.functions import remainder
from biclique.query.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DECIMAL_DIGITS_MAX,
    DOUBLE,
    INTERVAL,
    TIMESTAMP,
    Kind,
    Type,
    decimal,
)

_TIMES = {DATE, TIMESTAMP}


def comparison(op: Op, left: Operand, right: Operand) -> Expression:
    values = meet([left, right])
    if op not in {Op.EQ, Op.NE} and values[0].type.kind not in ORDERED:
        raise Mismatch(f"BOOLEANs have no order, and {op.value} asks for one", "use = or <>")
    return Call(op, tuple(values), BOOLEAN)


def negation(operand: Operand) -> Operand:
    if isinstance(operand, Untyped) and operand.bare is Bare.NUMBER:
        text = operand.text
        return Untyped(Bare.NUMBER, text[1:] if text.startswith("-") else "-" + text)
    value = settle(operand)
    if value.type.kind is Kind.INTEGER:
        value = convert(value, BIGINT)
    elif value.type.kind not in NUMERIC and value.type != INTERVAL:
        raise Mismatch(f"{value.type} has no negative", "use a number or an INTERVAL")
    return folded(Call(Op.NEG, (value,), value.type))


def arithmetic(op: Op, left: Operand, right: Operand) -> Expression:
    if op is Op.MOD:
        return remainder(left, right)
    types = {operand.type for operand in (left, right) if not isinstance(operand, Untyped)}
    if types & (_TIMES | {INTERVAL}):
        return folded(_of_times(op, left, right))
    for type_ in types:
        if type_.kind not in NUMERIC:
            raise Mismatch(f"{op.value} of {type_} is not possible", _arithmetic_remedy(type_))
    values = meet([left, right]) if op in {Op.ADD, Op.SUB} else _each(left, right)
    for value in values:
        if value.type.kind not in NUMERIC:
            raise Mismatch(f"{op.value} of {value.type} is not possible", _arithmetic_remedy(value.type))
    kinds = {value.type.kind for value in values}
    if op is Op.DIV or Kind.DOUBLE in kinds:
        return folded(_call(op, values, DOUBLE))
    if kinds == {Kind.INTEGER}:
        return folded(_call(op, values, BIGINT))
    return _of_decimals(op, [as_decimal_expression(value) for value in values])


def _arithmetic_remedy(type_: Type) -> str:
    if type_.kind is Kind.STRING:
        return "join strings with ||, or CAST to a number"
    return "CAST it to a number"


def _call(op: Op, values: Sequence[Expression], type_: Type) -> Call:
    return Call(op, tuple(convert(value, type_) for value in values), type_)


def as_decimal_expression(value: Expression) -> Expression:
    return convert(value, as_decimal(value.type))


def _each(left: Operand, right: Operand) -> list[Expression]:
    """For `*` and `/`: each in its own type; a literal beside a DECIMAL is an exact DECIMAL, NULL is as the other."""
    operands = [left, right]
    typed = [operand for operand in operands if not isinstance(operand, Untyped)]
    if not typed or all(not isinstance(operand, Untyped) for operand in operands):
        return [settle(operand) for operand in operands] if typed else meet(operands)
    other = typed[0].type
    values: list[Expression] = []
    for operand in operands:
        exact = None
        if isinstance(operand, Untyped) and operand.bare is Bare.NUMBER and other.kind is Kind.DECIMAL:
            exact = exact_decimal(operand.text)
        if isinstance(operand, Untyped) and operand.bare is Bare.NULL:
            values.append(Literal(None, other))
        elif exact is not None and exact.type.precision <= DECIMAL_DIGITS_MAX:
            values.append(exact)
        else:
            values.append(settle(operand))
    return values


def _of_decimals(op: Op, values: Sequence[Expression]) -> Expression:
    left, right = values[0].type, values[1].type
    if op is Op.MUL:
        scale = left.scale + right.scale
        if scale > DECIMAL_DIGITS_MAX:
            raise Mismatch(f"{left} * {right} has {scale} digits after the point, more than 18", "CAST one AS DOUBLE")
        return Call(op, tuple(values), decimal(min(DECIMAL_DIGITS_MAX, left.precision + right.precision), scale))
    assert left == right, "+ and - are of operands that met"
    return Call(op, tuple(values), decimal(min(DECIMAL_DIGITS_MAX, left.precision + 1), left.scale))


def _of_times(op: Op, left: Operand, right: Operand) -> Call:
    """Time - time, time ± interval, interval + time, interval ± interval; a DATE is its midnight."""
    types = [_time_type(operand) for operand in (left, right)]
    values = [settle(operand) for operand in (left, right) if not isinstance(operand, Untyped)]
    if len(values) == 2:
        match op, types:
            case (Op.SUB, [Kind.TIMESTAMP, Kind.TIMESTAMP]):
                return Call(op, tuple(convert(value, TIMESTAMP) for value in values), INTERVAL)
            case (Op.ADD | Op.SUB, [Kind.TIMESTAMP, Kind.INTERVAL]):
                return Call(op, (convert(values[0], TIMESTAMP), values[1]), TIMESTAMP)
            case (Op.ADD, [Kind.INTERVAL, Kind.TIMESTAMP]):
                return Call(op, (convert(values[1], TIMESTAMP), values[0]), TIMESTAMP)
            case (Op.ADD | Op.SUB, [Kind.INTERVAL, Kind.INTERVAL]):
                return Call(op, tuple(values), INTERVAL)
    names = [
        ("NULL" if operand.bare is Bare.NULL else f"a {operand.bare.value} literal")
        if isinstance(operand, Untyped)
        else str(operand.type)
        for operand in (left, right)
    ]
    raise Mismatch(
        f"{names[0]} {op.value} {names[1]} is not possible",
        "a time goes with + or - INTERVAL 5 MINUTE, two times with -; a literal time is written TIMESTAMP '...'",
    )


def _time_type(operand: Operand) -> Kind | None:
    if isinstance(operand, Untyped):
        return None
    return Kind.TIMESTAMP if operand.type in _TIMES else operand.type.kind


def connective(op: Op, operands: Sequence[Operand]) -> Expression:
    """AND or OR of many: a balanced tree of pairs in the order written, so that a long list is not a deep tree."""
    values = [truth(operand, op.name) for operand in operands]
    while len(values) > 1:
        pairs = [values[i : i + 2] for i in range(0, len(values), 2)]
        values = [Call(op, tuple(pair), BOOLEAN) if len(pair) == 2 else pair[0] for pair in pairs]
    return values[0]


def truth(operand: Operand, where: str) -> Expression:
    """A BOOLEAN, or a sentence that says where one is needed."""
    if isinstance(operand, Untyped) and operand.bare is Bare.NULL:
        return Literal(None, BOOLEAN)
    value = settle(operand)
    if value.type != BOOLEAN:
        raise Mismatch(f"{where} needs a BOOLEAN, not {value.type}", "write a comparison")
    return value
