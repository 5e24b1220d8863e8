"""Which types meet in one expression, and the CASTs that make them equal: the promises of query/expression.py.

What converts by itself: a narrow integer to a wide one, an integer to DECIMAL or DOUBLE, a DECIMAL to another DECIMAL
or to DOUBLE, a DATE to a TIMESTAMP (its midnight in UTC). Nothing else; above all a string is never compared with a
number.

A literal has no type before it meets one: `1.5` beside a DECIMAL is that exact DECIMAL, elsewhere a DOUBLE; `5` takes
the width of the integer beside it if it fits; a string beside a TIMESTAMP or a DATE is read as one; NULL is of any
type. A common DECIMAL has the greater scale and as many digits before the point as both need, at most 18 in all: a
value that does not fit into what is left fails when it is met, and is counted as every failing expression is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from enum import Enum
from typing import TypeGuard

from biclique.query.expression import Call, Expression, Literal, Op
from biclique.query.moments import MICROSECONDS, days_of, microseconds_of
from biclique.query.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DECIMAL_DIGITS_MAX,
    DOUBLE,
    INTERVAL,
    STRING,
    TIMESTAMP,
    Kind,
    Type,
    decimal,
)

NUMBER_CHARACTERS_MAX = 40
NUMERIC = frozenset({Kind.INTEGER, Kind.DECIMAL, Kind.DOUBLE})
ORDERED = frozenset(Kind) - {Kind.BOOLEAN}

_DIGITS = {8: 3, 16: 5, 32: 10, 64: DECIMAL_DIGITS_MAX}
_EXACT = Context(prec=2 * NUMBER_CHARACTERS_MAX)


class Mismatch(Exception):
    """Types that do not meet: a problem and a remedy, without the place, which the checker adds."""

    def __init__(self, problem: str, remedy: str = "") -> None:
        self.problem, self.remedy = problem, remedy
        super().__init__(problem)


class Bare(Enum):
    NULL = "NULL"
    NUMBER = "number"
    STRING = "string"


@dataclass(frozen=True, slots=True)
class Untyped:
    """A literal that waits for the type beside it. `text` is the number as written (with its sign), or the string."""

    bare: Bare
    text: str = ""

    @property
    def is_whole(self) -> bool:
        return self.bare is Bare.NUMBER and self.text.lstrip("-").isdigit()


Operand = Expression | Untyped
NULL = Untyped(Bare.NULL)

# What CAST can do: from kind → to kinds.
CASTS: dict[Kind, frozenset[Kind]] = {
    Kind.INTEGER: NUMERIC | {Kind.BOOLEAN, Kind.STRING},
    Kind.DECIMAL: NUMERIC | {Kind.STRING},
    Kind.DOUBLE: NUMERIC | {Kind.STRING},
    Kind.BOOLEAN: frozenset({Kind.BOOLEAN, Kind.INTEGER, Kind.STRING}),
    Kind.STRING: frozenset(Kind) - {Kind.INTERVAL},
    Kind.DATE: frozenset({Kind.DATE, Kind.TIMESTAMP, Kind.STRING}),
    Kind.TIMESTAMP: frozenset({Kind.DATE, Kind.TIMESTAMP, Kind.STRING}),
    Kind.INTERVAL: frozenset({Kind.INTERVAL}),
}


# --- the type in which two types meet --------------------------------------------------------------------------------


def common_type(left: Type, right: Type) -> Type | None:
    """The one type to which both convert by themselves; None where there is none."""
    if left == right:
        return left
    kinds = {left.kind, right.kind}
    if kinds == {Kind.INTEGER}:
        return left if left.bits >= right.bits else right
    if kinds <= NUMERIC:
        return DOUBLE if Kind.DOUBLE in kinds else _common_decimal(left, right)
    return TIMESTAMP if kinds == {Kind.DATE, Kind.TIMESTAMP} else None


def as_decimal(type_: Type) -> Type:
    return type_ if type_.kind is Kind.DECIMAL else decimal(_DIGITS[type_.bits], 0)


def _common_decimal(left: Type, right: Type) -> Type:
    left, right = as_decimal(left), as_decimal(right)
    scale = max(left.scale, right.scale)
    whole = max(left.precision - left.scale, right.precision - right.scale)
    return decimal(min(DECIMAL_DIGITS_MAX, whole + scale), scale)


def meet(operands: Sequence[Operand]) -> list[Expression]:
    """All operands in one type, for comparisons, CASE, COALESCE and the like."""
    target: Type | None = None
    for operand in operands:
        if isinstance(operand, Untyped):
            continue
        both = operand.type if target is None else common_type(target, operand.type)
        if both is None:
            raise Mismatch(*_stranger(target, operand.type))
        target = both
    if target is None:
        target = _type_of_bare([operand for operand in operands if isinstance(operand, Untyped)])
    for operand in operands:
        if isinstance(operand, Untyped) and operand.bare is not Bare.NULL:
            both = common_type(target, _type_beside(operand, target))
            assert both is not None
            target = both
    return [convert(operand, target) for operand in operands]


def _stranger(left: Type | None, right: Type) -> tuple[str, str]:
    kinds = {left.kind if left else right.kind, right.kind}
    if Kind.STRING in kinds and kinds & NUMERIC:
        return f"{left} meets {right}, and a string is never compared with a number", "CAST one of them"
    return f"{left} meets {right}, and neither converts to the other", "CAST one of them"


def _type_of_bare(operands: Sequence[Untyped]) -> Type:
    bares = {operand.bare for operand in operands} - {Bare.NULL}
    if not bares:
        raise Mismatch("NULL alone has no type", "write CAST(NULL AS type)")
    if len(bares) > 1:
        raise Mismatch("a string literal meets a number, and a string is never compared with a number", "CAST it")
    if bares == {Bare.STRING}:
        return STRING
    return BIGINT if all(operand.is_whole or operand.bare is Bare.NULL for operand in operands) else DOUBLE


def _type_beside(literal: Untyped, target: Type) -> Type:
    """The type that a literal takes beside a value of type `target`."""
    if literal.bare is Bare.STRING:
        if target.kind in {Kind.STRING, Kind.DATE, Kind.TIMESTAMP}:
            return target
        hint = "leave out the quotes, or CAST it" if target.kind in NUMERIC else f"write {_literal_form(target)}"
        raise Mismatch(f"the string '{short(literal.text)}' meets {target}", hint)
    if target.kind not in NUMERIC:
        raise Mismatch(f"the number {literal.text} meets {target}", f"write {_literal_form(target)}")
    if target.kind is Kind.DOUBLE:
        return DOUBLE
    if target.kind is Kind.INTEGER:
        if not literal.is_whole:
            return DOUBLE
        return target if _fits(int(literal.text), target.bits) else _settled(literal).type
    exact = exact_decimal(literal.text)
    if exact is None:
        return DOUBLE
    whole = max(exact.type.precision - exact.type.scale, target.precision - target.scale)
    if whole + max(exact.type.scale, target.scale) > DECIMAL_DIGITS_MAX:  # it would leave too few digits for the values
        problem = f"{literal.text} beside {target} needs more than {DECIMAL_DIGITS_MAX} digits"
        raise Mismatch(problem, "write fewer digits, or CAST the other AS DOUBLE")
    return exact.type


def _literal_form(target: Type) -> str:
    return {
        Kind.BOOLEAN: "TRUE or FALSE",
        Kind.STRING: "it in single quotes",
        Kind.DATE: "DATE '2026-03-01'",
        Kind.TIMESTAMP: "TIMESTAMP '2026-03-01 12:00:00'",
        Kind.INTERVAL: "INTERVAL 5 MINUTE",
    }[target.kind]


# --- literals --------------------------------------------------------------------------------------------------------


def settle(operand: Operand) -> Expression:
    """An operand that met no type: whole numbers are BIGINT, others DOUBLE, strings STRING; NULL needs a CAST."""
    return _settled(operand) if isinstance(operand, Untyped) else operand


def _settled(literal: Untyped) -> Literal:
    if literal.bare is Bare.NULL:
        raise Mismatch("NULL alone has no type", "write CAST(NULL AS type)")
    if literal.bare is Bare.STRING:
        return Literal(literal.text, STRING)
    if not literal.is_whole:
        return Literal(_float(literal.text), DOUBLE)
    value = int(literal.text)
    if not _fits(value, 64):
        raise Mismatch(f"{literal.text} does not fit into 64 bits", "write it with a point, as a DOUBLE")
    return Literal(value, BIGINT)


def exact_decimal(text: str) -> Literal | None:
    """`-1.50` as DECIMAL(3,2), however many digits that takes; None for one with an exponent, which is a DOUBLE."""
    if "e" in text.lower():
        return None
    value = Decimal(text)
    scale = max(0, -int(value.as_tuple().exponent))
    unscaled = int(value.scaleb(scale, _EXACT))
    return Literal(unscaled, decimal(max(len(str(abs(unscaled))), scale, 1), scale))


def _float(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise Mismatch(f"{short(text)} does not fit into a DOUBLE", "write a smaller number")
    return value


def _fits(value: int, bits: int) -> bool:
    return -(1 << (bits - 1)) <= value < 1 << (bits - 1)


def short(text: str) -> str:
    """A user's text inside a sentence: one line of at most forty characters."""
    line = "".join(character if character.isprintable() else "?" for character in text)
    return line if len(line) <= 40 else line[:37] + "..."


