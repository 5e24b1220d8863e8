"""Random checked queries and data for them: every class of predicate, windows, DISTINCT, aggregates, from tiny domains.

Made directly as `Query` values, as the checker makes them from SQL. All randomness comes from the `random.Random`
that is given, so a seed names a case. `Shape` says what may occur; its None means that chance decides.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from biclique.core.rows import Vector
from biclique.core.stamps import tuple_id
from biclique.query.expression import Call, Column, Expression, Literal, Op, Scalar, relations_of
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
    OnBadRecord,
    PlanHints,
    Query,
    Relation,
    Source,
    Window,
)
from biclique.query.types import BIGINT, BOOLEAN, DATE, DOUBLE, INT, INTERVAL, STRING, TIMESTAMP, Kind, Type, decimal
from tests.model.domains import column, vector
from tests.model.oracle import Tuple
from tests.model.trees import Trees

SECOND = 1_000_000
MONEY = decimal(9, 2)
TYPES = (BIGINT, INT, DOUBLE, STRING, TIMESTAMP, DATE, BOOLEAN, MONEY)
ORDERED = tuple(type_ for type_ in TYPES if type_ != BOOLEAN)
CLASSES = ("equality", "band", "inequality", "two inequalities", "equality and inequality", "theta", "residual")


@dataclass(frozen=True)
class Shape:
    relations: tuple[int, int] = (2, 4)
    windowed: bool | None = None
    one_window: bool = False  # every relation has the same; True is forced for more than two relations
    aggregating: bool | None = None
    tumbling: bool | None = None  # of the aggregating ones
    distinct: bool | None = None  # of the others
    types: Sequence[Type] = TYPES
    classes: Sequence[str] = CLASSES
    exotic: bool = True  # casts, roundings and the like (tests/model/trees.py)
    depth: int = 2  # of random expressions
    extreme: float = 0.0  # share of values near the limits of their type; sums may then overflow
    self_joins: float = 0.2
    event_time_column: bool | None = None


@dataclass(frozen=True, slots=True)
class SourceRow:
    partition: int
    offset: int
    time: int
    values: tuple[Scalar, ...]


Data = tuple[tuple[SourceRow, ...], ...]  # for each source


def random_query(rng: random.Random, shape: Shape = Shape(), hints: PlanHints | None = None) -> Query:
    count = rng.randint(*shape.relations)
    of_source = [0]
    for _ in range(count - 1):
        again = rng.random() < shape.self_joins
        of_source.append(rng.choice(of_source) if again else max(of_source) + 1)
    sources = tuple(random_source(rng, shape, f"s{n}") for n in range(max(of_source) + 1))
    relations = tuple(
        Relation(f"r{n}", source, window)
        for n, (source, window) in enumerate(zip(of_source, random_windows(rng, shape, count), strict=True))
    )
    columns = [
        Column(n, field, sources[relation.source].fields[field].type)
        for n, relation in enumerate(relations)
        for field in range(len(sources[relation.source].fields))
    ]
    maker = Predicates(rng, shape, columns)
    conjuncts = [c for right in range(1, count) for c in maker.between(rng.randrange(right), right)]
    filters = [maker.filters(n) for n in range(count)]
    for conjunct in conjuncts:
        if len(used := relations_of(conjunct)) == 1:
            filters[min(used)].append(conjunct)
    aggregating = _decided(rng, shape.aggregating, 0.3)
    group_by, items = (aggregates if aggregating else plain_items)(rng, shape, columns)
    return Query(
        name="random",
        sources=sources,
        relations=relations,
        filters=tuple(tuple(conjuncts) for conjuncts in filters),
        predicates=tuple(c for c in conjuncts if len(relations_of(c)) != 1),
        items=items,
        distinct=not aggregating and _decided(rng, shape.distinct, 0.25),
        group_by=group_by,
        aggregating=aggregating,
        tumble_us=rng.choice((1, 3)) * SECOND if aggregating and _decided(rng, shape.tumbling, 0.3) else None,
        delivery=Delivery.EXACTLY_ONCE,
        output=Files("out", Format.PARQUET),
        hints=hints or PlanHints(),
    )


def _decided(rng: random.Random, wish: bool | None, chance: float) -> bool:
    return rng.random() < chance if wish is None else wish


def random_source(rng: random.Random, shape: Shape, name: str) -> Source:
    """Two numbers to join by are always there; the event time may be a column, the last one."""
    types = [BIGINT, BIGINT, *(rng.choice(list(shape.types)) for _ in range(rng.randint(1, 4)))]
    rng.shuffle(types)
    fields = [Field(f"c{n}", type_) for n, type_ in enumerate(types)]
    timed = _decided(rng, shape.event_time_column, 0.5)
    if timed:
        fields.append(Field("at", TIMESTAMP, nullable=False))
    event_time = EventTime(len(fields) - 1 if timed else None)
    return Source(name, tuple(fields), event_time, Files(name, Format.PARQUET), OnBadRecord.DEAD_LETTER)


def random_windows(rng: random.Random, shape: Shape, count: int) -> list[Window]:
    if not _decided(rng, shape.windowed, 0.6):
        return [Window()] * count
    windows = [Window(rng.choice((1, 2, 3, 5)) * SECOND) for _ in range(count)]
    return [windows[0]] * count if shape.one_window or count > 2 else windows


# --- predicates ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Predicates:
    rng: random.Random
    shape: Shape
    columns: Sequence[Column]

    def trees(self, relations: set[int]) -> Trees:
        columns = [c for c in self.columns if c.relation in relations]
        return Trees(self.rng, columns, self.shape.exotic, self.shape.types, self.shape.extreme)

    def filters(self, relation: int) -> list[Expression]:
        if self.rng.random() < 0.7:
            return []
        predicate = self.trees({relation}).predicate(self.shape.depth)
        return [predicate] if relations_of(predicate) else []

    def between(self, left: int, right: int) -> list[Expression]:
        made = MAKERS[self.rng.choice(list(self.shape.classes))](self, left, right)
        if self.rng.random() < 0.25:
            made += self.residual(left, right)
        return made

    def pair(self, left: int, right: int, types: Sequence[Type] = ORDERED) -> tuple[Column, Column]:
        """A column of each side, of one type."""
        pairs = [
            (a, b)
            for a in self.columns
            for b in self.columns
            if (a.relation, b.relation) == (left, right) and a.type == b.type and a.type in types
        ]
        return self.rng.choice(pairs)

    def side(self, col: Column) -> Expression:
        """A column, or now and then an expression over it."""
        if self.rng.random() < 0.7 or col.type not in (BIGINT, DOUBLE):
            return col
        return Call(self.rng.choice((Op.ADD, Op.SUB, Op.MUL)), (col, step(self.rng, col.type)), col.type)

    def equality(self, left: int, right: int) -> list[Expression]:
        a, b = self.pair(left, right, TYPES)
        return [Call(Op.EQ, (self.side(a), self.side(b)), BOOLEAN)]

    def band(self, left: int, right: int) -> list[Expression]:
        a, b = self.pair(left, right, (BIGINT, DOUBLE, TIMESTAMP))
        low, high = (
            Call(op, (self.side(b), step(self.rng, INTERVAL if b.type == TIMESTAMP else b.type)), b.type)
            for op in (Op.SUB, Op.ADD)
        )
        stored = self.side(a)
        return [
            Call(self.rng.choice((Op.GE, Op.GT)), (stored, low), BOOLEAN),
            Call(self.rng.choice((Op.LE, Op.LT)), (stored, high), BOOLEAN),
        ]

    def inequality(self, left: int, right: int) -> list[Expression]:
        a, b = self.pair(left, right)
        return [Call(self.rng.choice((Op.LT, Op.LE, Op.GT, Op.GE)), (self.side(a), self.side(b)), BOOLEAN)]

    def theta(self, left: int, right: int) -> list[Expression]:
        a, b = self.pair(left, right)
        return [Call(Op.NE, (a, b), BOOLEAN)]

    def residual(self, left: int, right: int) -> list[Expression]:
        predicate = self.trees({left, right}).predicate(self.shape.depth)
        return [predicate] if relations_of(predicate) else []

    def two_inequalities(self, left: int, right: int) -> list[Expression]:
        return self.inequality(left, right) + self.inequality(left, right)

    def equality_and_inequality(self, left: int, right: int) -> list[Expression]:
        return self.equality(left, right) + self.inequality(left, right)


def step(rng: random.Random, type_: Type) -> Literal:
    if type_ == INTERVAL:
        return Literal(rng.randint(0, 2) * SECOND, type_)
    return Literal(rng.choice((0, 1, 2)) if type_.kind is Kind.INTEGER else rng.choice((0.0, 0.5, 1.0)), type_)


MAKERS: dict[str, Callable[[Predicates, int, int], list[Expression]]] = {
    "equality": Predicates.equality,
    "band": Predicates.band,
    "inequality": Predicates.inequality,
    "two inequalities": Predicates.two_inequalities,
    "equality and inequality": Predicates.equality_and_inequality,
    "theta": Predicates.theta,
    "residual": Predicates.residual,
}


# --- select lists ----------------------------------------------------------------------------------------------------

Selected = tuple[tuple[Expression, ...], tuple[Item, ...]]


def plain_items(rng: random.Random, shape: Shape, columns: Sequence[Column]) -> Selected:
    trees = Trees(rng, columns, shape.exotic, shape.types, shape.extreme)
    values: list[Expression] = [rng.choice(list(columns)) for _ in range(rng.randint(1, 3))]
    values += [trees.of(rng.choice(list(shape.types)), shape.depth) for _ in range(rng.randint(0, 2))]
    return (), tuple(Item(f"v{n}", value, value.type) for n, value in enumerate(values))


def aggregates(rng: random.Random, shape: Shape, columns: Sequence[Column]) -> Selected:
    trees = Trees(rng, columns, shape.exotic, shape.types, shape.extreme)
    keys = tuple(trees.of(rng.choice(list(shape.types)), rng.choice((0, 0, 1))) for _ in range(rng.randint(0, 2)))
    values: list[Aggregate | GroupKey] = [GroupKey(n, key.type) for n, key in enumerate(keys) if rng.random() < 0.8]
    for _ in range(rng.randint(1, 4)):
        argument = trees.of(rng.choice(list(shape.types)), rng.choice((0, 0, 1)))
        values.append(random_aggregate(rng, argument))
    rng.shuffle(values)
    return keys, tuple(Item(f"v{n}", value, value.type) for n, value in enumerate(values))


def random_aggregate(rng: random.Random, argument: Expression) -> Aggregate:
    type_ = argument.type
    functions = [AggregateFunction.COUNT, AggregateFunction.COUNT_DISTINCT]
    if type_ != BOOLEAN:
        functions += [AggregateFunction.MIN, AggregateFunction.MAX]
    if type_.kind in (Kind.INTEGER, Kind.DOUBLE, Kind.DECIMAL):
        functions += [AggregateFunction.SUM, AggregateFunction.AVG] * 2
    function = rng.choice(functions)
    if function is AggregateFunction.COUNT and rng.random() < 0.5:
        return Aggregate(function, None, BIGINT)
    return Aggregate(function, argument, aggregate_type(function, type_))


def aggregate_type(function: AggregateFunction, argument: Type) -> Type:
    match function:
        case AggregateFunction.MIN | AggregateFunction.MAX:
            return argument
        case AggregateFunction.AVG:
            return DOUBLE
        case AggregateFunction.SUM if argument.kind is Kind.DOUBLE:
            return DOUBLE
        case AggregateFunction.SUM if argument.kind is Kind.DECIMAL:
            return decimal(18, argument.scale)
        case _:
            return BIGINT


# --- data ------------------------------------------------------------------------------------------------------------


def random_data(
    rng: random.Random,
    query: Query,
    rows: int,
    *,
    partitions: int = 2,
    span_us: int = 12 * SECOND,
    extreme: float = 0.0,
) -> Data:
    """At most `rows` rows for each source, with times in whole seconds: ties are common."""
    return tuple(
        _source_rows(rng, source, rng.randint(0, rows), partitions, span_us, extreme) for source in query.sources
    )


def _source_rows(
    rng: random.Random, source: Source, count: int, partitions: int, span_us: int, extreme: float
) -> tuple[SourceRow, ...]:
    nulls = rng.choice((0.0, 0.1, 0.3))
    columns = [column(rng, field.type, count, nulls, extreme) for field in source.fields]
    times = [rng.randint(-span_us // 2 // SECOND, span_us // 2 // SECOND) * SECOND for _ in range(count)]
    if source.event_time.column is not None:
        columns[source.event_time.column] = list(times)
    offsets, made = [0] * partitions, []
    for n in range(count):
        partition = rng.randrange(partitions)
        made.append(SourceRow(partition, offsets[partition], times[n], tuple(c[n] for c in columns)))
        offsets[partition] += rng.choice((1, 1, 1, 2))
    return tuple(made)


def tuples_of(query: Query, data: Data) -> list[list[Tuple]]:
    """What each relation holds: a source that is named twice is two relations with ids of their own."""
    return [
        [Tuple(tuple_id(n, row.partition, row.offset), row.time, row.values) for row in data[relation.source]]
        for n, relation in enumerate(query.relations)
    ]


def vectors_of(source: Source, rows: Sequence[SourceRow]) -> tuple[Vector, ...]:
    return tuple(vector(field.type, [row.values[n] for row in rows]) for n, field in enumerate(source.fields))
