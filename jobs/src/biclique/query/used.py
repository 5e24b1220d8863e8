"""Which fields of a source its query uses: only these are read, and source blocks carry them in this order."""

from __future__ import annotations

from biclique.query.expression import Expression, columns_of
from biclique.query.model import Aggregate, GroupKey, Query


def expressions_of(query: Query) -> tuple[Expression, ...]:
    """Every expression of the query, wherever it stands."""
    found: list[Expression] = [e for conjuncts in query.filters for e in conjuncts]
    found += [*query.predicates, *query.group_by]
    for item in query.items:
        if isinstance(item.value, Aggregate):
            found += [item.value.argument] if item.value.argument is not None else []
        elif not isinstance(item.value, GroupKey):
            found.append(item.value)
    return tuple(found)


def used_fields(query: Query, source: int) -> tuple[int, ...]:
    """Positions in `Source.fields`, ascending. The event time travels apart, unless an expression names it."""
    return tuple(
        sorted(
            {
                column.field
                for expression in expressions_of(query)
                for column in columns_of(expression)
                if query.relations[column.relation].source == source
            }
        )
    )