# --- conversion to a given type --------------------------------------------------------------------------------------


def convert(operand: Operand, target: Type) -> Expression:
    """The operand in a type to which it converts by itself, literals at once and columns by a CAST."""
    if isinstance(operand, Untyped):
        return _literal_as(operand, target)
    if operand.type == target:
        return operand
    if _is_widening(operand) and target.kind is Kind.INTEGER and target.bits >= operand.type.bits:
        operand = operand.args[0]  # through the width between changes nothing
    if isinstance(operand, Literal):
        folded = _converted_literal(operand, target)
        if folded is not None:
            return folded
    return Call(Op.CAST, (operand,), target)


def _is_widening(value: Expression) -> TypeGuard[Call]:
    if not isinstance(value, Call) or value.op is not Op.CAST or value.type.kind is not Kind.INTEGER:
        return False
    source = value.args[0].type
    return source.kind is Kind.INTEGER and source.bits <= value.type.bits


def _literal_as(literal: Untyped, target: Type) -> Literal:
    if literal.bare is Bare.NULL:
        return Literal(None, target)
    if literal.bare is Bare.STRING:
        return _string_as(literal.text, target)
    if target.kind is Kind.DOUBLE:
        return Literal(_float(literal.text), DOUBLE)
    exact = exact_decimal(literal.text)
    folded = _converted_literal(exact, target) if exact is not None else None
    if folded is None:
        raise Mismatch(f"{short(literal.text)} is no {target}", "write a number of that type")
    return folded


