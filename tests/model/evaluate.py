"""One row at a time: what an expression means, in plain Python numbers. Slow, and meant to be read.

A value is an int, float, bool, str or None (null), in the memory form that query/types.py says, or FAILED. Nothing
here is shared with kernels/: where the two agree, two people would have to be wrong in the same way.
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Callable, Mapping
from enum import Enum
from fractions import Fraction

from biclique.query.expression import Call, Column, Expression, Literal, Op
from biclique.query.types import Kind, Type


class Outcome(Enum):
    FAILED = "failed"


FAILED = Outcome.FAILED
Value = int | float | bool | str | None | Outcome
DAY = 86_400_000_000


def evaluate(expression: Expression, row: Mapping[Column, Value]) -> Value:
    if isinstance(expression, Column):
        return row[expression]
    if isinstance(expression, Literal):
        return expression.value
    op, args = expression.op, expression.args
    if op in LAZY:
        return LAZY[op]([lambda arg=arg: evaluate(arg, row) for arg in args])
    values = [evaluate(arg, row) for arg in args]
    if any(value is FAILED for value in values):
        return FAILED
    if op is Op.IS_NULL:
        return values[0] is None
    if op in (Op.GREATEST, Op.LEAST):
        return extreme(op, [v for v in values if v is not None])
    if any(value is None for value in values):
        return None
    return STRICT[op](expression, values)


def holds(predicate: Expression, row: Mapping[Column, Value]) -> bool:
    """Whether a pair passes: null and failed do not."""
    return evaluate(predicate, row) is True


# --- three-valued logic with failures --------------------------------------------------------------------------------

Lazy = Callable[[], Value]


def conjunction(args: list[Lazy], deciding: bool = False) -> Value:
    """AND; with `deciding` True: OR."""
    values = [arg() for arg in args]
    for weight in (deciding, FAILED, None):
        if any(value is weight for value in values):
            return weight
    return not deciding


def case(args: list[Lazy]) -> Value:
    for condition, value in zip(args[0:-1:2], args[1:-1:2], strict=True):
        decided = condition()
        if decided is FAILED:
            return FAILED
        if decided is True:
            return value()
    return args[-1]()


def coalesce(args: list[Lazy]) -> Value:
    for arg in args:
        value = arg()
        if value is not None:
            return value
    return None


def nullif(args: list[Lazy]) -> Value:
    left, right = args[0](), args[1]()
    if left is FAILED or right is FAILED:
        return FAILED
    return None if left is not None and right is not None and rank(left) == rank(right) else left


LAZY: dict[Op, Callable[[list[Lazy]], Value]] = {
    Op.AND: conjunction,
    Op.OR: lambda args: conjunction(args, True),
    Op.CASE: case,
    Op.COALESCE: coalesce,
    Op.NULLIF: nullif,
}


# --- order -----------------------------------------------------------------------------------------------------------


def rank(value: Value) -> tuple[int, Value]:
    """Sorts as SQL compares: NaN equals NaN and is above everything; strings by code point."""
    if isinstance(value, float) and math.isnan(value):
        return 1, 0
    return 0, value


def comparison(call: Call, values: list[Value]) -> bool:
    left, right = rank(values[0]), rank(values[1])
    match call.op:
        case Op.EQ:
            return left == right
        case Op.NE:
            return left != right
        case Op.LT:
            return left < right
        case Op.LE:
            return left <= right
        case Op.GT:
            return left > right
        case _:
            return left >= right


def extreme(op: Op, values: list[Value]) -> Value:
    return None if not values else (max if op is Op.GREATEST else min)(values, key=rank)


# --- numbers ---------------------------------------------------------------------------------------------------------


def within(value: int, type_: Type) -> Value:
    """The number if its type can hold it."""
    if type_.kind is Kind.DECIMAL:
        return value if abs(value) < 10**type_.precision else FAILED
    bits = {Kind.INTEGER: type_.bits, Kind.DATE: 32}.get(type_.kind, 64)
    return value if -(2 ** (bits - 1)) <= value < 2 ** (bits - 1) else FAILED


def half_away(value: Fraction) -> int:
    whole = math.floor(abs(value) + Fraction(1, 2))
    return whole if value >= 0 else -whole


def arithmetic(call: Call, values: list[Value]) -> Value:
    if call.type.kind is Kind.DOUBLE:
        return doubles(call.op, *values)
    if call.type.kind is Kind.DECIMAL:
        return decimals(call, *values)
    result = integers(call.op, *values)
    return FAILED if result is FAILED else within(result, call.type)


def integers(op: Op, a: int, b: int = 0) -> int | Outcome:
    if op is Op.NEG:
        return -a
    if op in (Op.DIV, Op.MOD) and b == 0:
        return FAILED
    match op:
        case Op.ADD:
            return a + b
        case Op.SUB:
            return a - b
        case Op.MUL:
            return a * b
        case Op.DIV:
            return math.trunc(Fraction(a, b))
        case _:
            return a - b * math.trunc(Fraction(a, b))


def doubles(op: Op, a: float, b: float = 0.0) -> Value:
    if op is Op.NEG:
        return -a
    if op in (Op.DIV, Op.MOD) and b == 0:
        return FAILED
    match op:
        case Op.ADD:
            result = a + b
        case Op.SUB:
            result = a - b
        case Op.MUL:
            result = a * b
        case Op.DIV:
            result = a / b
        case _:
            result = math.nan if math.isinf(a) else math.fmod(a, b)
    return FAILED if math.isinf(result) and math.isfinite(a) and math.isfinite(b) else result


def decimals(call: Call, a: int, b: int = 0) -> Value:
    left = Fraction(a, 10 ** call.args[0].type.scale)
    right = Fraction(b, 10 ** call.args[-1].type.scale)
    match call.op:
        case Op.NEG:
            result = -left
        case Op.ADD:
            result = left + right
        case Op.SUB:
            result = left - right
        case Op.MUL:
            result = left * right
        case Op.DIV:
            if right == 0:
                return FAILED
            result = left / right
        case _:
            if right == 0:
                return FAILED
            result = left - right * math.trunc(left / right)
    return within(half_away(result * 10**call.type.scale), call.type)


def absolute(call: Call, values: list[Value]) -> Value:
    return abs(values[0]) if call.type.kind is Kind.DOUBLE else within(abs(values[0]), call.type)


def square_root(call: Call, values: list[Value]) -> Value:
    return FAILED if values[0] < 0 else math.sqrt(values[0])


def whole(call: Call, values: list[Value]) -> Value:
    """FLOOR, CEIL."""
    toward = math.floor if call.op is Op.FLOOR else math.ceil
    value, source = values[0], call.args[0].type
    if source.kind is Kind.DOUBLE:
        if not math.isfinite(value):
            return value if call.type.kind is Kind.DOUBLE else FAILED
        return as_number(Fraction(toward(value)), call.type)
    return as_number(Fraction(toward(exact(value, source))), call.type)


def rounded(call: Call, values: list[Value]) -> Value:
    value, source = values[0], call.args[0].type
    digits = values[1] if len(values) == 2 else 0
    if source.kind is not Kind.DOUBLE:
        number = Fraction(half_away(exact(value, source) * Fraction(10) ** digits)) / Fraction(10) ** digits
        return as_number(number, call.type)
    result = round_double(value, digits)
    if call.type.kind is Kind.DOUBLE or result is FAILED:
        return result
    return as_number(Fraction(result), call.type) if math.isfinite(result) else FAILED


def round_double(value: float, digits: int) -> float | Outcome:
    """Multiplied in double arithmetic, rounded exactly, divided in double arithmetic."""
    if not math.isfinite(value) or digits > 308:
        return value
    if digits < -308:
        return value * 0.0
    power = 10.0 ** abs(digits)
    scaled = value * power if digits >= 0 else value / power
    if digits >= 0 and not abs(scaled) < 2.0**52:
        return value
    near = math.copysign(float(half_away(Fraction(scaled))), scaled)
    if digits >= 0:
        return near / power
    result = near * power
    return FAILED if math.isinf(result) else result


def exact(value: Value, type_: Type) -> Fraction:
    return Fraction(value, 10**type_.scale) if type_.kind is Kind.DECIMAL else Fraction(value)


def as_number(value: Fraction, type_: Type) -> Value:
    """A number that needs no more rounding."""
    if type_.kind is Kind.DOUBLE:
        return float(value)
    return within(int(value * 10**type_.scale) if type_.kind is Kind.DECIMAL else int(value), type_)


# --- strings ---------------------------------------------------------------------------------------------------------


def substring(call: Call, values: list[Value]) -> Value:
    text, start = values[0], values[1]
    if len(values) == 2:
        return text[max(start, 1) - 1 :]
    if values[2] < 0:
        return FAILED
    return "".join(c for position, c in enumerate(text, 1) if start <= position < start + values[2])


# --- time ------------------------------------------------------------------------------------------------------------

EPOCH = datetime.date(1970, 1, 1).toordinal()
ERA_DAYS, ERA_YEARS = 146_097, 400  # the calendar repeats


def calendar(days: int) -> tuple[int, int, int]:
    """(year, month, day), by the standard library in the years that it knows."""
    eras = days // ERA_DAYS
    date = datetime.date.fromordinal(days - eras * ERA_DAYS + EPOCH)
    return date.year + eras * ERA_YEARS, date.month, date.day


def day_number(year: int, month: int, day: int) -> int:
    eras = (year - 1) // ERA_YEARS
    return datetime.date(year - eras * ERA_YEARS, month, day).toordinal() - EPOCH + eras * ERA_DAYS


def date_field(call: Call, values: list[Value]) -> Value:
    days, seconds = values[0] // DAY, values[0] % DAY // 1_000_000
    place = [Op.YEAR, Op.MONTH, Op.DAY, Op.HOUR, Op.MINUTE, Op.SECOND].index(call.op)
    return within((*calendar(days), seconds // 3600, seconds // 60 % 60, seconds % 60)[place], call.type)


def date_trunc(call: Call, values: list[Value]) -> Value:
    unit, instant = values[0], values[1]
    days = instant // DAY
    year, month, _ = calendar(days)
    match unit:
        case "year":
            start = day_number(year, 1, 1) * DAY
        case "quarter":
            start = day_number(year, {1: 1, 2: 4, 3: 7, 4: 10}[(month + 2) // 3], 1) * DAY
        case "month":
            start = day_number(year, month, 1) * DAY
        case "week":
            start = (days - datetime.date.fromordinal(days % 7 + EPOCH).weekday()) * DAY
        case _:
            size = {"day": DAY, "hour": 3600 * 10**6, "minute": 60 * 10**6, "second": 10**6}
            start = instant - instant % {**size, "millisecond": 1000, "microsecond": 1}[unit]
    return within(start, call.type)


# --- casts -----------------------------------------------------------------------------------------------------------


def cast(call: Call, values: list[Value]) -> Value:
    value, source, target = values[0], call.args[0].type, call.type
    if source.kind is Kind.STRING and target.kind is not Kind.STRING:
        return read(value.strip(), target)
    if target.kind is Kind.STRING:
        return write(value, source)
    if source.kind is Kind.DATE and target.kind is Kind.TIMESTAMP:
        return within(value * DAY, target)
    if source.kind is Kind.TIMESTAMP and target.kind is Kind.DATE:
        return value // DAY
    if target.kind is Kind.BOOLEAN:
        return bool(value)
    if target.kind is Kind.DOUBLE:
        return float(value) / 10.0**source.scale if source.kind is Kind.DECIMAL else float(value)
    if target.kind is Kind.INTEGER:
        return within(math.trunc(exact(value, source)), target) if not is_infinite(value) else FAILED
    if target.kind is Kind.DECIMAL:
        if source.kind is Kind.DOUBLE:
            scaled = value * 10.0**target.scale
            return within(half_away(Fraction(scaled)), target) if math.isfinite(scaled) else FAILED
        return within(half_away(exact(value, source) * 10**target.scale), target)
    return value


def is_infinite(value: Value) -> bool:
    return isinstance(value, float) and not math.isfinite(value)


NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?", re.ASCII)


def read(text: str, target: Type) -> Value:
    if target.kind is Kind.BOOLEAN:
        return text.lower() == "true" if text.lower() in ("true", "false") else FAILED
    if target.kind is Kind.DATE:
        return read_date(text)
    if target.kind is Kind.TIMESTAMP:
        return read_timestamp(text)
    if target.kind is Kind.DOUBLE and re.fullmatch("nan|[+-]?infinity", text.lower()):
        return float(text)
    if not NUMBER.fullmatch(text) or (target.kind is Kind.INTEGER and not text.lstrip("+-").isdigit()):
        return FAILED
    if target.kind is Kind.DOUBLE:
        return FAILED if math.isinf(float(text)) else float(text)
    if target.kind is Kind.INTEGER:
        return within(int(text), target)
    return within(half_away(Fraction(text) * 10**target.scale), target)


def read_date(text: str) -> Value:
    if not re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text):
        return FAILED
    try:
        return datetime.date.fromisoformat(text).toordinal() - EPOCH
    except ValueError:
        return FAILED


def read_timestamp(text: str) -> Value:
    if len(text) == 10:
        day = read_date(text)
        return day if day is FAILED else day * DAY
    if not re.fullmatch(r".{10}[T ]..:..(:..(\.[0-9]{1,6})?)?(Z|[+-]..:..)?", text):
        return FAILED
    try:
        moment = datetime.datetime.fromisoformat(text)
    except ValueError:
        return FAILED
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=datetime.UTC)
    if abs(moment.utcoffset()) >= datetime.timedelta(hours=16):
        return FAILED
    try:
        moment.astimezone(datetime.UTC)
    except OverflowError:
        return FAILED
    return (moment - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)) // datetime.timedelta(microseconds=1)


def write(value: Value, source: Type) -> str:
    match source.kind:
        case Kind.BOOLEAN:
            return "true" if value else "false"
        case Kind.DOUBLE:
            if math.isnan(value):
                return "NaN"
            if math.isinf(value):
                return "Infinity" if value > 0 else "-Infinity"
            return "0.0" if value == 0 else repr(value)
        case Kind.DECIMAL if source.scale:
            sign, digits = "-" if value < 0 else "", f"{abs(value):0{source.scale + 1}d}"
            return f"{sign}{digits[: -source.scale]}.{digits[-source.scale :]}"
        case Kind.DATE:
            return write_date(value)
        case Kind.TIMESTAMP:
            seconds, micros = divmod(value % DAY, 1_000_000)
            clock = datetime.timedelta(seconds=seconds)
            return f"{write_date(value // DAY)} {str(clock).rjust(8, '0')}" + (f".{micros:06d}" if micros else "")
        case _:
            return str(value)


def write_date(days: int) -> str:
    year, month, day = calendar(days)
    return f"{year:04d}-{month:02d}-{day:02d}" if 0 <= year <= 9999 else f"{year:+05d}-{month:02d}-{day:02d}"


STRICT: dict[Op, Callable[[Call, list[Value]], Value]] = {
    **dict.fromkeys((Op.EQ, Op.NE, Op.LT, Op.LE, Op.GT, Op.GE), comparison),
    **dict.fromkeys((Op.ADD, Op.SUB, Op.MUL, Op.DIV, Op.MOD, Op.NEG), arithmetic),
    **dict.fromkeys((Op.FLOOR, Op.CEIL), whole),
    **dict.fromkeys((Op.YEAR, Op.MONTH, Op.DAY, Op.HOUR, Op.MINUTE, Op.SECOND), date_field),
    Op.NOT: lambda call, values: not values[0],
    Op.CAST: cast,
    Op.ABS: absolute,
    Op.ROUND: rounded,
    Op.SQRT: square_root,
    Op.UPPER: lambda call, values: "".join(c.upper() if len(c.upper()) == 1 else c for c in values[0]),
    Op.LOWER: lambda call, values: "".join(c.lower() if len(c.lower()) == 1 else c for c in values[0]),
    Op.LENGTH: lambda call, values: within(len(values[0]), call.type),
    Op.SUBSTRING: substring,
    Op.TRIM: lambda call, values: values[0].strip(" "),
    Op.CONCAT: lambda call, values: "".join(values),
    Op.DATE_TRUNC: date_trunc,
}
