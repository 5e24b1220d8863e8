"""COUNT, SUM, AVG, MIN and MAX as select items: what each takes and gives."""

from __future__ import annotations

from sqlglot import exp

from biclique.query.conversion import NUMERIC, ORDERED, convert
from biclique.query.expression import Literal
from biclique.query.expressions import AGGREGATES, ExpressionChecker, function_name
from biclique.query.model import Aggregate, AggregateFunction
from biclique.query.text import SqlText
from biclique.query.types import BIGINT, DECIMAL_DIGITS_MAX, DOUBLE, Kind, Type, decimal


def is_aggregate(node: exp.Expr) -> bool:
    return isinstance(node, exp.Anonymous) and function_name(node) in AGGREGATES


def aggregate_of(text: SqlText, checker: ExpressionChecker, node: exp.Expr) -> Aggregate:
    name, arguments = function_name(node), node.expressions
    if len(arguments) != 1:
        raise text.error(node, f"{name} takes one argument, not {len(arguments)}", f"write {name}(x)")
    argument = arguments[0]
    if isinstance(argument, exp.Star):
        if name != "COUNT" or any(argument.args.values()):
            raise text.error(node, f"{text.quote(node)} is not supported", "only COUNT takes *: name a column")
        return Aggregate(AggregateFunction.COUNT, None, BIGINT)
    distinct = isinstance(argument, exp.Distinct)
    if distinct:
        if name != "COUNT" or argument.args.get("on") or len(argument.expressions) != 1:
            raise text.error(node, f"{text.quote(node)} is not supported", "DISTINCT goes with COUNT of one expression")
        argument = argument.expressions[0]
    value = checker.value(argument)
    type_ = value.type
    if name == "COUNT" and not distinct and isinstance(value, Literal) and value.value is not None:
        return Aggregate(AggregateFunction.COUNT, None, BIGINT)  # COUNT(1) is what many write for COUNT(*)
    if name == "COUNT":
        output_type(text, argument, type_)
        return Aggregate(AggregateFunction.COUNT_DISTINCT if distinct else AggregateFunction.COUNT, value, BIGINT)
    if name in {"MIN", "MAX"}:
        if type_.kind not in ORDERED:
            raise text.error(node, f"{name} of {type_} has no order to go by", f"write {name}(CAST(... AS INT))")
        output_type(text, argument, type_)
        return Aggregate(AggregateFunction[name], value, type_)
    if type_.kind not in NUMERIC:
        raise text.error(node, f"{name} takes a number, not {type_}", "CAST it, or use MIN, MAX or COUNT")
    if name == "AVG":
        return Aggregate(AggregateFunction.AVG, value, DOUBLE)
    if type_.kind is Kind.INTEGER:
        return Aggregate(AggregateFunction.SUM, convert(value, BIGINT), BIGINT)
    total = decimal(DECIMAL_DIGITS_MAX, type_.scale) if type_.kind is Kind.DECIMAL else DOUBLE
    return Aggregate(AggregateFunction.SUM, value, total)


def output_type(text: SqlText, node: exp.Expr, type_: Type) -> None:
    """An INTERVAL lives inside expressions only: no file or topic can hold one."""
    if type_.kind is Kind.INTERVAL:
        problem = f"{text.quote(node)} is an INTERVAL, which a result cannot hold"
        raise text.error(node, problem, "compare it, or select the times themselves")
