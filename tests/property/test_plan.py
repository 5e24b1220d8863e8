"""A plan neither loses nor adds a pair, whatever the query: random predicates, judged by tests/unit/plan/judge.py."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from biclique.index.protocol import IndexKind
from biclique.plan.make import make_plan
from biclique.plan.model import Plan
from biclique.plan.statistics import RelationStatistics, Statistics
from biclique.query.expression import Call, Column, Expression, Literal, Op, relations_of
from biclique.query.model import (
    Delivery,
    EventTime,
    Field,
    Files,
    Format,
    Item,
    OnBadRecord,
    PlanHints,
    Query,
    Relation,
    Source,
    Window,
)
from biclique.query.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    INTERVAL,
    STRING,
    TIMESTAMP,
    Kind,
    Type,
    decimal,
)
from tests.model.domains import extreme_value, value
from tests.model.trees import Trees
from tests.unit.plan.judge import Row, judge, random_rows

TYPES = (
    *(BIGINT, BIGINT, INT, INT, DOUBLE, DOUBLE, TIMESTAMP, TIMESTAMP),
    decimal(18, 4),
    decimal(5, 2),
    DATE,
    BOOLEAN,
    STRING,
)


# --- queries ---------------------------------------------------------------------------------------------------------


def columns_of_relation(relation: int) -> list[Column]:
    return [Column(relation, field, type_) for field, type_ in enumerate(TYPES)]


def query_of(predicates: tuple[Expression, ...], relations: int, item: Expression) -> Query:
    file = Files("in", Format.CSV)
    fields = tuple(Field(f"c{n}", type_) for n, type_ in enumerate(TYPES))
    return Query(
        name="q",
        sources=(Source("s", fields, EventTime(None), file, OnBadRecord.FAIL),),
        relations=tuple(Relation(f"r{n}", 0, Window()) for n in range(relations)),
        filters=((),) * relations,
        predicates=predicates,
        items=(Item("i", item, item.type),),
        distinct=False,
        group_by=(),
        aggregating=False,
        tumble_us=None,
        delivery=Delivery.EXACTLY_ONCE,
        output=file,
        hints=PlanHints(units=2),
    )


class Predicates:
    """Mostly what an index may serve, in every way of writing it; now and then anything at all."""

    def __init__(self, rng: random.Random, relations: int) -> None:
        self.rng, self.columns = rng, [columns_of_relation(r) for r in range(relations)]

    def __call__(self) -> Expression:
        one, other = self.rng.sample(range(len(self.columns)), 2)
        maker = self.rng.choice((self.direct, self.direct, self.band, self.difference, self.difference, self.anything))
        predicate = maker(one, other)
        if self.rng.random() < 0.15:
            return Call(Op.NOT, (predicate,), BOOLEAN)
        return predicate

    def comparison(self) -> Op:
        return self.rng.choice((Op.LT, Op.LE, Op.GT, Op.GE, Op.EQ, Op.NE))

    def operand(self, relation: int, type_: Type) -> Expression:
        """Over one relation: a column, shifted by literals, or any expression."""
        chance = self.rng.random()
        if chance < 0.1:
            tree = Trees(self.rng, self.columns[relation]).of(type_, 2)
            if relations_of(tree):
                return tree
        if type_ == BIGINT and chance < 0.4:
            narrow = self.rng.choice([c for c in self.columns[relation] if c.type == INT])
            return Call(Op.CAST, (narrow,), BIGINT)
        return self.rng.choice([c for c in self.columns[relation] if c.type == type_])

    def shifted(self, operand: Expression) -> Expression:
        literal = {Kind.TIMESTAMP: INTERVAL, Kind.INTERVAL: INTERVAL}.get(operand.type.kind, operand.type)
        if operand.type.kind not in (Kind.INTEGER, Kind.DOUBLE, Kind.DECIMAL, Kind.TIMESTAMP) or operand.type == INT:
            return operand
        for _ in range(self.rng.choice((0, 0, 1, 1, 2))):
            number = self.literal(literal)
            args = (operand, number) if self.rng.random() < 0.8 else (number, operand)
            op = self.rng.choice((Op.ADD, Op.SUB)) if args[0] is operand else Op.ADD
            operand = Call(op, args, operand.type)
        return operand

    def literal(self, type_: Type) -> Literal:
        if self.rng.random() < 0.2:
            return Literal(extreme_value(self.rng, type_), type_)
        return Literal(value(self.rng, type_), type_)

    def direct(self, one: int, other: int) -> Expression:
        type_ = self.rng.choice(TYPES)
        sides = [self.shifted(self.operand(relation, type_)) for relation in (one, other)]
        op = self.comparison() if type_ != BOOLEAN else self.rng.choice((Op.EQ, Op.NE))
        return Call(op, tuple(sides), BOOLEAN)

    def band(self, one: int, other: int) -> Expression:
        """x BETWEEN y - c AND y + d, or BETWEEN low AND high."""
        type_ = self.rng.choice((BIGINT, DOUBLE, TIMESTAMP, decimal(18, 4)))
        x, y = self.operand(one, type_), self.operand(other, type_)
        ends = [self.shifted(y if self.rng.random() < 0.8 else self.operand(other, type_)) for _ in range(2)]
        low = Call(self.rng.choice((Op.GE, Op.GT)), (x, ends[0]), BOOLEAN)
        high = Call(self.rng.choice((Op.LE, Op.LT)), (x, ends[1]), BOOLEAN)
        return Call(Op.AND, (low, high), BOOLEAN)

    def difference(self, one: int, other: int) -> Expression:
        type_ = self.rng.choice((BIGINT, BIGINT, DOUBLE, TIMESTAMP, decimal(18, 4), decimal(5, 2)))
        x, y = (self.shifted(self.operand(relation, type_)) for relation in (one, other))
        result = {TIMESTAMP: INTERVAL, decimal(5, 2): decimal(6, 2)}.get(type_, type_)
        subject: Expression = Call(Op.SUB, (x, y), result)
        if self.rng.random() < 0.4:
            subject = Call(Op.ABS, (subject,), result)
        if result == BIGINT and self.rng.random() < 0.2:
            subject = Call(Op.CAST, (subject,), self.rng.choice((DOUBLE, INT, decimal(18, 2))))
        if result == decimal(6, 2) and self.rng.random() < 0.4:
            subject = Call(Op.CAST, (subject,), self.rng.choice((DOUBLE, decimal(9, 3), decimal(4, 3))))
        first, second = self.literal(subject.type), self.literal(subject.type)
        if self.rng.random() < 0.3:
            between = (Call(Op.GE, (subject, first), BOOLEAN), Call(Op.LT, (subject, second), BOOLEAN))
            return Call(Op.AND, between, BOOLEAN)
        args = (subject, first) if self.rng.random() < 0.7 else (first, subject)
        return Call(self.comparison(), args, BOOLEAN)

    def anything(self, one: int, other: int) -> Expression:
        return Trees(self.rng, self.columns[one] + self.columns[other]).predicate(2)


def statistics(rng: random.Random, relations: int) -> Statistics:
    return Statistics(
        tuple(RelationStatistics(rng.choice((1.0, 1e3)), rng.choice((1.0, 30.0, 1e4, 1e8))) for _ in range(relations))
    )


def case(seed: int, relations: int = 0) -> tuple[Plan, list[list[Row]]]:
    """`relations` 0: two or three."""
    rng = random.Random(seed)
    relations = relations or rng.choice((2, 2, 2, 3))
    predicate = Predicates(rng, relations)
    predicates = tuple(predicate() for _ in range(rng.choice((1, 1, 2, 2, 3, 4))))
    item = rng.choice(predicate.columns[rng.randrange(relations)])
    rows = random_rows(rng, TYPES, relations)
    return make_plan(query_of(predicates, relations, item), statistics(rng, relations)), rows


@given(st.integers(0, 2**32))
@settings(max_examples=400, deadline=None)
def test_a_plan_neither_loses_nor_adds_a_pair(seed: int) -> None:
    judge(*case(seed))


def test_the_random_queries_use_every_index_and_find_pairs() -> None:
    kinds, matches = set(), 0
    for seed in range(300):
        plan, rows = case(seed)
        matches += judge(plan, rows)
        kinds |= {side.access.kind for stage in plan.stages for side in stage.sides}
    assert kinds == set(IndexKind)
    assert matches > 300
