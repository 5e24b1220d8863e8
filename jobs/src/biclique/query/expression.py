"""The checked expression tree: the only form in which a user's SQL reaches the planner, the kernels and the oracle.

The checker makes every conversion explicit, so that an evaluator never has to guess:
* both sides of a comparison have the same type (a CAST call was put in where SQL converts);
* arithmetic on integers has BIGINT operands and result, on DECIMAL equal scales for + and -, on DOUBLE only DOUBLEs;
* BETWEEN and IN are written out as AND/OR of comparisons, `<>` is `ne`, IS NOT NULL is `not(is_null(x))`.

Three-valued logic with one more state: an expression that *fails* (division by zero, overflow, bad cast) gives a null
that is remembered as failed. Failed travels as null does (`false AND failed` is false, `true OR failed` is true, CASE
and COALESCE look only at what they choose); IS NULL of a failed value is failed. At the top: in a predicate or a
filter failed is not true; in the select list it is null; each is counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from biclique.query.types import Type

Scalar = int | float | bool | str | None  # DECIMAL: the unscaled int; DATE: days; TIMESTAMP, INTERVAL: microseconds


class Op(Enum):
    EQ, NE, LT, LE, GT, GE = "=", "<>", "<", "<=", ">", ">="
    AND, OR, NOT, IS_NULL = "and", "or", "not", "is_null"
    ADD, SUB, MUL, DIV, MOD, NEG = "+", "-", "*", "/", "%", "neg"
    CASE = "case"  # condition, value, condition, value, …, otherwise
    CAST = "cast"  # to the type of the call
    COALESCE, NULLIF, GREATEST, LEAST = "coalesce", "nullif", "greatest", "least"
    ABS, FLOOR, CEIL, ROUND, SQRT = "abs", "floor", "ceil", "round", "sqrt"
    UPPER, LOWER, LENGTH, SUBSTRING, TRIM, CONCAT = "upper", "lower", "length", "substring", "trim", "concat"
    YEAR, MONTH, DAY, HOUR, MINUTE, SECOND = "year", "month", "day", "hour", "minute", "second"
    DATE_TRUNC = "date_trunc"  # unit (a string literal), timestamp


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a relation; `relation` and `field` are positions in `Query.relations` and `Relation.fields`."""

    relation: int
    field: int
    type: Type


@dataclass(frozen=True, slots=True)
class Literal:
    value: Scalar
    type: Type


@dataclass(frozen=True, slots=True)
class Call:
    op: Op
    args: tuple[Expression, ...]
    type: Type


Expression = Column | Literal | Call


def walk(expression: Expression) -> Iterator[Expression]:
    """The expression and everything in it, parents first."""
    yield expression
    if isinstance(expression, Call):
        for arg in expression.args:
            yield from walk(arg)


def columns_of(expression: Expression) -> frozenset[Column]:
    return frozenset(node for node in walk(expression) if isinstance(node, Column))


def relations_of(expression: Expression) -> frozenset[int]:
    return frozenset(column.relation for column in columns_of(expression))
