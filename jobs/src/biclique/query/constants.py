"""Arithmetic on literals, done once: `INTERVAL 1 MINUTE + INTERVAL 30 SECOND` reaches the planner as one number.

Only where the result is exactly what evaluation would give, and none where evaluation would fail: a division or an
overflow stays in the tree, so that it fails and is counted where it stands.
"""

from __future__ import annotations

import math

from biclique.query.expression import Call, Expression, Literal, Op
from biclique.query.types import Kind

_INT64 = range(-(1 << 63), 1 << 63)
_FOLDED = {Op.ADD, Op.SUB, Op.MUL, Op.NEG}
_COUNTED = {Kind.INTEGER, Kind.INTERVAL, Kind.TIMESTAMP}


def folded(call: Call) -> Expression:
    if call.op not in _FOLDED:
        return call
    values: list[int | float] = []
    for argument in call.args:
        if not isinstance(argument, Literal) or not isinstance(argument.value, int | float):
            return call
        values.append(argument.value)
    if call.type.kind is Kind.DECIMAL or call.type.kind is Kind.BOOLEAN:
        return call
    result = _compute(call.op, values)
    if call.type.kind in _COUNTED:
        return Literal(result, call.type) if isinstance(result, int) and result in _INT64 else call
    return Literal(result, call.type) if math.isfinite(result) else call


def _compute(op: Op, values: list[int | float]) -> int | float:
    if op is Op.NEG:
        return -values[0]
    left, right = values
    return left + right if op is Op.ADD else left - right if op is Op.SUB else left * right