def _string_as(text: str, target: Type) -> Literal:
    if target == STRING:
        return Literal(text, STRING)
    if target == DATE:
        days = days_of(text)
        if days is not None:
            return Literal(days, DATE)
        raise Mismatch(f"'{short(text)}' is no DATE", "write one such as '2026-03-01', or TIMESTAMP '...' for a time")
    if target == TIMESTAMP:
        micros = microseconds_of(text)
        if micros is not None:
            return Literal(micros, TIMESTAMP)
        raise Mismatch(f"'{short(text)}' is no TIMESTAMP", "write one such as '2026-03-01 12:00:00'")
    raise Mismatch(f"the string '{short(text)}' meets {target}", "CAST it")


def _converted_literal(literal: Literal, target: Type) -> Literal | None:
    """Exactly the value in the other type, or None: then a CAST does it, and may fail, when the query runs."""
    value, source = literal.value, literal.type
    if value is None:
        return Literal(None, target)
    if source == DATE and target == TIMESTAMP and isinstance(value, int):
        return Literal(value * MICROSECONDS["d"], TIMESTAMP)
    if source.kind not in {Kind.INTEGER, Kind.DECIMAL} or target.kind not in NUMERIC or not isinstance(value, int):
        return None
    if target.kind is Kind.DOUBLE:  # the nearest double of the exact number, which is what its text would give
        return Literal(float(Decimal(value).scaleb(-source.scale, _EXACT)), DOUBLE)
    scale = target.scale if target.kind is Kind.DECIMAL else 0
    if scale >= source.scale:
        value *= 10 ** (scale - source.scale)
    else:
        value, rest = divmod(value, 10 ** (source.scale - scale))
        if rest:
            return None
    inside = abs(value) < 10**target.precision if target.kind is Kind.DECIMAL else _fits(value, target.bits)
    return Literal(value, target) if inside else None


def cast(operand: Operand, target: Type) -> Expression:
    """CAST as the user wrote it: any pair of types that CASTS lists."""
    if isinstance(operand, Untyped):
        if operand.bare is Bare.NULL:
            return Literal(None, target)
        if operand.bare is Bare.STRING and target.kind in {Kind.DATE, Kind.TIMESTAMP}:
            return _string_as(operand.text, target)
        exact = exact_decimal(operand.text) if operand.bare is Bare.NUMBER else None
        if exact is not None and exact.type.precision <= DECIMAL_DIGITS_MAX and target.kind is Kind.DECIMAL:
            operand = exact
    value = settle(operand)
    if target.kind not in CASTS[value.type.kind]:
        raise Mismatch(f"CAST from {value.type} to {target} is not possible", _cast_remedy(value.type, target))
    return convert(value, target)


def _cast_remedy(source: Type, target: Type) -> str:
    if source == INTERVAL:
        return "compare it with an interval such as INTERVAL 5 MINUTE"
    if target == BOOLEAN or source == BOOLEAN:
        return "use a comparison or CASE"
    return "see docs/sql.md for the casts there are"
