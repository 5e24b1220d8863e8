"""Random checked trees: any operator over any type, nested, as the checker would make them, and some it would not.

`Trees` draws from a random.Random only, so a seed gives the same tree everywhere. `exotic=False` leaves out what other
engines define differently; with small values (`extreme=0`) only a division or a root can then fail.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from biclique.query.expression import Call, Column, Expression, Literal, Op
from biclique.query.types import BIGINT, BOOLEAN, DOUBLE, INT, INTERVAL, STRING, TIMESTAMP, Kind, Type, decimal
from tests.model.domains import ALL_TYPES, value

COMPARISONS = (Op.EQ, Op.NE, Op.LT, Op.LE, Op.GT, Op.GE)
UNITS = ("millisecond", "second", "minute", "hour", "day", "week", "month", "quarter", "year")
FIELDS = (Op.YEAR, Op.MONTH, Op.DAY, Op.HOUR, Op.MINUTE, Op.SECOND)


@dataclass(frozen=True)
class Trees:
    rng: random.Random
    columns: Sequence[Column]
    exotic: bool = True
    types: Sequence[Type] = ALL_TYPES
    extreme: float = 0.1  # how often a literal is near the limits of its type
    nulls: float = 0.05  # how often a literal is null

    def of(self, type_: Type, depth: int) -> Expression:
        """An expression of this very type, at most `depth` calls deep."""
        makers: list[Callable[[Type, int], Expression]] = []
        if depth > 0:
            makers = [*BY_KIND[type_.kind], Trees._branch, Trees._branch]
            if not self.exotic:
                makers = [maker for maker in makers if maker not in EXOTIC]
        if not makers or self.rng.random() < 0.15:
            return self._leaf(type_)
        return self.rng.choice(makers)(self, type_, depth - 1)

    def predicate(self, depth: int) -> Expression:
        return self.of(BOOLEAN, depth)

    def _leaf(self, type_: Type) -> Expression:
        fitting = [column for column in self.columns if column.type == type_]
        if fitting and self.rng.random() < 0.75:
            return self.rng.choice(fitting)
        if self.rng.random() < self.nulls:
            return Literal(None, type_)
        return Literal(value(self.rng, type_, self.extreme), type_)

    def _call(self, op: Op, args: Sequence[Expression], type_: Type) -> Call:
        return Call(op, tuple(args), type_)

    # --- every type ---

    def _branch(self, type_: Type, depth: int) -> Expression:
        ops = [Op.CASE, Op.COALESCE, Op.NULLIF]
        if type_.kind is not Kind.BOOLEAN:
            ops += [Op.GREATEST, Op.LEAST]
        op = self.rng.choice(ops)
        if op is Op.NULLIF:
            return self._call(op, [self.of(type_, depth), self.of(type_, depth)], type_)
        args: list[Expression] = []
        for _ in range(self.rng.randint(1, 3)):
            if op is Op.CASE:
                args.append(self.of(BOOLEAN, depth))
            args.append(self.of(type_, depth))
        return self._call(op, [*args, self.of(type_, depth)], type_)

    def _cast(self, type_: Type, depth: int) -> Expression:
        source = self.rng.choice([t for t in self.types if castable(t, type_)])
        return self._call(Op.CAST, [self.of(source, depth)], type_)

    # --- BOOLEAN ---

    def _comparison(self, type_: Type, depth: int) -> Expression:
        of = self.rng.choice(list(self.types))
        op = self.rng.choice(COMPARISONS if of.kind is not Kind.BOOLEAN else (Op.EQ, Op.NE))
        return self._call(op, [self.of(of, depth), self.of(of, depth)], type_)

    def _connective(self, type_: Type, depth: int) -> Expression:
        op = self.rng.choice((Op.AND, Op.OR))
        return self._call(op, [self.of(type_, depth), self.of(type_, depth)], type_)

    def _negated(self, type_: Type, depth: int) -> Expression:
        return self._call(Op.NOT, [self.of(type_, depth)], type_)

    def _is_null(self, type_: Type, depth: int) -> Expression:
        return self._call(Op.IS_NULL, [self.of(self.rng.choice(list(self.types)), depth)], type_)

    # --- numbers ---

    def _integer_arithmetic(self, type_: Type, depth: int) -> Expression:
        op = self.rng.choice((Op.ADD, Op.SUB, Op.MUL))
        result = self._call(op, [self.wide(depth), self.wide(depth)], BIGINT)
        return result if type_ == BIGINT else self._call(Op.CAST, [result], type_)

    def wide(self, depth: int) -> Expression:
        """A BIGINT, now and then from a narrow column, as the checker widens it."""
        if self.rng.random() < 0.3:
            return self._call(Op.CAST, [self.of(INT, depth)], BIGINT)
        return self.of(BIGINT, depth)

    def _integer_division(self, type_: Type, depth: int) -> Expression:
        result = self._call(self.rng.choice((Op.DIV, Op.MOD)), [self.wide(depth), self.wide(depth)], BIGINT)
        return result if type_ == BIGINT else self._call(Op.CAST, [result], type_)

    def _unary(self, type_: Type, depth: int) -> Expression:
        return self._call(self.rng.choice((Op.NEG, Op.ABS)), [self.of(type_, depth)], type_)

    def _rounding(self, type_: Type, depth: int) -> Expression:
        digits = [] if self.rng.random() < 0.4 else [Literal(self.rng.randint(-19, 18), BIGINT)]
        op = self.rng.choice((Op.FLOOR, Op.CEIL, Op.ROUND))
        if op is not Op.ROUND:
            digits = []
        if type_.kind is Kind.DOUBLE:
            return self._call(op, [self.of(DOUBLE, depth), *digits], type_)
        if type_.kind is Kind.INTEGER:
            source = self.rng.choice((BIGINT, DOUBLE, decimal(5, 2)))
            if source != BIGINT:
                digits = []
            return self._call(op, [self.of(source, depth), *digits], type_)
        source = decimal(type_.precision, self.rng.randint(type_.scale, type_.precision))
        if op is Op.ROUND:
            digits = [Literal(self.rng.randint(-19, type_.scale), BIGINT)]
        return self._call(op, [self.of(source, depth), *digits], type_)

    def _texts(self, type_: Type, depth: int) -> Expression:
        result = self._call(Op.LENGTH, [self.of(STRING, depth)], BIGINT)
        return result if type_ == BIGINT else self._call(Op.CAST, [result], type_)

    def _field(self, type_: Type, depth: int) -> Expression:
        result = self._call(self.rng.choice(FIELDS), [self.of(TIMESTAMP, depth)], BIGINT)
        return result if type_ == BIGINT else self._call(Op.CAST, [result], type_)

    def _double_sum(self, type_: Type, depth: int) -> Expression:
        op = self.rng.choice((Op.ADD, Op.SUB, Op.MUL))
        return self._call(op, [self.of(type_, depth), self.of(type_, depth)], type_)

    def _double_division(self, type_: Type, depth: int) -> Expression:
        return self._call(self.rng.choice((Op.DIV, Op.MOD)), [self.of(type_, depth), self.of(type_, depth)], type_)

    def _root(self, type_: Type, depth: int) -> Expression:
        return self._call(Op.SQRT, [self.of(type_, depth)], type_)

    def _decimal_sum(self, type_: Type, depth: int) -> Expression:
        op = self.rng.choice((Op.ADD, Op.SUB, Op.MOD))
        source = decimal(self.rng.randint(max(1, type_.scale), 18), type_.scale)
        return self._call(op, [self.of(source, depth), self.of(source, depth)], type_)

    def _decimal_product(self, type_: Type, depth: int) -> Expression:
        scales = [self.rng.randint(0, 18) for _ in range(2)]
        sources = [decimal(self.rng.randint(max(1, scale), 18), scale) for scale in scales]
        op = self.rng.choice((Op.MUL, Op.DIV))
        return self._call(op, [self.of(source, depth) for source in sources], type_)

    # --- STRING ---

    def _mapped(self, type_: Type, depth: int) -> Expression:
        return self._call(self.rng.choice((Op.UPPER, Op.LOWER, Op.TRIM)), [self.of(type_, depth)], type_)

    def _concat(self, type_: Type, depth: int) -> Expression:
        return self._call(Op.CONCAT, [self.of(type_, depth) for _ in range(self.rng.randint(2, 3))], type_)

    def _substring(self, type_: Type, depth: int) -> Expression:
        numbers = [self.of(BIGINT, depth) for _ in range(self.rng.randint(1, 2))]
        return self._call(Op.SUBSTRING, [self.of(type_, depth), *numbers], type_)

    # --- time ---

    def _moved(self, type_: Type, depth: int) -> Expression:
        return self._call(self.rng.choice((Op.ADD, Op.SUB)), [self.of(type_, depth), self.of(INTERVAL, depth)], type_)

    def _truncated(self, type_: Type, depth: int) -> Expression:
        return self._call(Op.DATE_TRUNC, [Literal(self.rng.choice(UNITS), STRING), self.of(type_, depth)], type_)

    def _between(self, type_: Type, depth: int) -> Expression:
        kind = self.rng.choice((TIMESTAMP, INTERVAL))
        return self._call(Op.SUB, [self.of(kind, depth), self.of(kind, depth)], type_)

    def _times(self, type_: Type, depth: int) -> Expression:
        return self._call(Op.MUL, [self.of(type_, depth), self.of(BIGINT, depth)], type_)


def castable(source: Type, target: Type) -> bool:
    """The pairs of kinds that kernels/conversion.py lists."""
    numbers = {Kind.INTEGER, Kind.DOUBLE, Kind.DECIMAL}
    kinds = {source.kind, target.kind}
    if len(kinds) == 1 or Kind.INTERVAL in kinds:
        return len(kinds) == 1
    pairs = ({Kind.INTEGER, Kind.BOOLEAN}, {Kind.DATE, Kind.TIMESTAMP})
    return kinds <= numbers or Kind.STRING in kinds or kinds in pairs


BY_KIND: dict[Kind, list[Callable[[Trees, Type, int], Expression]]] = {
    Kind.BOOLEAN: [
        *(Trees._comparison, Trees._comparison, Trees._comparison, Trees._connective, Trees._connective),
        *(Trees._negated, Trees._is_null, Trees._cast),
    ],
    Kind.INTEGER: [
        *(Trees._integer_arithmetic, Trees._integer_arithmetic, Trees._integer_division, Trees._unary, Trees._rounding),
        *(Trees._texts, Trees._field, Trees._cast),
    ],
    Kind.DOUBLE: [
        *(Trees._double_sum, Trees._double_sum, Trees._double_division, Trees._unary, Trees._rounding, Trees._root),
        Trees._cast,
    ],
    Kind.DECIMAL: [Trees._decimal_sum, Trees._decimal_product, Trees._unary, Trees._rounding, Trees._cast],
    Kind.STRING: [Trees._mapped, Trees._concat, Trees._substring, Trees._cast],
    Kind.DATE: [Trees._cast],
    Kind.TIMESTAMP: [Trees._moved, Trees._truncated, Trees._cast],
    Kind.INTERVAL: [Trees._between, Trees._times, Trees._unary],
}
EXOTIC = {Trees._cast, Trees._rounding, Trees._decimal_product, Trees._decimal_sum, Trees._substring}
