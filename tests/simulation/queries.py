"""Random checked queries over a small schema: every index kind, filters, self-joins, windows, strategies, aggregates.

They are made as the checker would make them; what SQL can say beyond is the checker's and the evaluator's own tests.
"""

from __future__ import annotations

import math
import random
from dataclasses import replace
from typing import Any

from biclique.query.expression import Call, Column, Expression, Literal, Op, Scalar
from biclique.query.model import (
    Aggregate,
    AggregateFunction,
    Delivery,
    EventTime,
    Field,
    Files,
    Format,
    GroupKey,
    Item,
    Kafka,
    OnBadRecord,
    PlanHints,
    Query,
    Relation,
    Source,
    Window,
)
from biclique.query.types import BIGINT, BOOLEAN, DOUBLE, INT, STRING, TIMESTAMP, Kind, Type
from tests.model import generate
from tests.model.domains import value

FIELDS = (Field("k", INT), Field("x", DOUBLE), Field("y", DOUBLE), Field("t", STRING), Field("at", TIMESTAMP))
K, X, Y, T, AT = range(len(FIELDS))
TICK_US, LATENESS_TICKS, IDLE_AFTER_MS = 1_000_000, 4, 150


def random_value(rng: random.Random, type_: Type) -> Scalar:
    """Ties, duplicates, nulls and NaN are the ordinary case."""
    if rng.random() < 0.08:
        return None
    match type_.kind:
        case Kind.INTEGER:
            return rng.randrange(3)
        case Kind.DOUBLE:
            return rng.choice((-1.0, -0.0, 0.0, 0.5, 1.0, 2.0, 3.0, math.nan))
        case Kind.STRING:
            return rng.choice(("", "a", "b", "é"))
        case _:
            return value(rng, type_)


def random_query(rng: random.Random) -> Query:
    return wide_query(rng) if rng.random() < 0.12 else narrow_query(rng)


def wide_query(rng: random.Random) -> Query:
    """Any types, any expressions: what the oracles' own generator makes, with sources that arrive as ours do."""
    strategy = rng.choice((None, "biclique", "random", "matrix"))
    hints = PlanHints(strategy, units=rng.choice((1, 2)), transport="tuples", partitions=2)
    query = generate.random_query(rng, generate.Shape(relations=(2, 3), event_time_column=True), hints)
    return replace(query, sources=tuple(_arriving(rng, source) for source in query.sources))


def _arriving(rng: random.Random, source: Source) -> Source:
    return replace(_source(rng, source.name), fields=source.fields, event_time=_event_time(source.event_time.column))


def _event_time(column: int | None) -> EventTime:
    return EventTime(column, LATENESS_TICKS * TICK_US, idle_after_us=IDLE_AFTER_MS * 1000)


def narrow_query(rng: random.Random) -> Query:
    """One small schema, where most pairs come near to matching."""
    count = rng.choice((2, 2, 2, 2, 2, 2, 3, 3, 4))
    names = "abcd"[:count]
    of_source = list(range(count))
    if rng.random() < 0.15:
        of_source[1] = 0  # a self-join
    used = sorted(set(of_source))
    ticks = rng.choice((3, 6, 9, 12, 30, 80, None))
    windows = [None if ticks is None else ticks * TICK_US] * count
    if count == 2 and ticks is not None and rng.random() < 0.5:
        windows[1] = rng.choice((2, 4, 6)) * TICK_US
    sources = tuple(_source(rng, f"s{n}") for n in used)
    relations = tuple(Relation(name, used.index(of_source[n]), Window(windows[n])) for n, name in enumerate(names))
    filters = tuple(_filters(rng, n) for n in range(count))
    predicates = tuple(p for n in range(1, count) for p in _predicates(rng, rng.randrange(n), n))
    equi = any(isinstance(p, Call) and p.op is Op.EQ for p in predicates)
    strategies = ["biclique", "biclique", "random", "matrix", None, *(["hash", "hash"] if equi else [])]
    strategy = rng.choice(strategies)
    subgroups = (
        ()
        if strategy in ("random", "matrix")
        else tuple((name, rng.choice((1, 2))) for name in names if rng.random() < 0.7)
    )
    hints = PlanHints(
        strategy, subgroups, units=rng.choice((1, 2, 2)), transport="tuples", partitions=rng.choice((2, 2, 3))
    )
    return Query(
        name="simulated",
        sources=sources,
        relations=relations,
        filters=filters,
        predicates=predicates,
        **_selection(rng, count),
        delivery=Delivery.EXACTLY_ONCE,
        output=Files("out", Format.JSON),
        hints=hints,
    )


def _source(rng: random.Random, name: str) -> Source:
    on_bad = rng.choice((OnBadRecord.DEAD_LETTER, OnBadRecord.DEAD_LETTER, OnBadRecord.DROP))
    return Source(name, FIELDS, _event_time(AT), Kafka("", name, Format.JSON), on_bad)


def column(relation: int, field: int) -> Column:
    return Column(relation, field, FIELDS[field].type)


def call(op: Op, *args: Expression) -> Call:
    return Call(op, args, BOOLEAN)


