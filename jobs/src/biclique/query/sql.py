"""The SQL of a query, checked clause by clause against the schemas of its sources.

What comes out satisfies query/expression.py's promises and holds every conjunct of ON and WHERE exactly once: as a
filter where one relation decides it, else as a predicate. User text goes no further than this.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from sqlglot import exp

from biclique.query.aggregates import aggregate_of, is_aggregate, output_type
from biclique.query.conversion import short
from biclique.query.dialect import Statement, parse
from biclique.query.expression import Call, Column, Expression, Op, relations_of
from biclique.query.expressions import ExpressionChecker, chain, function_name, refuse_depth
from biclique.query.model import Field, GroupKey, Item
from biclique.query.schema import is_plain_name
from biclique.query.scope import Scope, ScopeRelation, nearest, same_name
from biclique.query.text import SqlText
from biclique.query.types import TIMESTAMP

RELATIONS_MIN, RELATIONS_MAX = 2, 5
ITEMS_MAX = 1000
RESULT_ID = "_result_id"
RELATION_NAME = r"[A-Za-z_][A-Za-z0-9_-]{0,62}"  # it becomes part of the names of topics and of files

_CLAUSES = {"expressions", "from_", "joins", "where", "group", "distinct"}
_REFUSED_CLAUSES = {
    "with_": ("WITH is not supported", "join the relations themselves"),
    "having": ("HAVING is not supported", "filter the results where they are read"),
    "order": ("ORDER BY is not supported: a result has no end to sort up to", "sort where the results are read"),
    "limit": ("LIMIT is not supported: which results come first is not part of a query's meaning", "leave it out"),
    "offset": ("OFFSET is not supported", "leave it out"),
    "windows": ("WINDOW is not supported", "aggregate with GROUP BY"),
    "qualify": ("QUALIFY is not supported", "leave it out"),
    "into": ("INTO is not supported", "name the place in spec.output"),
    "hint": ("a hint is not supported", "use spec.plan"),
    "laterals": ("LATERAL is not supported", "join the relations themselves"),
    "sort": ("SORT BY is not supported", "leave it out"),
    "kind": ("SELECT AS is not supported", "list the columns"),
    "locks": ("FOR UPDATE is not supported", "leave it out"),
}


@dataclass(frozen=True, slots=True)
class Checked:
    """A statement after all checks. `relations`: (alias, source position) in FROM order."""

    relations: tuple[tuple[str, int], ...]
    filters: tuple[tuple[Expression, ...], ...]
    predicates: tuple[Expression, ...]
    items: tuple[Item, ...]
    distinct: bool
    group_by: tuple[Expression, ...]
    aggregating: bool
    within_us: int | None
    tumble_us: int | None


def check_sql(sql: str, sources: Sequence[tuple[str, tuple[Field, ...]]]) -> Checked:
    """`sources`: name and fields of each, in manifest order."""
    statement = parse(sql)
    return _Select(statement, sources).checked()


class _Select:
    def __init__(self, statement: Statement, sources: Sequence[tuple[str, tuple[Field, ...]]]) -> None:
        self._statement, self._sources = statement, sources
        self._text: SqlText = statement.text
        self._root: exp.Select = statement.select
        refuse_depth(self._text, self._root)
        self._refuse_clauses()
        self._relations = self._from()
        self._scope = Scope(tuple(ScopeRelation(name, sources[source][1]) for name, source in self._relations))

    def checked(self) -> Checked:
        filters: list[list[Expression]] = [[] for _ in self._relations]
        predicates: list[Expression] = []
        for conjunct in self._conjuncts():
            owners = relations_of(conjunct)
            (filters[min(owners)] if len(owners) == 1 else predicates).append(conjunct)
        group_by = self._group_by()
        items, aggregating = self._items(group_by)
        distinct = bool(self._root.args.get("distinct"))
        if distinct and aggregating:
            raise self._text.error_at(
                0, "DISTINCT and an aggregate stand in one SELECT", "leave out DISTINCT: groups are distinct"
            )
        self._unique(items)
        return Checked(
            self._relations,
            tuple(tuple(conjuncts) for conjuncts in filters),
            tuple(predicates),
            tuple(item for item, _ in items),
            distinct,
            tuple(group_by),
            aggregating,
            self._statement.within_us,
            self._statement.tumble_us,
        )

    # --- clauses and relations ---------------------------------------------------------------------------------------

    def _refuse_clauses(self) -> None:
        for name, value in self._root.args.items():
            if not value or name in _CLAUSES:
                continue
            problem, remedy = _REFUSED_CLAUSES.get(name, (f"{short(name.upper())} is not supported", "leave it out"))
            node = value[0] if isinstance(value, list) else value
            if isinstance(node, exp.Expr):
                raise self._text.error(node, problem, remedy)
            raise self._text.error_at(0, problem, remedy)
        distinct = self._root.args.get("distinct")
        if distinct is not None and distinct.args.get("on"):
            raise self._text.error(
                distinct, "DISTINCT ON is not supported", "write DISTINCT, or aggregate with GROUP BY"
            )

    def _from(self) -> tuple[tuple[str, int], ...]:
        start = self._root.args.get("from_")
        if start is None:
            raise self._text.error_at(len(self._text.text), "there is no FROM", "name two to five relations to join")
        tables = [start.this, *(join.this for join in self._joins())]
        if len(tables) < RELATIONS_MIN or len(tables) > RELATIONS_MAX:
            count = "one relation" if len(tables) == 1 else f"{len(tables)} relations"
            raise self._text.error(start, f"FROM has {count}", f"join {RELATIONS_MIN} to {RELATIONS_MAX}")
        found: list[tuple[str, int]] = []
        for table in tables:
            name, source = self._relation(table)
            if any(name.casefold() == other.casefold() for other, _ in found):
                raise self._text.error(
                    table, f"the relation {short(name)} stands twice", f"give one an alias: {short(name)} AS other"
                )
            found.append((name, source))
        return tuple(found)

    def _relation(self, table: exp.Expr) -> tuple[str, int]:
        if isinstance(table, exp.Subquery | exp.Query):
            raise self._text.error(table, "a subquery is not supported", "join the relations, or run two queries")
        if not isinstance(table, exp.Table) or not isinstance(table.this, exp.Identifier):
            raise self._text.error(table, f"{self._text.quote(table)} is no relation", "name a source")
        alias = table.args.get("alias")
        extra = [name for name, value in table.args.items() if value and name not in {"this", "alias"}]
        if extra or (alias is not None and not _is_plain_alias(alias)):
            raise self._text.error(
                table, f"this form of {self._text.quote(table)} is not supported", "write source AS alias"
            )
        if alias is not None and not re.fullmatch(RELATION_NAME, alias.this.name):
            remedy = "use a letter, then up to 62 letters, digits, _ and -"
            raise self._text.error(alias, f"{short(alias.this.name)} cannot name a relation", remedy)
        for position, (name, _) in enumerate(self._sources):
            if same_name(table.this, name):
                return (alias.this.name if alias is not None else name), position
        names = [name for name, _ in self._sources]
        raise self._text.error(table, f"there is no source {short(table.name)}", nearest(table.name, names, "sources"))

    def _joins(self) -> list[exp.Join]:
        joins: list[exp.Join] = self._root.args.get("joins") or []
        for join in joins:
            side, method = str(join.args.get("side") or ""), str(join.args.get("method") or "")
            kind = str(join.args.get("kind") or "").upper()
            if side or kind == "OUTER":
                word = f"{side} {kind}".strip().upper()
                raise self._text.error(
                    join, f"{word} JOIN is not supported", "only inner joins are exact on streams: write JOIN"
                )
            if method or kind not in {"", "INNER", "CROSS"}:
                raise self._text.error(
                    join, f"{(method or kind).upper()} JOIN is not supported", "write JOIN ... ON ..."
                )
            if join.args.get("using"):
                raise self._text.error(join, "USING is not supported", "write ON a.x = b.x")
            if kind == "CROSS" and join.args.get("on"):
                raise self._text.error(join, "CROSS JOIN has an ON", "write JOIN")
            extra = [name for name, value in join.args.items() if value and name not in {"this", "kind", "on"}]
            if extra:
                raise self._text.error(
                    join, f"this form of {self._text.quote(join)} is not supported", "write JOIN ... ON ..."
                )
        return joins

    def _conjuncts(self) -> Iterator[Expression]:
        for position, join in enumerate(self._joins()):
            if join.args.get("on") is not None:
                visible = Scope(self._scope.relations[: position + 2])
                yield from _split(ExpressionChecker(self._text, visible, "ON"), join.args["on"])
        where = self._root.args.get("where")
        if where is not None:
            yield from _split(ExpressionChecker(self._text, self._scope, "WHERE"), where.this)

    # --- groups and the select list ----------------------------------------------------------------------------------

    def _group_by(self) -> list[Expression]:
        group = self._root.args.get("group")
        if group is None:
            return []
        if any(value for name, value in group.args.items() if name != "expressions"):
            raise self._text.error(group, "this form of GROUP BY is not supported", "list columns or expressions")
        if not group.expressions:
            raise self._text.error_at(len(self._text.text), "GROUP BY has no columns", "list them")
        checker = ExpressionChecker(self._text, self._scope, "GROUP BY")
        keys: list[Expression] = []
        for node in group.expressions:
            if isinstance(node, exp.Rollup | exp.Cube | exp.GroupingSets):
                raise self._text.error(node, "grouping sets are not supported", "run one query for each")
            if isinstance(node, exp.Literal):
                raise self._text.error(node, "GROUP BY goes by a literal", "name a column or an expression")
            meant = self._by_alias(node)
            if _is_tumble(_unaliased(meant)):
                continue  # by its alias, beside the TUMBLE of GROUP BY itself
            key = checker.value(meant)
            output_type(self._text, node, key.type)
            if key not in keys:
                keys.append(key)
        return keys

    def _by_alias(self, node: exp.Expr) -> exp.Expr:
        """A bare name that is no column but names a select item means that item."""
        if not isinstance(node, exp.Column) or node.args.get("table") or not isinstance(node.this, exp.Identifier):
            return node
        columns = [field.name for relation in self._scope.relations for field in relation.fields]
        if any(same_name(node.this, name) for name in columns):
            return node
        for item in self._root.expressions:
            if isinstance(item, exp.Alias) and same_name(node.this, item.alias):
                return item.this if isinstance(item.this, exp.Expr) else node
        return node

    def _items(self, group_by: list[Expression]) -> tuple[list[tuple[Item, exp.Expr]], bool]:
        nodes = self._root.expressions
        if not nodes:
            raise self._text.error_at(0, "the select list is empty", "list columns, or write *")
        aggregating = any(is_aggregate(_unaliased(node)) for node in nodes)
        grouped = bool(self._root.args.get("group")) or self._statement.tumble_us is not None
        if grouped and not aggregating:
            raise self._text.error_at(0, "GROUP BY without an aggregate", "add COUNT(*), or write SELECT DISTINCT")
        items: list[tuple[Item, exp.Expr]] = []
        for node in nodes:
            items += self._item(node, len(items) + 1, group_by if aggregating else None)
            if len(items) > ITEMS_MAX:
                raise self._text.error(node, f"the result has more than {ITEMS_MAX} columns", "list fewer")
        return items, aggregating

    def _item(
        self, node: exp.Expr, position: int, group_by: list[Expression] | None
    ) -> Iterator[tuple[Item, exp.Expr]]:
        inner = _unaliased(node)
        if isinstance(inner, exp.Star) or (isinstance(inner, exp.Column) and isinstance(inner.this, exp.Star)):
            yield from self._star(node, inner, group_by)
            return
        checker = ExpressionChecker(self._text, self._scope, "an expression of the select list")
        if _is_tumble(inner) and group_by is not None and self._statement.tumble_us is not None:
            key = GroupKey(len(group_by), TIMESTAMP)  # of the length of GROUP BY's: query/dialect.py
            yield Item(_name(node, inner, position, str), key, key.type), node
            return
        if is_aggregate(inner):
            aggregate = aggregate_of(self._text, checker, inner)
            yield Item(_name(node, inner, position, str), aggregate, aggregate.type), node
            return
        value = checker.value(inner)
        output_type(self._text, inner, value.type)
        name = _name(node, inner, position, partial(self._column_name, inner))
        if group_by is None:
            yield Item(name, value, value.type), node
        elif value in group_by:
            yield Item(name, GroupKey(group_by.index(value), value.type), value.type), node
        else:
            raise self._text.error(
                inner,
                f"{self._text.quote(inner)} is neither grouped nor aggregated",
                "add it to GROUP BY, or aggregate it",
            )

    def _column_name(self, node: exp.Expr) -> str:
        assert isinstance(node, exp.Column)
        column = self._scope.column(self._text, node)
        return self._scope.relations[column.relation].fields[column.field].name

    def _star(
        self, node: exp.Expr, inner: exp.Expr, group_by: list[Expression] | None
    ) -> Iterator[tuple[Item, exp.Expr]]:
        star = inner.this if isinstance(inner, exp.Column) else inner
        if isinstance(node, exp.Alias) or any(star.args.values()):
            raise self._text.error(node, "* takes no alias and leaves nothing out", "list the columns")
        if group_by is not None:
            raise self._text.error(
                node, "* and an aggregate stand in one SELECT", "list the columns that are grouped by"
            )
        table = inner.args.get("table") if isinstance(inner, exp.Column) else None
        chosen = range(len(self._scope.relations)) if table is None else [self._scope.relation(self._text, table)]
        for relation in chosen:
            for position, field in enumerate(self._scope.relations[relation].fields):
                yield Item(field.name, Column(relation, position, field.type), field.type), node

    def _unique(self, items: list[tuple[Item, exp.Expr]]) -> None:
        seen: set[str] = set()
        for item, node in items:
            folded = item.name.casefold()
            if not is_plain_name(item.name):
                raise self._text.error(node, f"{short(item.name)} cannot name a column", "give it a plain alias")
            if folded == RESULT_ID:
                raise self._text.error(node, f"the column name {RESULT_ID} is reserved", "give it another alias")
            if folded in seen:
                remedy = (
                    "list the columns and give one an alias" if _is_star(node) else "give one an alias: ... AS other"
                )
                raise self._text.error(node, f"the result has two columns {short(item.name)}", remedy)
            seen.add(folded)


def _split(checker: ExpressionChecker, node: exp.Expr) -> Iterator[Expression]:
    """The conjuncts of a predicate. Each part of a top-level AND is checked, and bounded, for itself."""
    for part in chain(node, exp.And):
        stack = [checker.predicate(part)]
        while stack:
            expression = stack.pop()
            if isinstance(expression, Call) and expression.op is Op.AND:
                stack += reversed(expression.args)
            else:
                yield expression


def _is_plain_alias(alias: exp.Expr) -> bool:
    return isinstance(alias.this, exp.Identifier) and not alias.args.get("columns")


def _unaliased(node: exp.Expr) -> exp.Expr:
    inner = node.this if isinstance(node, exp.Alias) else node
    while isinstance(inner, exp.Paren):
        inner = inner.this
    return inner if isinstance(inner, exp.Expr) else node


def _is_tumble(node: exp.Expr) -> bool:
    """What query/dialect.py leaves of a TUMBLE in the select list."""
    if not isinstance(node, exp.Anonymous) or isinstance(node.this, exp.Expr):  # a quoted name is no word of ours
        return False
    return function_name(node) == "TUMBLE" and not node.expressions


def _is_star(node: exp.Expr) -> bool:
    return isinstance(node, exp.Star) or (isinstance(node, exp.Column) and isinstance(node.this, exp.Star))


def _name(node: exp.Expr, inner: exp.Expr, position: int, of_column: Callable[[], str]) -> str:
    """The alias; else the column's own name, or the function's in small letters; else column_n."""
    if isinstance(node, exp.Alias):
        return str(node.alias)
    if isinstance(inner, exp.Column):
        return of_column()
    if isinstance(inner, exp.Anonymous):
        return function_name(inner).lower()
    return f"column_{position}"
