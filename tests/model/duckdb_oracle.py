"""The same answer from an engine that others wrote: the checked tree as DuckDB's SQL, for what both define alike.

Differences, and how they are mapped:
* failed: DuckDB gives null, infinity or an error. Each tree becomes two expressions, its value and whether it failed,
  so that IS NULL, CASE and COALESCE see the failure as ours do; what fails is a zero divisor and a root of a negative
  number;
* integer overflow stops DuckDB: give it small numbers;
* INTERVAL: a BIGINT of microseconds, which is what it is with us;
* -0.0: `x + 0.0` wherever values are grouped, counted as distinct or put out; NaN and the order of strings need
  nothing;
* the windowed DISTINCT and the types and operators that `Trees(exotic=True)` adds: not asked of it.

No text of a user reaches it: names are numbers, and strings come from the generator.
"""

from __future__ import annotations

import datetime
import decimal
import math
from collections import Counter
from collections.abc import Sequence

import duckdb
import pyarrow as pa

from biclique.query.expression import Call, Column, Expression, Literal, Op, Scalar
from biclique.query.model import Aggregate, AggregateFunction, GroupKey, Item, Query
from biclique.query.types import Kind, Type
from tests.model.oracle import Row, Tuple, normal

EPOCH = datetime.datetime.combine(datetime.date(1970, 1, 1), datetime.time())
INFIX = {
    Op.EQ: "=",
    Op.NE: "<>",
    Op.LT: "<",
    Op.LE: "<=",
    Op.GT: ">",
    Op.GE: ">=",
    Op.AND: "AND",
    Op.OR: "OR",
    Op.ADD: "+",
    Op.SUB: "-",
    Op.MUL: "*",
    Op.CONCAT: "||",
}
NAMED = (Op.ABS, Op.SQRT, Op.UPPER, Op.LOWER, Op.LENGTH, Op.COALESCE, Op.NULLIF, Op.GREATEST, Op.LEAST)
FIELDS = (Op.YEAR, Op.MONTH, Op.DAY, Op.HOUR, Op.MINUTE, Op.SECOND)


def expected(query: Query, relations: Sequence[Sequence[Tuple]]) -> Counter[Row]:
    with duckdb.connect() as connection:
        for n, tuples in enumerate(relations):
            connection.register(f"given{n}", table(query, n, tuples))
        rows = connection.execute(statement(query)).fetchall()
    if query.aggregating or query.distinct:
        made = [((), read(query.items, row)) for row in rows]
    else:
        count = len(query.relations)
        made = [(row[:count], read(query.items, row[count:])) for row in rows]
    return Counter(normal(query, row) for row in made)


# --- data ------------------------------------------------------------------------------------------------------------


def sql_type(type_: Type) -> str:
    return {Kind.STRING: "VARCHAR", Kind.INTERVAL: "BIGINT"}.get(type_.kind, str(type_))


