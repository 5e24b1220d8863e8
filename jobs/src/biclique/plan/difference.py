"""`ABS(x - y) <= c`, `x - y BETWEEN c AND d`, `c > x - y`: what a comparison says of the difference of two expressions,
one over each side, as an interval with literal ends.

Everything is turned into `low <= L - R <= high`, L over the left side and R over the right one. Where the difference
is cast before it is compared, the interval is taken a little too wide. For exact types both ends are integers in the
memory form of the difference; for DOUBLE they are the literals, and what rounding needs is added where the interval
becomes a key range.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor

from biclique.plan.constant import EXACT_IN_DOUBLE, INT64_MAX, INT64_MIN, constant, in_units
from biclique.plan.draft import StageDraft
from biclique.plan.model import LEFT, RIGHT
from biclique.plan.shift import widened
from biclique.query.expression import Call, Expression, Op
from biclique.query.types import Kind, Type

FLIPPED = {Op.LT: Op.GT, Op.LE: Op.GE, Op.GT: Op.LT, Op.GE: Op.LE, Op.EQ: Op.EQ}
SLACK = Fraction(1, 10**12)  # relative; thousands of times what the rounding of one cast can be


@dataclass(frozen=True, slots=True)
class Difference:
    """`low <= left - right <= high`. `certain`: as far as no subtraction overflows, this is the conjunct itself.

    `nan_fails`: the conjunct is not true when the difference is NaN (greater than every number, so `>= c` is).
    """

    conjunct: int
    left: Expression
    right: Expression
    low: int | float | None
    high: int | float | None
    certain: bool
    nan_fails: bool

    @property
    def kind(self) -> Kind:
        return self.left.type.kind


def differences_of(stage: StageDraft) -> tuple[Difference, ...]:
    found = (difference(stage, number, conjunct) for number, conjunct in enumerate(stage.conjuncts))
    return tuple(d for d in found if d is not None)


def difference(stage: StageDraft, number: int, conjunct: Expression) -> Difference | None:
    if not isinstance(conjunct, Call) or conjunct.op not in FLIPPED:
        return None
    op, (subject, literal) = conjunct.op, conjunct.args
    if constant(subject) is not None:
        op, subject, literal = FLIPPED[op], literal, subject
    value = constant(literal)
    if value is None:
        return None
    inner, loose = subject, False
    while isinstance(inner, Call) and inner.op is Op.CAST and _monotone(inner.args[0].type, inner.type):
        loose = loose or not _lossless(inner.args[0].type, inner.type, value)
        inner = inner.args[0]
    absolute = isinstance(inner, Call) and inner.op is Op.ABS
    if isinstance(inner, Call) and inner.op is Op.ABS:
        inner = inner.args[0]
    if not isinstance(inner, Call) or inner.op is not Op.SUB:
        return None
    one, other = inner.args
    sides = stage.side_of(one), stage.side_of(other)
    if {*sides} != {LEFT, RIGHT} or not _subtracts_exactly(one.type, other.type, inner.type):
        return None
    if absolute and op in (Op.GT, Op.GE):
        return None  # two rays are no interval
    low, high = _interval(op, in_units(value, literal.type), inner.type, loose, absolute)
    if sides == (RIGHT, LEFT):
        one, other = other, one
        low, high = None if high is None else -high, None if low is None else -low
    if not all(end is None or isinstance(end, float) or INT64_MIN < end <= INT64_MAX for end in (low, high)):
        return None
    return Difference(
        number,
        widened(one),
        widened(other),
        low,
        high,
        certain=not loose and not (absolute and op is Op.EQ) and _holds(inner.type, low, high),
        nan_fails=op not in (Op.GT, Op.GE),
    )


def _interval(
    op: Op, value: Fraction, type_: Type, loose: bool, absolute: bool
) -> tuple[int | float | None, int | float | None]:
    upper, lower = op in (Op.LT, Op.LE, Op.EQ), op in (Op.GT, Op.GE, Op.EQ) or absolute
    slack = abs(value) * SLACK if loose else Fraction(0)
    bottom, top = (-value if absolute else value) - slack, value + slack
    if type_.kind is Kind.DOUBLE:
        return float(bottom) if lower else None, float(top) if upper else None
    scale = 10**type_.scale if type_.kind is Kind.DECIMAL else 1
    # A cast may round a number beyond the literal to the literal itself, so after such a one nothing is strict.
    strict_low = not loose and (op is Op.GT or (absolute and op is Op.LT))
    strict_high = not loose and op is Op.LT
    low = floor(bottom * scale) + 1 if strict_low else ceil(bottom * scale)
    high = ceil(top * scale) - 1 if strict_high else floor(top * scale)
    return low if lower else None, high if upper else None


def _monotone(source: Type, target: Type) -> bool:
    """The cast keeps order and value (up to the rounding of DOUBLE), or fails; other casts are not looked through."""
    match source.kind:
        case Kind.INTEGER:
            return target.kind in (Kind.INTEGER, Kind.DECIMAL, Kind.DOUBLE)
        case Kind.DECIMAL:
            return target.kind is Kind.DOUBLE or (target.kind is Kind.DECIMAL and target.scale >= source.scale)
        case _:
            return False


def _lossless(source: Type, target: Type, literal: int | float) -> bool:
    """The cast never fails, and no other number becomes the literal, or passes it."""
    match source.kind, target.kind:
        case Kind.INTEGER, Kind.INTEGER:
            return target.bits >= source.bits
        case Kind.INTEGER, Kind.DOUBLE:
            return abs(literal) < EXACT_IN_DOUBLE
        case Kind.DECIMAL, Kind.DECIMAL:
            return target.scale >= source.scale and target.precision - target.scale >= source.precision - source.scale
        case _:
            return False


def _holds(type_: Type, low: int | float | None, high: int | float | None) -> bool:
    """Every number of the interval is a value of the type: no failure inside it."""
    if type_.kind is Kind.DECIMAL:
        return all(end is None or abs(end) < 10**type_.precision for end in (low, high))
    return type_.kind is not Kind.DOUBLE


def _subtracts_exactly(one: Type, other: Type, result: Type) -> bool:
    """An overflow aside, the difference in memory form is the difference of the memory forms (DOUBLE: rounded once)."""
    match one.kind:
        case Kind.INTEGER | Kind.INTERVAL | Kind.DOUBLE:
            return other.kind is one.kind and result.kind is one.kind
        case Kind.DECIMAL:
            return other.kind is one.kind and result.kind is one.kind and one.scale == other.scale == result.scale
        case Kind.TIMESTAMP:
            return other.kind is Kind.TIMESTAMP and result.kind is Kind.INTERVAL
        case _:
            return False
