"""The scalar functions that a query may call, and no other: one table of name, parameters, result and operation.

A function is pure and deterministic: the same arguments give the same value on every unit and at every replay.
docs/sql.md shows this table, and a test compares the two.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from biclique.query.conversion import NUMERIC, ORDERED, Mismatch, Operand, Untyped, convert, meet, settle
from biclique.query.expression import Call, Expression, Literal, Op
from biclique.query.types import (
    BIGINT,
    DECIMAL_DIGITS_MAX,
    DOUBLE,
    INTERVAL,
    STRING,
    TIMESTAMP,
    Kind,
    Type,
    decimal,
)

DATE_TRUNC_UNITS = ("millisecond", "second", "minute", "hour", "day", "week", "month", "quarter", "year")
ROUND_DIGITS_MAX = 18


class Parameter(Enum):
    """What an argument must be; the name is what docs and sentences say."""

    NUMBER = "number"
    NUMBER_OR_INTERVAL = "number or interval"
    DOUBLE = "double"
    INTEGER = "integer"
    STRING = "string"
    TIMESTAMP = "timestamp"
    UNIT = "unit"
    DIGITS = "digits"  # a whole literal, ROUND_DIGITS_MAX at most, of either sign
    ANY = "any"
    ORDERED = "ordered"  # anything but BOOLEAN


class Result(Enum):
    """Where the type of the result comes from, when it is not one fixed type."""

    FIRST = "as the argument"
    WHOLE = "as the argument, without digits after the point"
    ROUNDED = "as the argument, with so many digits after the point"
    COMMON = "the common type"


@dataclass(frozen=True, slots=True)
class Function:
    """`parameters` after the first `required` may be left out; `repeats`: the last may be given any number of times."""

    name: str
    op: Op
    parameters: tuple[Parameter, ...]
    result: Type | Result
    required: int
    meaning: str
    repeats: bool = False


def _function(
    name: str,
    op: Op,
    parameters: Sequence[Parameter],
    result: Type | Result,
    meaning: str,
    *,
    required: int | None = None,
    repeats: bool = False,
) -> Function:
    needed = len(parameters) if required is None else required
    return Function(name, op, tuple(parameters), result, needed, meaning, repeats)


_P = Parameter
_TABLE = (
    _function("ABS", Op.ABS, [_P.NUMBER_OR_INTERVAL], Result.FIRST, "the value without its sign"),
    _function("FLOOR", Op.FLOOR, [_P.NUMBER], Result.WHOLE, "the greatest whole number not above it"),
    _function("CEIL", Op.CEIL, [_P.NUMBER], Result.WHOLE, "the least whole number not below it"),
    _function(
        "ROUND",
        Op.ROUND,
        [_P.NUMBER, _P.DIGITS],
        Result.ROUNDED,
        "the nearest number with so many digits after the point (none), halves away from zero",
        required=1,
    ),
    _function("SQRT", Op.SQRT, [_P.DOUBLE], DOUBLE, "the square root; of a negative number it fails"),
    _function("MOD", Op.MOD, [_P.NUMBER, _P.NUMBER], Result.COMMON, "the same as `%`"),
    _function(
        "GREATEST", Op.GREATEST, [_P.ORDERED] * 2, Result.COMMON, "the greatest of all that are not null", repeats=True
    ),
    _function("LEAST", Op.LEAST, [_P.ORDERED] * 2, Result.COMMON, "the least of all that are not null", repeats=True),
    _function("COALESCE", Op.COALESCE, [_P.ANY] * 2, Result.COMMON, "the first that is not null", repeats=True),
    _function("NULLIF", Op.NULLIF, [_P.ANY] * 2, Result.COMMON, "null if both are equal, else the first"),
    _function("UPPER", Op.UPPER, [_P.STRING], STRING, "in capitals"),
    _function("LOWER", Op.LOWER, [_P.STRING], STRING, "in small letters"),
    _function("TRIM", Op.TRIM, [_P.STRING], STRING, "without spaces at both ends"),
    _function("LENGTH", Op.LENGTH, [_P.STRING], BIGINT, "the number of code points"),
    _function(
        "SUBSTRING",
        Op.SUBSTRING,
        [_P.STRING, _P.INTEGER, _P.INTEGER],
        STRING,
        "from a position, counted from 1, to the end or for so many code points; a negative length fails",
        required=2,
    ),
    _function(
        "CONCAT", Op.CONCAT, [_P.STRING] * 2, STRING, "one after the other, as `||`; null if any is", repeats=True
    ),
    _function("YEAR", Op.YEAR, [_P.TIMESTAMP], BIGINT, "as EXTRACT(YEAR FROM ...), in UTC as all of these"),
    _function("MONTH", Op.MONTH, [_P.TIMESTAMP], BIGINT, "1 to 12"),
    _function("DAY", Op.DAY, [_P.TIMESTAMP], BIGINT, "of the month, 1 to 31"),
    _function("HOUR", Op.HOUR, [_P.TIMESTAMP], BIGINT, "0 to 23"),
    _function("MINUTE", Op.MINUTE, [_P.TIMESTAMP], BIGINT, "0 to 59"),
    _function("SECOND", Op.SECOND, [_P.TIMESTAMP], BIGINT, "0 to 59, without the fraction"),
    _function(
        "DATE_TRUNC",
        Op.DATE_TRUNC,
        [_P.UNIT, _P.TIMESTAMP],
        TIMESTAMP,
        "the start of the unit: " + ", ".join(f"'{unit}'" for unit in DATE_TRUNC_UNITS),
    ),
)
FUNCTIONS: dict[str, Function] = {function.name: function for function in _TABLE}
SYNONYMS = {"CEILING": "CEIL", "SUBSTR": "SUBSTRING", "CHAR_LENGTH": "LENGTH"}
EXTRACT_UNITS = ("YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND")

# Known elsewhere and refused here for a reason; the sentence says it.
_UNSTABLE = (
    *("NOW", "RAND", "RANDOM", "UUID", "NEWID", "GEN_RANDOM_UUID", "CURRENT_TIMESTAMP", "CURRENT_DATE"),
    *("CURRENT_TIME", "LOCALTIME", "LOCALTIMESTAMP", "CURRENT_USER", "SESSION_USER", "USER", "GETDATE", "SYSDATE"),
)
FORBIDDEN = dict.fromkeys(_UNSTABLE, "its value differs from one run to the next, so a replay would give other results")


def usage(function: Function) -> str:
    """`SUBSTRING(string, integer[, integer])`."""
    words = [parameter.value for parameter in function.parameters]
    given = ", ".join(words[: function.required])
    optional = "".join(f"[, {word}]" for word in words[function.required :])
    return f"{function.name}({given}{optional}{', ...' if function.repeats else ''})"


def apply(function: Function, arguments: Sequence[Operand]) -> Expression:
    """The call with every conversion made explicit; Mismatch where the arguments do not suit."""
    _count(function, arguments)
    if function.op is Op.MOD:
        return remainder(*arguments)
    if function.result is Result.COMMON:
        return _of_common_type(function, arguments)
    parameters = [*function.parameters, *[function.parameters[-1]] * (len(arguments) - len(function.parameters))]
    values = tuple(
        _argument(function, parameter, argument) for parameter, argument in zip(parameters, arguments, strict=False)
    )
    if isinstance(function.result, Type):
        return Call(function.op, values, function.result)
    digits = values[1].value if len(values) > 1 and isinstance(values[1], Literal) else 0
    return _rounding(function, values, digits) if function.result is not Result.FIRST else _same(function, values)


def _same(function: Function, values: tuple[Expression, ...]) -> Expression:
    return Call(function.op, values, values[0].type)


def _rounding(function: Function, values: tuple[Expression, ...], digits: object) -> Expression:
    assert isinstance(digits, int)
    type_ = values[0].type
    if type_.kind is Kind.INTEGER and digits >= 0:
        return values[0]  # a whole number is its own floor
    if type_.kind is Kind.DECIMAL:
        scale = min(max(digits, 0), type_.scale)
        type_ = decimal(min(DECIMAL_DIGITS_MAX, type_.precision - type_.scale + 1 + scale), scale)
    return Call(function.op, values, type_)


def remainder(left: Operand, right: Operand) -> Expression:
    """`%`: of BIGINTs, of DECIMALs with one scale, or of DOUBLEs."""
    values = meet([left, right])
    if values[0].type.kind not in NUMERIC:
        raise Mismatch(f"% of {values[0].type} is not possible", "use numbers")
    type_ = BIGINT if values[0].type.kind is Kind.INTEGER else values[0].type
    return Call(Op.MOD, tuple(convert(value, type_) for value in values), type_)


def _count(function: Function, arguments: Sequence[Operand]) -> None:
    least, most = function.required, len(function.parameters)
    if len(arguments) >= least and (function.repeats or len(arguments) <= most):
        return
    wanted = f"{least} or more" if function.repeats else str(most) if least == most else f"{least} or {most}"
    noun = "argument" if wanted == "1" else "arguments"
    raise Mismatch(f"{function.name} takes {wanted} {noun}, not {len(arguments)}", f"write {usage(function)}")


def _of_common_type(function: Function, arguments: Sequence[Operand]) -> Expression:
    values = tuple(meet(arguments))
    type_ = values[0].type
    if function.parameters[0] is Parameter.ORDERED and type_.kind not in ORDERED:
        raise Mismatch(f"{function.name} of {type_} has no order to go by", "use CASE")
    return Call(function.op, values, type_)


def _argument(function: Function, parameter: Parameter, argument: Operand) -> Expression:
    if parameter is Parameter.UNIT:
        value = settle(argument)
        unit = value.value if isinstance(value, Literal) else None
        if not isinstance(unit, str) or unit.lower() not in DATE_TRUNC_UNITS:
            raise Mismatch(f"{function.name} needs a unit", f"write one of {', '.join(DATE_TRUNC_UNITS)}, in quotes")
        return Literal(unit.lower(), STRING)
    if parameter is Parameter.DIGITS:
        value = settle(argument)
        digits = value.value if isinstance(value, Literal) and value.type == BIGINT else None
        if not isinstance(digits, int) or abs(digits) > ROUND_DIGITS_MAX:
            raise Mismatch(f"{function.name} needs a literal number of digits", f"write one up to {ROUND_DIGITS_MAX}")
        return value
    target = _FIXED.get(parameter)
    if target is not None and isinstance(argument, Untyped):
        if target == BIGINT and not argument.is_whole and argument.text:
            raise Mismatch(f"{function.name} takes a whole number, not {argument.text}", f"write {usage(function)}")
        return convert(argument, target)
    value = settle(argument)
    kind = value.type.kind
    if kind not in _ACCEPTED[parameter]:
        raise Mismatch(
            f"{function.name} does not take {value.type}", f"write {usage(function)}, with a CAST if need be"
        )
    if target is not None:
        return convert(value, target)
    return convert(value, BIGINT) if kind is Kind.INTEGER else value


_FIXED = {
    Parameter.DOUBLE: DOUBLE,
    Parameter.INTEGER: BIGINT,
    Parameter.STRING: STRING,
    Parameter.TIMESTAMP: TIMESTAMP,
}
_ACCEPTED = {
    Parameter.NUMBER: NUMERIC,
    Parameter.NUMBER_OR_INTERVAL: NUMERIC | {INTERVAL.kind},
    Parameter.DOUBLE: NUMERIC,
    Parameter.INTEGER: frozenset({Kind.INTEGER}),
    Parameter.STRING: frozenset({Kind.STRING}),
    Parameter.TIMESTAMP: frozenset({Kind.DATE, Kind.TIMESTAMP}),
}