def arrow_type(type_: Type) -> pa.DataType:
    match type_.kind:
        case Kind.INTEGER:
            return {8: pa.int8(), 16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[type_.bits]
        case Kind.DECIMAL:
            return pa.decimal128(type_.precision, type_.scale)
        case Kind.TIMESTAMP:
            return pa.timestamp("us")
        case kind:
            simple = {Kind.DOUBLE: pa.float64(), Kind.BOOLEAN: pa.bool_(), Kind.STRING: pa.string()}
            return simple[kind] if kind in simple else pa.date32()


def table(query: Query, relation: int, tuples: Sequence[Tuple]) -> pa.Table:
    fields = query.sources[query.relations[relation].source].fields
    columns = {"id": pa.array([t.id for t in tuples], pa.int64()), "at": pa.array([t.time for t in tuples], pa.int64())}
    for n, field in enumerate(fields):
        values = [to_arrow(t.values[n], field.type) for t in tuples]
        columns[f"c{n}"] = pa.array(values, arrow_type(field.type))
    return pa.table(columns)


def to_arrow(value: Scalar, type_: Type) -> object:
    if type_.kind is Kind.DECIMAL and value is not None:
        return decimal.Decimal(value).scaleb(-type_.scale)
    return value


def read(items: Sequence[Item], row: Sequence[object]) -> tuple[Scalar, ...]:
    return tuple(from_duckdb(value, item.type) for item, value in zip(items, row, strict=True))


def from_duckdb(value: object, type_: Type) -> Scalar:
    match value:
        case datetime.datetime():
            return (value - EPOCH) // datetime.timedelta(microseconds=1)
        case datetime.date():
            return (value - EPOCH.date()).days
        case decimal.Decimal():
            return int(value.scaleb(type_.scale))
        case _:
            return value


# --- the statement ---------------------------------------------------------------------------------------------------


def statement(query: Query) -> str:
    count = len(query.relations)
    conditions = [value(c) for conjuncts in (*query.filters, query.predicates) for c in conjuncts]
    times = [f"r{n}.at" for n in range(count)]
    newest, oldest = f"greatest({', '.join(times)})", f"least({', '.join(times)})"
    windows = [relation.window.time_us for relation in query.relations]
    if None not in windows:
        fitting = [f"({t} = {oldest} AND {newest} - {oldest} <= {w})" for t, w in zip(times, windows, strict=True)]
        conditions.append(f"({' OR '.join(fitting)})")
    source = f"FROM {', '.join(f'given{n} r{n}' for n in range(count))} WHERE {' AND '.join(conditions) or 'true'}"
    if query.aggregating:
        keys = [grouped(key) for key in query.group_by]
        groups = [*keys, *([] if query.tumble_us is None else [f"floor({newest} / {query.tumble_us})"])]
        starts = [] if query.tumble_us is None else [f"make_timestamp({groups[-1]}::BIGINT * {query.tumble_us})"]
        items = [aggregate(item, [*keys, *starts]) for item in query.items]
        tail = f"GROUP BY {', '.join(groups)}" if groups else "HAVING count(*) > 0"
        return f"SELECT {', '.join(items)} {source} {tail}"
    items = [grouped(item.value) for item in query.items]
    if query.distinct:
        return f"SELECT DISTINCT {', '.join(items)} {source}"
    ids = [f"r{n}.id" for n in range(count)]
    return f"SELECT {', '.join([*ids, *items])} {source}"


def grouped(expression: Expression) -> str:
    text = value(expression)
    return f"({text} + 0.0::DOUBLE)" if expression.type.kind is Kind.DOUBLE else text


def aggregate(item: Item, keys: Sequence[str]) -> str:
    of = item.value
    if isinstance(of, GroupKey):
        return keys[of.position]
    assert isinstance(of, Aggregate)
    if of.argument is None:
        return "count(*)"
    argument = grouped(of.argument)
    if of.function is AggregateFunction.COUNT_DISTINCT:
        return f"count(DISTINCT {argument})"
    if of.function is AggregateFunction.AVG:
        argument = f"CAST({argument} AS DOUBLE)"
    text = f"{of.function.value}({argument})"
    return f"CAST({text} AS {sql_type(item.type)})" if of.function is AggregateFunction.SUM else text


# --- the tree --------------------------------------------------------------------------------------------------------


def value(expression: Expression) -> str:
    """Null where the expression fails; typed as the tree says."""
    if isinstance(expression, Column):
        return f"r{expression.relation}.c{expression.field}"
    if isinstance(expression, Literal):
        return literal(expression)
    bad = failed(expression)
    text = f"CAST({plain(expression)} AS {sql_type(expression.type)})"
    return text if bad == "false" else f"CASE WHEN {bad} THEN NULL ELSE {text} END"


def plain(call: Call) -> str:
    args = [value(arg) for arg in call.args]
    match call.op:
        case Op.SUB | Op.ADD if call.args[0].type.kind is Kind.TIMESTAMP:
            micros = [
                f"epoch_us({a})" if n.type.kind is Kind.TIMESTAMP else a for a, n in zip(args, call.args, strict=True)
            ]
            text = f"({micros[0]} {INFIX[call.op]} {micros[1]})"
            return f"make_timestamp({text})" if call.type.kind is Kind.TIMESTAMP else text
        case op if op in INFIX:
            return f"({f' {INFIX[op]} '.join(args)})"
        case op if op in NAMED:
            return f"{op.value}({', '.join(args)})"
        case op if op in FIELDS:
            return f"{op.value}({args[0]})"
        case Op.DIV if call.type.kind is Kind.INTEGER:
            return f"({args[0]} // NULLIF({args[1]}, 0))"
        case Op.DIV:
            return f"({args[0]} / NULLIF({args[1]}, 0))"
        case Op.MOD:
            return f"({args[0]} % NULLIF({args[1]}, 0))"
        case Op.NOT:
            return f"(NOT {args[0]})"
        case Op.NEG:
            return f"(-{args[0]})"
        case Op.IS_NULL:
            return f"({args[0]} IS NULL)"
        case Op.CASE:
            branches = [f"WHEN {c} THEN {v}" for c, v in zip(args[:-1:2], args[1:-1:2], strict=True)]
            return f"CASE {' '.join(branches)} ELSE {args[-1]} END"
        case Op.TRIM:
            return f"trim({args[0]}, ' ')"
        case Op.DATE_TRUNC:
            return f"date_trunc({args[0]}, {args[1]})"
        case Op.CAST:
            return args[0]
        case _:
            raise AssertionError(call.op)


def failed(expression: Expression) -> str:
    """A condition, never null: whether the expression fails."""
    if not isinstance(expression, Call):
        return "false"
    args = expression.args
    match expression.op:
        case Op.AND | Op.OR:
            decides = "false" if expression.op is Op.AND else "true"
            undecided = [f"{value(arg)} IS DISTINCT FROM {decides}" for arg in args]
            return _all([_any([failed(arg) for arg in args]), *undecided])
        case Op.CASE:
            bad = failed(args[-1])
            for condition, branch in zip(args[-3::-2], args[-2::-2], strict=True):
                parts = failed(condition), failed(branch), bad
                if set(parts) != {"false"}:
                    bad = f"CASE WHEN {parts[0]} THEN true WHEN {value(condition)} THEN {parts[1]} ELSE {parts[2]} END"
            return bad
        case Op.COALESCE:
            bad = "false"
            for arg in reversed(args):
                bad = _any([failed(arg), _all([f"{value(arg)} IS NULL", bad])])
            return bad
    bad = _any([failed(arg) for arg in args])
    nothing = f"({' OR '.join(f'{value(arg)} IS NULL' for arg in args)})"
    match expression.op:
        case Op.DIV | Op.MOD:
            own = f"(NOT {nothing} AND {value(args[1])} = 0)"
        case Op.SQRT:
            own = f"(NOT {nothing} AND {value(args[0])} < 0)"
        case _:
            return bad
    return _any([bad, own])


def _any(conditions: Sequence[str]) -> str:
    some = [c for c in conditions if c != "false"]
    return f"({' OR '.join(some)})" if some else "false"


def _all(conditions: Sequence[str]) -> str:
    return "false" if "false" in conditions else f"({' AND '.join(conditions)})"


def literal(node: Literal) -> str:
    text = sql_type(node.type)
    match node.value, node.type.kind:
        case None, _:
            return f"CAST(NULL AS {text})"
        case str(), _:
            return "'" + node.value.replace("'", "''") + "'"
        case float(), _:
            return f"CAST('{'nan' if math.isnan(node.value) else repr(node.value)}' AS DOUBLE)"
        case _, Kind.DECIMAL:
            return f"CAST('{decimal.Decimal(node.value).scaleb(-node.type.scale):f}' AS {text})"
        case _, Kind.TIMESTAMP:
            return f"make_timestamp({node.value})"
        case _, Kind.DATE:
            return f"(DATE '1970-01-01' + {node.value})"
        case _:
            return f"CAST({str(node.value).lower()} AS {text})"
