"""Which function does the work of a call: the one place where the types of a checked call pick a kernel.

An operator takes the lanes of the arguments and gives the lane of the result, in the memory form of the call's type.
Types are trusted, as the checker made every conversion explicit; a call it would not make is a programmer's error and
asserts.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from biclique.kernels import arithmetic, comparison, conversion, decimals, logic, rounding, strings, timestamps
from biclique.kernels.lanes import Lane, dtype_of
from biclique.query.expression import Call, Expression, Literal, Op, walk
from biclique.query.types import TIMESTAMP, Kind, Type

Operator = Callable[[tuple[Lane, ...]], Lane]

COMPARISONS = (Op.EQ, Op.NE, Op.LT, Op.LE, Op.GT, Op.GE)
ARITHMETIC = (Op.ADD, Op.SUB, Op.MUL, Op.DIV, Op.MOD, Op.NEG)
NEVER_FAIL = frozenset(
    (
        *(*COMPARISONS, Op.AND, Op.OR, Op.NOT, Op.IS_NULL),
        *(Op.CASE, Op.COALESCE, Op.NULLIF, Op.GREATEST, Op.LEAST),
        *(Op.LENGTH, Op.TRIM, *timestamps.FIELDS),
    )
)


def can_fail(expression: Expression) -> bool:
    """False only where no row of any data fails."""
    return any(isinstance(node, Call) and not _never_fails(node) for node in walk(expression))


def _never_fails(call: Call) -> bool:
    if call.op is not Op.CAST:
        return call.op in NEVER_FAIL
    source, target = call.args[0].type, call.type
    if source.kind is Kind.INTEGER and target.kind is Kind.INTEGER:
        return target.bits >= source.bits
    widens = target.kind is Kind.DOUBLE and source.kind is not Kind.STRING
    return widens or target.kind is Kind.STRING or source.kind is Kind.BOOLEAN or source == target


def operator_of(call: Call) -> Operator:
    op, types = call.op, tuple(arg.type for arg in call.args)
    if op in COMPARISONS:
        assert types[0].kind is types[1].kind and types[0].scale == types[1].scale, call
        return lambda lanes: comparison.compare(op, *lanes)
    if op in ARITHMETIC:
        return _arithmetic(call, types)
    match op:
        case Op.AND:
            return lambda lanes: _folded(logic.conjunction, lanes)
        case Op.OR:
            return lambda lanes: _folded(logic.disjunction, lanes)
        case Op.NOT:
            return lambda lanes: logic.negation(lanes[0])
        case Op.IS_NULL:
            return lambda lanes: logic.is_null(lanes[0])
        case Op.CASE:
            return logic.case
        case Op.COALESCE:
            return logic.coalesce
        case Op.NULLIF:
            return lambda lanes: logic.nullif(*lanes)
        case Op.GREATEST | Op.LEAST:
            return lambda lanes: logic.extreme(op, lanes)
        case Op.CAST:
            convert = conversion.conversion(types[0], call.type)
            return lambda lanes: convert(lanes[0])
        case Op.ABS | Op.FLOOR | Op.CEIL | Op.ROUND | Op.SQRT:
            return _rounding(call, types)
        case Op.UPPER | Op.LOWER | Op.TRIM:
            return lambda lanes: strings.mapped(op, lanes[0])
        case Op.LENGTH:
            return lambda lanes: _held(strings.length(lanes[0]), call.type)
        case Op.SUBSTRING:
            return strings.substring
        case Op.CONCAT:
            return strings.concat
        case Op.DATE_TRUNC:
            unit = constant(call.args[0])
            assert isinstance(unit, str) and unit.lower() in timestamps.UNITS, call
            assert types[1] == call.type == TIMESTAMP, call
            return lambda lanes: timestamps.date_trunc(unit.lower(), lanes[1])
        case _:
            assert op in timestamps.FIELDS and types[0] == TIMESTAMP, call
            return lambda lanes: _held(timestamps.field(op, lanes[0]), call.type)


def constant(expression: Expression) -> int | float | bool | str | None:
    """The value of a literal, or of a negated one."""
    if isinstance(expression, Call) and expression.op in (Op.NEG, Op.CAST):
        value = constant(expression.args[0])
        assert value is None or isinstance(value, int | float), expression
        return value if value is None or expression.op is Op.CAST else -value
    assert isinstance(expression, Literal), f"{expression} must be a literal"
    return expression.value


def _folded(operation: Callable[[Lane, Lane], Lane], lanes: tuple[Lane, ...]) -> Lane:
    result = lanes[0]
    for lane in lanes[1:]:
        result = operation(result, lane)
    return result


def _held(lane: Lane, type_: Type) -> Lane:
    """An int64 lane in the memory form of its type."""
    if type_.kind is Kind.INTEGER:
        return arithmetic.narrowed(lane, dtype_of(type_))
    return lane


def _arithmetic(call: Call, types: tuple[Type, ...]) -> Operator:
    op, result = call.op, call.type
    if op is Op.NEG:
        if result.kind is Kind.DOUBLE:
            return lambda lanes: Lane(-lanes[0].values, lanes[0].valid, lanes[0].failed)
        return lambda lanes: _held(arithmetic.negated_integers(arithmetic.as_int64(lanes[0])), result)
    left, right = types
    if result.kind is Kind.DOUBLE:
        assert left.kind is right.kind is Kind.DOUBLE, call
        return lambda lanes: arithmetic.doubles(op, *lanes)
    if result.kind is Kind.DECIMAL:
        return lambda lanes: decimals.decimals(op, lanes[0], lanes[1], (left, right), result)
    # Times and intervals are int64 numbers of microseconds; a DATE was cast to its midnight.
    assert all(type_.kind in (Kind.INTEGER, Kind.TIMESTAMP, Kind.INTERVAL) for type_ in (left, right, result)), call
    return lambda lanes: _held(
        arithmetic.integers(op, arithmetic.as_int64(lanes[0]), arithmetic.as_int64(lanes[1])), result
    )


def _rounding(call: Call, types: tuple[Type, ...]) -> Operator:
    op, argument, result = call.op, types[0], call.type
    match op:
        case Op.SQRT:
            return lambda lanes: rounding.square_root(lanes[0])
        case Op.ABS:
            return lambda lanes: _held(rounding.absolute(_wide(lanes[0])), result)
        case Op.ROUND:
            digits = constant(call.args[1]) if len(call.args) == 2 else 0
            assert isinstance(digits, int), call
            return lambda lanes: _as_result(rounding.rounded(_wide(lanes[0]), argument, result, digits), result)
        case _:
            return lambda lanes: _as_result(rounding.whole(op, _wide(lanes[0]), argument, result), result)


def _wide(lane: Lane) -> Lane:
    return lane if lane.values.dtype == np.float64 else arithmetic.as_int64(lane)


def _as_result(lane: Lane, result: Type) -> Lane:
    if result.kind is Kind.INTEGER and lane.values.dtype == np.float64:
        return conversion.double_to_integer(lane, result)
    return _held(lane, result)
