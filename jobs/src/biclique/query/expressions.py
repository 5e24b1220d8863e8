"""From sqlglot's expression to ours: an allow-list of node types, each with the arguments that it may have.

A node that is not in the list, or that has an argument which the list does not name, is refused by a sentence; so
whatever a newer parser may understand stays outside until it is added here. Size and depth are bounded as the tree
grows, because BETWEEN, IN and CASE copy their operand.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from sqlglot import exp

from biclique.query.conversion import (
    NULL,
    NUMBER_CHARACTERS_MAX,
    Bare,
    Mismatch,
    Operand,
    Untyped,
    cast,
    meet,
    settle,
    short,
)
from biclique.query.expression import Call, Expression, Literal, Op
from biclique.query.functions import EXTRACT_UNITS, FORBIDDEN, FUNCTIONS, SYNONYMS, apply
from biclique.query.moments import INTERVAL_UNITS, interval_us
from biclique.query.operators import arithmetic, comparison, connective, negation, truth
from biclique.query.schema import SchemaError, type_named
from biclique.query.scope import Scope, nearest
from biclique.query.text import SqlText
from biclique.query.types import BOOLEAN, INTERVAL

DEPTH_MAX = 64
NODES_MAX = 500

AGGREGATES = ("COUNT", "SUM", "AVG", "MIN", "MAX")
_COMPARISONS: dict[type[exp.Expr], Op] = {
    exp.EQ: Op.EQ,
    exp.NEQ: Op.NE,
    exp.LT: Op.LT,
    exp.LTE: Op.LE,
    exp.GT: Op.GT,
    exp.GTE: Op.GE,
}
_ARITHMETIC: dict[type[exp.Expr], Op] = {
    exp.Add: Op.ADD,
    exp.Sub: Op.SUB,
    exp.Mul: Op.MUL,
    exp.Div: Op.DIV,
    exp.Mod: Op.MOD,
}
_CHAINS = (exp.And, exp.Or, exp.DPipe)

# What is known elsewhere and refused here, in words.
_REFUSED: tuple[tuple[tuple[type, ...], str, str], ...] = (
    (
        (exp.Query, exp.Exists, exp.Any, exp.All),
        "a subquery is not supported",
        "join the relations, or run two queries",
    ),
    ((exp.Window,), "a window function (OVER) is not supported", "aggregate with GROUP BY"),
    ((exp.Filter,), "FILTER is not supported", "aggregate a CASE"),
    ((exp.Like, exp.ILike), "LIKE is not supported", "compare with =, or with SUBSTRING or LOWER"),
    ((exp.NullSafeEQ,), "IS NOT DISTINCT FROM is not supported", "write a = b OR a IS NULL AND b IS NULL"),
    ((exp.NullSafeNEQ,), "IS DISTINCT FROM is not supported", "write a <> b, and IS NULL where it matters"),
    ((exp.Placeholder, exp.Parameter), "a placeholder has no value here", "write the value"),
    ((exp.Star,), "* stands for all columns only in the select list and in COUNT(*)", "name a column"),
    ((exp.Tuple,), "a list in parentheses is not a value", "compare one by one, with AND"),
    ((exp.If,), "IF is not supported", "write CASE WHEN ... THEN ... ELSE ... END"),
    ((exp.IntDiv,), "DIV is not supported", "write FLOOR(a / b)"),
    ((exp.Distinct,), "DISTINCT stands after SELECT or in COUNT(DISTINCT ...)", "move it"),
    ((exp.Alias,), "a name stands in the middle of an expression", "put AS name after the whole select item"),
    (
        (exp.CurrentTimestamp, exp.CurrentDate, exp.CurrentTime, exp.CurrentUser),
        "the current time or user differs from one run to the next, so a replay would give other results",
        "use a column",
    ),
)

T = TypeVar("T")


def refuse_depth(text: SqlText, root: exp.Expr) -> None:
    """Called before anything recurses, and iterative itself. Chains of AND, OR and || are flat to us."""
    stack: list[tuple[exp.Expr, int]] = [(root, 0)]
    while stack:
        node, depth = stack.pop()
        if depth > DEPTH_MAX:
            raise text.error(node, f"the expression nests deeper than {DEPTH_MAX}", "write it flatter")
        for child in node.iter_expressions():
            free = isinstance(child, exp.Paren) or (isinstance(child, _CHAINS) and type(child) is type(node))
            stack.append((child, depth if free else depth + 1))


class ExpressionChecker:
    """Checks expressions of one clause. `scope` is what names mean there; `where` names the clause in the sentences."""

    def __init__(self, text: SqlText, scope: Scope, where: str) -> None:
        self._text, self._scope, self._where = text, scope, where
        self._measured: dict[int, tuple[Expression, int, int]] = {}  # id → the node, kept alive; its nodes; its depth

    def value(self, node: exp.Expr) -> Expression:
        """A value that meets no other: a literal takes its own type."""
        operand = self.operand(node)
        return self._bounded(node, self._guarded(node, lambda: settle(operand)))

    def predicate(self, node: exp.Expr) -> Expression:
        operand = self.operand(node)
        return self._bounded(node, self._guarded(node, lambda: truth(operand, self._where)))

    def operand(self, node: exp.Expr) -> Operand:
        for kinds, problem, remedy in _REFUSED:
            if isinstance(node, kinds):
                raise self._text.error(node, problem, remedy)
        rule = _RULES.get(type(node))
        if rule is None:
            raise self._text.error(node, f"{self._text.quote(node)} is not supported", "see docs/sql.md for what is")
        method, allowed = rule
        for name, value in node.args.items():
            if name not in allowed and value:
                raise self._text.error(
                    node, f"this form of {self._text.quote(node)} is not supported", "see docs/sql.md"
                )
        result = self._guarded(node, lambda: method(self, node))
        return result if isinstance(result, Untyped) else self._bounded(node, result)

    def _guarded(self, node: exp.Expr, make: Callable[[], T]) -> T:
        try:
            return make()
        except Mismatch as mismatch:
            found = mismatch
        alone = isinstance(node, exp.Literal | exp.Null | exp.Boolean)
        problem = found.problem if alone else f"{found.problem} in {self._text.quote(node)}"
        raise self._text.error(node, problem, found.remedy)

    def _bounded(self, node: exp.Expr, expression: Expression) -> Expression:
        _, nodes, depth = self._measure(expression)
        if nodes > NODES_MAX:
            problem = f"an expression of more than {NODES_MAX} parts (BETWEEN, IN and CASE written out)"
            raise self._text.error(node, problem, "split it or shorten a list")
        if depth > DEPTH_MAX:
            raise self._text.error(node, f"the expression nests deeper than {DEPTH_MAX}", "write it flatter")
        return expression

    def _measure(self, expression: Expression) -> tuple[Expression, int, int]:
        known = self._measured.get(id(expression))
        if known is None:
            parts = [self._measure(argument) for argument in expression.args] if isinstance(expression, Call) else []
            nodes = 1 + sum(part[1] for part in parts)
            known = (expression, nodes, 1 + max((part[2] for part in parts), default=0))
            self._measured[id(expression)] = known
        return known

    # --- names and literals ------------------------------------------------------------------------------------------

    def _paren(self, node: exp.Expr) -> Operand:
        return self.operand(node.this)

    def _column(self, node: exp.Expr) -> Operand:
        assert isinstance(node, exp.Column)
        if isinstance(node.this, exp.Star):
            raise self._text.error(node, "* stands for all columns only in the select list", "name a column")
        return self._scope.column(self._text, node)

    def _literal(self, node: exp.Expr) -> Operand:
        text = str(node.this)
        if node.args.get("is_string"):
            return Untyped(Bare.STRING, text)
        if len(text) > NUMBER_CHARACTERS_MAX or not text.isascii():
            raise self._text.error(node, f"the number {short(text)} is too long", "write fewer digits")
        return Untyped(Bare.NUMBER, text)

    def _boolean(self, node: exp.Expr) -> Operand:
        return Literal(bool(node.this), BOOLEAN)

    def _null(self, node: exp.Expr) -> Operand:
        return NULL

    def _interval(self, node: exp.Expr) -> Operand:
        number, unit = node.this, node.args.get("unit")
        remedy = f"write INTERVAL 5 MINUTE (units: {', '.join(INTERVAL_UNITS)})"
        if not isinstance(number, exp.Literal):
            raise self._text.error(node, "INTERVAL takes a literal number", remedy)
        if not isinstance(unit, exp.Var):
            raise self._text.error(node, f"INTERVAL {short(number.name)} has no unit", remedy)
        length = interval_us(number.name, unit.name)
        if length is None:
            problem = f"INTERVAL {short(number.name)} {short(unit.name)} is no length of time"
            raise self._text.error(node, problem, remedy)
        return Literal(length, INTERVAL)

    # --- operators ---------------------------------------------------------------------------------------------------

    def _comparison(self, node: exp.Expr) -> Operand:
        right = node.expression.this if isinstance(node.expression, exp.Paren) else node.expression
        loose = isinstance(right, exp.Is) and not self._text.follows_parenthesis(right)
        for side in (node.this, right if loose else node.expression):
            if type(side) in _COMPARISONS or isinstance(side, exp.Is | exp.Between | exp.In):
                remedy = "put one in parentheses, or join them with AND"
                raise self._text.error(side, "two comparisons in a row", remedy)
        return comparison(_COMPARISONS[type(node)], self.operand(node.this), self.operand(node.expression))

    def _arithmetic(self, node: exp.Expr) -> Operand:
        return arithmetic(_ARITHMETIC[type(node)], self.operand(node.this), self.operand(node.expression))

    def _negation(self, node: exp.Expr) -> Operand:
        return negation(self.operand(node.this))

    def _not(self, node: exp.Expr) -> Operand:
        return Call(Op.NOT, (truth(self.operand(node.this), "NOT"),), BOOLEAN)

    def _connective(self, node: exp.Expr) -> Operand:
        parts = [self.operand(part) for part in chain(node, type(node))]
        return connective(Op.AND if isinstance(node, exp.And) else Op.OR, parts)

    def _between(self, node: exp.Expr) -> Operand:
        value, low, high = (self.operand(node.args[name]) for name in ("this", "low", "high"))
        return connective(Op.AND, [comparison(Op.GE, value, low), comparison(Op.LE, value, high)])

    def _in(self, node: exp.Expr) -> Operand:
        if node.args.get("query"):
            raise self._text.error(node, "a subquery is not supported", "join the relations, or run two queries")
        members = node.expressions
        if not members:
            raise self._text.error(node, "IN needs a list in parentheses", "write IN (1, 2)")
        value = self.operand(node.this)
        return connective(Op.OR, [comparison(Op.EQ, value, self.operand(member)) for member in members])

    def _is(self, node: exp.Expr) -> Operand:
        if not isinstance(node.expression, exp.Null):
            raise self._text.error(node, "IS goes with NULL only", "write IS NULL, IS NOT NULL, or the value itself")
        value = self.operand(node.this)
        if isinstance(value, Untyped) and value.bare is Bare.NULL:
            value = Literal(None, BOOLEAN)
        return Call(Op.IS_NULL, (settle(value),), BOOLEAN)

    def _case(self, node: exp.Expr) -> Operand:
        subject = self.operand(node.this) if node.this is not None else None
        conditions, values = [], []
        for branch in node.args["ifs"]:
            condition = self.operand(branch.this)
            truthful = truth(condition, "WHEN") if subject is None else comparison(Op.EQ, subject, condition)
            conditions.append(truthful)
            values.append(self.operand(branch.args["true"]))
        default = node.args.get("default")
        values.append(NULL if default is None else self.operand(default))
        *chosen, otherwise = meet(values)
        pairs = [part for pair in zip(conditions, chosen, strict=True) for part in pair]
        return Call(Op.CASE, (*pairs, otherwise), otherwise.type)

    # --- functions ---------------------------------------------------------------------------------------------------

    def _cast(self, node: exp.Expr) -> Operand:
        to = node.args["to"]
        parameters = [str(part.this.this) for part in to.expressions if isinstance(part, exp.DataTypeParam)]
        kind = to.args.get("kind")
        name = str(to.this.value) if isinstance(to.this, exp.DType) and kind is None else str(kind or to.this)
        if len(parameters) != len(to.expressions) or to.args.get("nested"):
            raise self._text.error(node, "a nested type is not supported", "use a type of docs/sql.md")
        try:
            target = type_named(name, parameters)
        except SchemaError as error:
            problem, remedy = error.problem, error.remedy
        else:
            return cast(self.operand(node.this), target)
        raise self._text.error(node, problem, remedy)

    def _extract(self, node: exp.Expr) -> Operand:
        unit = str(node.this.name).upper()
        if unit not in EXTRACT_UNITS:
            remedy = f"use one of {', '.join(EXTRACT_UNITS)}"
            raise self._text.error(node, f"EXTRACT knows no {short(unit)}", remedy)
        return apply(FUNCTIONS[unit], [self.operand(node.expression)])

    def _substring(self, node: exp.Expr) -> Operand:
        parts = [node.args[name] for name in ("this", "start", "length") if node.args.get(name) is not None]
        return apply(FUNCTIONS["SUBSTRING"], [self.operand(part) for part in parts])

    def _trim(self, node: exp.Expr) -> Operand:
        return apply(FUNCTIONS["TRIM"], [self.operand(node.this)])

    def _concat(self, node: exp.Expr) -> Operand:
        parts = [self.operand(part) for part in chain(node, exp.DPipe)]
        return apply(FUNCTIONS["CONCAT"], parts)

    def _function(self, node: exp.Expr) -> Operand:
        name = function_name(node)
        if name in AGGREGATES:
            problem = f"{name} stands in {self._where}"
            raise self._text.error(node, problem, "an aggregate is a select item of its own, not part of an expression")
        if name in FORBIDDEN:
            raise self._text.error(node, f"{short(name)} is forbidden: {FORBIDDEN[name]}", "use a column")
        if name == "TUMBLE":
            problem = f"TUMBLE stands in {self._where}"
            raise self._text.error(
                node, problem, "it is a select item or a part of GROUP BY of its own: TUMBLE(1 MINUTE)"
            )
        function = FUNCTIONS.get(SYNONYMS.get(name, name))
        if function is None:
            raise self._text.error(node, f"there is no function {short(name)}", nearest(name, FUNCTIONS, "functions"))
        return apply(function, [self.operand(argument) for argument in node.expressions])


def function_name(node: exp.Expr) -> str:
    return str(node.this.name if isinstance(node.this, exp.Expr) else node.this).upper()


def chain(node: exp.Expr, kind: type[exp.Expr]) -> list[exp.Expr]:
    """The operands of `a AND (b AND c) AND d`, in order, without recursion."""
    parts: list[exp.Expr] = []
    stack = [node]
    while stack:
        part = stack.pop()
        inner = part
        while isinstance(inner, exp.Paren):
            inner = inner.this
        if type(inner) is kind:
            stack += [inner.expression, inner.this]
        else:
            parts.append(part)
    return parts


_Rule = Callable[[ExpressionChecker, exp.Expr], Operand]
_C = ExpressionChecker
_PAIR = frozenset({"this", "expression"})
_RULES: dict[type[exp.Expr], tuple[_Rule, frozenset[str]]] = {
    exp.Paren: (_C._paren, frozenset({"this"})),
    exp.Column: (_C._column, frozenset({"this", "table", "db", "catalog"})),
    exp.Literal: (_C._literal, frozenset({"this", "is_string"})),
    exp.Boolean: (_C._boolean, frozenset({"this"})),
    exp.Null: (_C._null, frozenset()),
    exp.Interval: (_C._interval, frozenset({"this", "unit"})),
    **dict.fromkeys(_COMPARISONS, (_C._comparison, _PAIR)),
    **dict.fromkeys(_ARITHMETIC, (_C._arithmetic, _PAIR | {"typed", "safe"})),
    exp.Neg: (_C._negation, frozenset({"this"})),
    exp.Not: (_C._not, frozenset({"this"})),
    exp.And: (_C._connective, _PAIR),
    exp.Or: (_C._connective, _PAIR),
    exp.Between: (_C._between, frozenset({"this", "low", "high"})),
    exp.In: (_C._in, frozenset({"this", "expressions", "query"})),
    exp.Is: (_C._is, _PAIR),
    exp.Case: (_C._case, frozenset({"this", "ifs", "default"})),
    exp.Cast: (_C._cast, frozenset({"this", "to", "_type"})),
    exp.Extract: (_C._extract, _PAIR),
    exp.Substring: (_C._substring, frozenset({"this", "start", "length"})),
    exp.Trim: (_C._trim, frozenset({"this"})),
    exp.DPipe: (_C._concat, _PAIR | {"safe"}),
    exp.Anonymous: (_C._function, frozenset({"this", "expressions"})),
}
