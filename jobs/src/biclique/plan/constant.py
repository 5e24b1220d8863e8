"""The value of an expression without columns, where the planner can be sure of it: a literal, its negation, its cast.

A planner that folds more than it must would need an evaluator of its own, and the two could disagree. What is not
folded here stays as written and is evaluated with the rest of its predicate.
"""

from __future__ import annotations

from fractions import Fraction

from biclique.query.expression import Call, Expression, Literal, Op
from biclique.query.types import DECIMAL_DIGITS_MAX, Kind, Type

INT64_MIN, INT64_MAX = -(1 << 63), (1 << 63) - 1
EXACT_IN_DOUBLE = 1 << 53  # integers up to this are doubles without rounding
NUMBERS = (Kind.INTEGER, Kind.DECIMAL, Kind.DOUBLE, Kind.INTERVAL)


def constant(expression: Expression) -> int | float | None:
    """The number in the memory form of the expression's type; None: no number, or not one that we are sure of."""
    if isinstance(expression, Literal):
        value = expression.value
        if expression.type.kind not in NUMBERS or value is None or isinstance(value, bool | str):
            return None
        return value if value == value and abs(value) != float("inf") else None
    if not isinstance(expression, Call):
        return None
    if expression.op is Op.NEG:
        value = constant(expression.args[0])
        return None if value is None or value == INT64_MIN else -value
    if expression.op is Op.CAST:
        value = constant(expression.args[0])
        return None if value is None else _cast(value, expression.args[0].type, expression.type)
    return None


def _cast(value: int | float, source: Type, target: Type) -> int | float | None:
    if source == target:
        return value
    if isinstance(value, float) or source.kind is Kind.INTERVAL:
        return None
    if target.kind is Kind.INTEGER and source.kind is Kind.INTEGER:
        limit = 1 << (target.bits - 1)
        return value if -limit <= value < limit else None
    if target.kind is Kind.DECIMAL and target.scale >= source.scale:
        scaled = int(value * 10 ** (target.scale - source.scale))
        return scaled if abs(scaled) < 10 ** min(target.precision, DECIMAL_DIGITS_MAX) else None
    if target.kind is Kind.DOUBLE and source.kind is Kind.INTEGER:
        return float(value) if abs(value) <= EXACT_IN_DOUBLE else None
    return None


def in_units(value: int | float, type_: Type) -> Fraction:
    """The number itself: a DECIMAL's unscaled form divided by its scale."""
    return Fraction(value) / 10**type_.scale if type_.kind is Kind.DECIMAL else Fraction(value)
