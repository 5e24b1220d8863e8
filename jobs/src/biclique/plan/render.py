"""Expressions and key ranges as SQL text, for people. What the checker or the planner put in to widen integers is left
out; nothing else is simplified, so that two different expressions never look the same.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

from biclique.plan.model import KeyRange
from biclique.plan.shift import peeled, unwidened, widens
from biclique.query.expression import Call, Column, Expression, Literal, Op
from biclique.query.model import Query
from biclique.query.types import INTERVAL, Kind, Type

BINDING = {Op.OR: 1, Op.AND: 2, Op.NOT: 3, Op.IS_NULL: 4, Op.ADD: 5, Op.SUB: 5, Op.MUL: 6, Op.DIV: 6, Op.MOD: 6}
COMPARISON, ATOM = 4, 9
INFIX = {Op.AND, Op.OR, Op.ADD, Op.SUB, Op.MUL, Op.DIV, Op.MOD, Op.EQ, Op.NE, Op.LT, Op.LE, Op.GT, Op.GE}
EPOCH = date(1970, 1, 1)
UNITS = (("DAY", 86_400_000_000), ("HOUR", 3_600_000_000), ("MINUTE", 60_000_000), ("SECOND", 1_000_000))
DIGITS = 9  # of a double: enough to tell a widened literal from its neighbours, few enough to look like itself


def text(expression: Expression, query: Query) -> str:
    match expression:
        case Column():
            relation = query.relations[expression.relation]
            return f"{relation.name}.{query.sources[relation.source].fields[expression.field].name}"
        case Literal():
            return "NULL" if expression.value is None else literal(expression.value, expression.type)
        case Call():
            return _call(expression, query)


def _call(call: Call, query: Query) -> str:
    if widens(call):
        return text(call.args[0], query)
    args = [text(arg, query) for arg in call.args]
    if call.op in INFIX:
        own = BINDING.get(call.op, COMPARISON)
        # The right operand of `-` must bind more tightly; a comparison never stands bare inside another.
        left = _within(call.args[0], args[0], own if own != COMPARISON else own + 1)
        right = _within(call.args[1], args[1], own if call.op in (Op.AND, Op.OR) else own + 1)
        sign = call.op.value.upper() if call.op in (Op.AND, Op.OR) else call.op.value
        return f"{left} {sign} {right}"
    match call.op:
        case Op.NOT:
            return f"NOT {_within(call.args[0], args[0], BINDING[Op.NOT] + 1)}"
        case Op.IS_NULL:
            return f"{_within(call.args[0], args[0], COMPARISON + 1)} IS NULL"
        case Op.NEG:
            return f"-{_within(call.args[0], args[0], ATOM)}"
        case Op.CAST:
            return f"CAST({args[0]} AS {call.type})"
        case Op.CASE:
            cases = "".join(f" WHEN {c} THEN {v}" for c, v in zip(args[:-1:2], args[1::2], strict=False))
            return f"CASE{cases} ELSE {args[-1]} END"
        case _:
            return f"{call.op.value.upper()}({', '.join(args)})"


def _within(expression: Expression, written: str, binding: int) -> str:
    expression = unwidened(expression)
    if isinstance(expression, Call):
        own = BINDING.get(expression.op, COMPARISON if expression.op in INFIX else ATOM)
        if own < binding:
            return f"({written})"
    return written


def literal(value: int | float | bool | str, type_: Type) -> str:
    match type_.kind:
        case Kind.BOOLEAN:
            return "TRUE" if value else "FALSE"
        case Kind.STRING:
            return "'" + str(value).replace("'", "''") + "'"
        case Kind.DECIMAL if type_.scale:
            digits = str(abs(int(value))).rjust(type_.scale + 1, "0")
            return f"{'-' if value < 0 else ''}{digits[: -type_.scale]}.{digits[-type_.scale :]}"  # type: ignore[operator]
        case Kind.DOUBLE:
            return f"{float(value):.{DIGITS}g}"
        case Kind.DATE:
            return f"DATE '{_day(int(value))}'"
        case Kind.TIMESTAMP:
            return f"TIMESTAMP '{_moment(int(value))}'"
        case Kind.INTERVAL:
            return interval(int(value))
        case _:
            return str(value)


def interval(microseconds: int) -> str:
    for unit, size in UNITS:
        if microseconds % size == 0 and microseconds:
            return f"INTERVAL {microseconds // size} {unit}"
    return f"INTERVAL {microseconds} MICROSECOND" if microseconds else "INTERVAL 0 SECOND"


def _day(days: int) -> str:
    try:
        return (EPOCH + timedelta(days=days)).isoformat()
    except OverflowError:
        return f"day {days}"


def _moment(microseconds: int) -> str:
    try:
        return (
            (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=microseconds))
            .replace(tzinfo=None)
            .isoformat(" ")
        )
    except OverflowError:
        return f"microsecond {microseconds}"


def range_text(key: KeyRange, query: Query) -> str:
    """`b.x - 5 <= a.x <= b.x + 5`: the stored expression between its ends."""
    stored = peeled(key.stored)
    # A round trip is the value that it comes back to; why it is taken is said in plan/shift.py.
    middle = text(stored.base if stored.steps and stored.total == 0 else key.stored, query)
    low = high = ""
    if key.low is not None:
        low = f"{_shifted(key.low, key.low_shift, query)} {'<' if key.low_strict else '<='} "
    if key.high is not None:
        high = f" {'<' if key.high_strict else '<='} {_shifted(key.high, key.high_shift, query)}"
    return f"{low}{middle}{high}"


def _shifted(bound: Expression, shift: int | float, query: Query) -> str:
    written = _within(bound, text(bound, query), BINDING[Op.ADD])
    if not shift:
        return written
    type_ = INTERVAL if bound.type.kind is Kind.TIMESTAMP else bound.type
    return f"{written} {'+' if shift > 0 else '-'} {literal(abs(shift), type_)}"
