"""Does a checked tree keep what query/expression.py promises? Written from the promises, not from the checker.

Used by the SQL fuzz and the golden tests: a tree that a kernel could misread is found here, with the wrong node.
"""

from __future__ import annotations

import math

from biclique.query.expression import Call, Column, Expression, Literal, Op, relations_of, walk
from biclique.query.model import Aggregate, AggregateFunction, GroupKey
from biclique.query.sql import Checked
from biclique.query.types import BIGINT, BOOLEAN, DOUBLE, INTERVAL, STRING, TIMESTAMP, Kind, Type

DEPTH_MAX = 64
NODES_MAX = 500
FieldTypes = tuple[tuple[Type, ...], ...]  # of each relation

COMPARISONS = {Op.EQ, Op.NE, Op.LT, Op.LE, Op.GT, Op.GE}
ARITHMETIC = {Op.ADD, Op.SUB, Op.MUL, Op.DIV, Op.MOD}
NUMBERS = {Kind.INTEGER, Kind.DECIMAL, Kind.DOUBLE}
UNITS = {"millisecond", "second", "minute", "hour", "day", "week", "month", "quarter", "year"}
TEXT_FUNCTIONS = {
    Op.UPPER: ((STRING,), STRING),
    Op.LOWER: ((STRING,), STRING),
    Op.TRIM: ((STRING,), STRING),
    Op.LENGTH: ((STRING,), BIGINT),
}
TIME_FIELDS = {Op.YEAR, Op.MONTH, Op.DAY, Op.HOUR, Op.MINUTE, Op.SECOND}


def check_query(checked: Checked, fields: FieldTypes) -> None:
    """`fields`: the types of each relation's columns, in FROM order."""
    assert 2 <= len(checked.relations) <= 5
    assert len(checked.filters) == len(checked.relations)
    for relation, conjuncts in enumerate(checked.filters):
        for conjunct in conjuncts:
            check_conjunct(conjunct, fields)
            assert relations_of(conjunct) == {relation}, conjunct
    for conjunct in checked.predicates:
        check_conjunct(conjunct, fields)
        assert len(relations_of(conjunct)) != 1, conjunct
    for key in checked.group_by:
        check_tree(key, fields)
        assert key.type != INTERVAL
    assert len(set(checked.group_by)) == len(checked.group_by)
    names = [item.name.casefold() for item in checked.items]
    assert names and len(set(names)) == len(names) and "_result_id" not in names
    for item in checked.items:
        check_item(item.value, checked, fields)
        assert item.type == item.value.type and item.type != INTERVAL
    assert checked.aggregating == any(isinstance(item.value, Aggregate) for item in checked.items)
    assert not (checked.distinct and checked.aggregating)
    if not checked.aggregating:
        assert not checked.group_by and checked.tumble_us is None
    assert checked.within_us is None or checked.within_us >= 0
    assert checked.tumble_us is None or checked.tumble_us > 0


def check_item(value: Expression | Aggregate | GroupKey, checked: Checked, fields: FieldTypes) -> None:
    if isinstance(value, GroupKey):
        types = [key.type for key in checked.group_by] + [TIMESTAMP] * (checked.tumble_us is not None)
        assert checked.aggregating and types[value.position] == value.type
    elif isinstance(value, Aggregate):
        check_aggregate(value, fields)
    else:
        assert not checked.aggregating
        check_tree(value, fields)


def check_aggregate(value: Aggregate, fields: FieldTypes) -> None:
    if value.argument is None:
        assert value.function is AggregateFunction.COUNT and value.type == BIGINT
        return
    check_tree(value.argument, fields)
    argument = value.argument.type
    match value.function:
        case AggregateFunction.COUNT | AggregateFunction.COUNT_DISTINCT:
            assert value.type == BIGINT
        case AggregateFunction.MIN | AggregateFunction.MAX:
            assert value.type == argument and argument.kind is not Kind.BOOLEAN
        case AggregateFunction.AVG:
            assert value.type == DOUBLE and argument.kind in NUMBERS
        case AggregateFunction.SUM:
            assert argument.kind is value.type.kind and argument.kind in NUMBERS
            assert (argument.scale, argument.bits) == (value.type.scale, value.type.bits)
            assert argument.kind is not Kind.DECIMAL or value.type.precision == 18


def check_conjunct(conjunct: Expression, fields: FieldTypes) -> None:
    assert conjunct.type == BOOLEAN, conjunct
    assert not (isinstance(conjunct, Call) and conjunct.op is Op.AND), "a conjunct is no AND"
    check_tree(conjunct, fields)


def check_tree(root: Expression, fields: FieldTypes) -> None:
    assert sum(1 for _ in walk(root)) <= NODES_MAX
    assert depth(root) <= DEPTH_MAX
    for node in walk(root):
        check_type(node.type)
        if isinstance(node, Column):
            assert fields[node.relation][node.field] == node.type, node
        elif isinstance(node, Literal):
            check_literal(node)
        else:
            assert isinstance(node, Call) and isinstance(node.op, Op), node
            check_call(node)


def depth(root: Expression) -> int:
    return 1 + max(map(depth, root.args), default=0) if isinstance(root, Call) else 1


def check_type(type_: Type) -> None:
    if type_.kind is Kind.INTEGER:
        assert type_.bits in {8, 16, 32, 64}, type_
    if type_.kind is Kind.DECIMAL:
        assert 1 <= type_.precision <= 18 and 0 <= type_.scale <= type_.precision, type_
    else:
        assert (type_.precision, type_.scale) == (0, 0)