def _plus(expression: Expression, number: float) -> Call:
    return Call(Op.ADD, (expression, Literal(number, DOUBLE)), DOUBLE)


def _filters(rng: random.Random, relation: int) -> tuple[Expression, ...]:
    if rng.random() < 0.7:
        return ()
    zero, word = Literal(0.0, DOUBLE), Literal("a", STRING)
    return rng.choice(
        (
            (call(Op.GE, column(relation, X), zero),),
            (call(Op.NE, column(relation, T), word),),
            (call(Op.NOT, call(Op.IS_NULL, column(relation, K))), call(Op.LT, column(relation, Y), _plus(zero, 2.0))),
        )
    )


def _predicates(rng: random.Random, left: int, right: int) -> tuple[Expression, ...]:
    """Between two relations: what drives an index, and sometimes what only a residual can test."""

    def both(field: int) -> tuple[Column, Column]:
        return column(left, field), column(right, field)

    (k, other_k), (x, other_x), (y, other_y), (t, other_t) = both(K), both(X), both(Y), both(T)
    equal = call(Op.EQ, k, other_k)
    band = (call(Op.GE, x, _plus(other_x, -0.5)), call(Op.LE, x, _plus(other_x, 0.5)))
    below, above = call(Op.LT, x, other_x), call(Op.GE, y, other_y)
    choices: tuple[tuple[Expression, ...], ...] = (
        (equal,),
        (equal,),
        (call(Op.EQ, t, other_t),),
        (equal, call(Op.EQ, t, other_t)),
        band,
        (call(Op.GT, x, _plus(other_x, 1.0)),),
        (below, above),
        (equal, below),
        (equal, *band),
        (equal, call(Op.NE, t, other_t)),
        (call(Op.EQ, x, other_x), call(Op.LE, Call(Op.ADD, (y, other_y), DOUBLE), Literal(2.0, DOUBLE))),
        (call(Op.NE, k, other_k), call(Op.GT, Call(Op.MUL, (x, other_y), DOUBLE), Literal(0.0, DOUBLE))),
    )
    return rng.choice(choices)


def _selection(rng: random.Random, count: int) -> dict[str, Any]:
    """Plain rows, DISTINCT, or aggregates with and without groups and tumbling windows."""
    plain = {"items": (), "distinct": False, "group_by": (), "aggregating": False, "tumble_us": None}
    chance = rng.random()
    if chance < 0.65:
        return plain | {"items": _items(rng, count)}
    if chance < 0.75:
        return plain | {"items": _few_items(rng, count), "distinct": True}
    tumble = rng.choice((None, None, *(n * TICK_US for n in (3, 10, 40))))
    group_by = tuple(column(rng.randrange(count), rng.choice((K, T, X))) for _ in range(rng.choice((0, 1, 1, 2))))
    values: list[Aggregate | GroupKey] = [GroupKey(n, key.type) for n, key in enumerate(group_by)]
    values += [_aggregate(rng, count) for _ in range(rng.randint(1, 3))]
    rng.shuffle(values)
    items = tuple(Item(f"c{n}", value, value.type) for n, value in enumerate(values))
    return plain | {"items": items, "group_by": group_by, "aggregating": True, "tumble_us": tumble}


def _aggregate(rng: random.Random, count: int) -> Aggregate:
    relation, function = rng.randrange(count), rng.choice(list(AggregateFunction))
    match function:
        case AggregateFunction.COUNT:
            return Aggregate(function, rng.choice((None, column(relation, T))), BIGINT)
        case AggregateFunction.COUNT_DISTINCT:
            return Aggregate(function, column(relation, rng.choice((K, X, T))), BIGINT)
        case AggregateFunction.SUM | AggregateFunction.AVG:
            argument = column(relation, rng.choice((K, X, Y)))
            summed = BIGINT if argument.type.kind is Kind.INTEGER else DOUBLE
            return Aggregate(function, argument, DOUBLE if function is AggregateFunction.AVG else summed)
        case _:
            argument = column(relation, rng.choice((K, X, T)))
            return Aggregate(function, argument, argument.type)


def _few_items(rng: random.Random, count: int) -> tuple[Item, ...]:
    values = [column(rng.randrange(count), rng.choice((K, T))) for _ in range(rng.randint(1, 2))]
    return tuple(Item(f"c{n}", value, value.type) for n, value in enumerate(values))


def _items(rng: random.Random, count: int) -> tuple[Item, ...]:
    items: list[Item] = []
    for n in range(rng.randint(1, 3)):
        relation = rng.randrange(count)
        field = rng.choice((K, X, T, AT))
        value: Expression = column(relation, field)
        if field == X and rng.random() < 0.5:
            value = Call(Op.DIV, (value, column(rng.randrange(count), Y)), DOUBLE)  # may fail: a null in the result
        if field == K and rng.random() < 0.5:
            wide = (Call(Op.CAST, (value,), BIGINT), Literal(1, BIGINT))
            value = Call(Op.ADD, wide, BIGINT)
        items.append(Item(f"c{n}", value, value.type))
    return tuple(items)