def check_literal(node: Literal) -> None:
    value, kind = node.value, node.type.kind
    if value is None:
        return
    if kind is Kind.BOOLEAN:
        assert isinstance(value, bool), node
    elif kind is Kind.STRING:
        assert isinstance(value, str), node
        value.encode("utf-8")
    elif kind is Kind.DOUBLE:
        assert isinstance(value, float) and math.isfinite(value), node
    else:
        assert isinstance(value, int) and not isinstance(value, bool), node
        bits = node.type.bits if kind is Kind.INTEGER else 32 if kind is Kind.DATE else 64
        assert -(1 << (bits - 1)) <= value < 1 << (bits - 1), node
        assert kind is not Kind.DECIMAL or abs(value) < 10**node.type.precision, node


def check_call(node: Call) -> None:
    types = tuple(argument.type for argument in node.args)
    op = node.op
    if op in COMPARISONS:
        assert len(types) == 2 and types[0] == types[1] and node.type == BOOLEAN, node
        assert op in {Op.EQ, Op.NE} or types[0].kind is not Kind.BOOLEAN, node
    elif op in {Op.AND, Op.OR}:
        assert types == (BOOLEAN, BOOLEAN) and node.type == BOOLEAN, node
    elif op is Op.NOT:
        assert types == (BOOLEAN,) and node.type == BOOLEAN, node
    elif op is Op.IS_NULL:
        assert len(types) == 1 and node.type == BOOLEAN, node
    elif op in ARITHMETIC:
        check_arithmetic(node, types)
    elif op in {Op.NEG, Op.ABS}:
        assert types == (node.type,), node
        assert node.type.kind in {Kind.DECIMAL, Kind.DOUBLE, Kind.INTERVAL} or node.type == BIGINT, node
    elif op is Op.CASE:
        assert len(types) >= 3 and len(types) % 2 == 1, node
        assert all(type_ == BOOLEAN for type_ in types[:-1:2]), node
        assert all(type_ == node.type for type_ in (*types[1::2], types[-1])), node
    elif op is Op.CAST:
        assert len(types) == 1 and types[0] != node.type and castable(types[0].kind, node.type.kind), node
    elif op in {Op.COALESCE, Op.NULLIF, Op.GREATEST, Op.LEAST}:
        assert len(types) >= 2 and set(types) == {node.type}, node
        assert op is not Op.NULLIF or len(types) == 2, node
        assert op not in {Op.GREATEST, Op.LEAST} or node.type != BOOLEAN, node
    else:
        check_function(node, types)


def check_arithmetic(node: Call, types: tuple[Type, ...]) -> None:
    assert len(types) == 2, node
    op, result = node.op, node.type
    if INTERVAL in types or TIMESTAMP in types:
        allowed = {
            (Op.SUB, TIMESTAMP, TIMESTAMP): INTERVAL,
            (Op.SUB, TIMESTAMP, INTERVAL): TIMESTAMP,
            (Op.ADD, TIMESTAMP, INTERVAL): TIMESTAMP,
            (Op.SUB, INTERVAL, INTERVAL): INTERVAL,
            (Op.ADD, INTERVAL, INTERVAL): INTERVAL,
        }
        assert allowed.get((op, *types)) == result, node
    elif op is Op.DIV or result == DOUBLE:
        assert types == (DOUBLE, DOUBLE) and result == DOUBLE, node
    elif result.kind is Kind.INTEGER:
        assert types == (BIGINT, BIGINT) and result == BIGINT, node
    else:
        assert all(type_.kind is Kind.DECIMAL for type_ in (*types, result)), node
        if op is Op.MUL:
            assert result.scale == types[0].scale + types[1].scale, node
        else:
            assert types[0].scale == types[1].scale == result.scale, node


def castable(source: Kind, target: Kind) -> bool:
    if Kind.INTERVAL in {source, target}:
        return False
    pair = {source, target}
    return (
        source is target
        or Kind.STRING in pair
        or pair <= NUMBERS
        or pair == {Kind.INTEGER, Kind.BOOLEAN}
        or pair == {Kind.DATE, Kind.TIMESTAMP}
    )


def check_function(node: Call, types: tuple[Type, ...]) -> None:
    op, result = node.op, node.type
    if op in TEXT_FUNCTIONS:
        assert (types, result) == TEXT_FUNCTIONS[op], node
    elif op is Op.CONCAT:
        assert len(types) >= 2 and set(types) == {STRING} and result == STRING, node
    elif op is Op.SUBSTRING:
        assert types in {(STRING, BIGINT), (STRING, BIGINT, BIGINT)} and result == STRING, node
    elif op is Op.SQRT:
        assert types == (DOUBLE,) and result == DOUBLE, node
    elif op in {Op.FLOOR, Op.CEIL, Op.ROUND}:
        check_rounding(node, types)
    elif op in TIME_FIELDS:
        assert types == (TIMESTAMP,) and result == BIGINT, node
    else:
        assert op is Op.DATE_TRUNC and types == (STRING, TIMESTAMP) and result == TIMESTAMP, node
        unit = node.args[0]
        assert isinstance(unit, Literal) and unit.value in UNITS, node


def check_rounding(node: Call, types: tuple[Type, ...]) -> None:
    assert len(types) == 1 or (node.op is Op.ROUND and types[1:] == (BIGINT,)), node
    digits = 0
    if len(types) == 2:
        literal = node.args[1]
        assert isinstance(literal, Literal) and isinstance(literal.value, int) and abs(literal.value) <= 18, node
        digits = literal.value
    assert types[0].kind is node.type.kind, node
    if node.type.kind is Kind.DECIMAL:
        assert node.type.scale == min(max(digits, 0), types[0].scale), node
    else:
        assert node.type == types[0] and node.type in {DOUBLE, BIGINT}, node
        assert node.type == DOUBLE or digits < 0, node
