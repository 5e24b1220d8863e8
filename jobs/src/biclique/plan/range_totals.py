"""Where counts and sums of stored ranges answer an aggregating query, so that no pair is looked at.

They do for probes into a side if its keys alone decide what matches, the group follows from the probing tuple, and each
aggregate is a COUNT, SUM or AVG of a stored column or anything of the probing tuple. The tiers go by it, and so does
the cost model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from biclique.index.protocol import IndexKind
from biclique.plan.model import LEFT, RIGHT, Stage
from biclique.query.expression import Column, relations_of
from biclique.query.model import Aggregate, AggregateFunction, Query
from biclique.query.types import Kind
from biclique.routing.protocol import Strategy

# As index/build.py, which tests/unit/plan/test_cost.py compares.
SUMMABLE_INDEXES = frozenset((IndexKind.EQUALITY, IndexKind.ORDERED, IndexKind.EQUALITY_ORDERED))
SUMMABLE = frozenset((Kind.INTEGER, Kind.DOUBLE, Kind.DECIMAL))
FROM_SUMS = frozenset((AggregateFunction.COUNT, AggregateFunction.SUM, AggregateFunction.AVG))


@dataclass(frozen=True, slots=True)
class SideTotals:
    """`summed`: the columns of the stored side of which range sums are kept, by position; `places`: for each select
    item its place among them, None for what the probing tuple tells."""

    summed: tuple[int, ...]
    places: tuple[int | None, ...]


def range_totals(query: Query, stage: Stage) -> tuple[SideTotals | None, SideTotals | None]:
    """Of the last stage, by the side that is stored; None: pairs are found. A unit of a matrix is probed by both sides
    in one step, and goes by totals only if it can for both."""
    left, right = _of_side(query, stage, LEFT), _of_side(query, stage, RIGHT)
    if stage.strategy is Strategy.MATRIX and (left is None or right is None):
        return None, None
    return left, right


def _of_side(query: Query, stage: Stage, stored_side: int) -> SideTotals | None:
    stored, probing = stage.sides[stored_side], stage.sides[1 - stored_side]
    if not query.aggregating or query.tumble_us is not None:
        return None
    if stored.access.residual or stored.access.kind not in SUMMABLE_INDEXES:
        return None
    own = frozenset(probing.relations)
    if not all(relations_of(key) <= own for key in query.group_by):
        return None
    places: list[int | None] = []
    summed: list[int] = []
    for item in query.items:
        column = _summable(item.value, stored.columns)
        if column is not None:
            if column not in summed:
                summed.append(column)
            places.append(summed.index(column))
            continue
        argument = item.value.argument if isinstance(item.value, Aggregate) else None
        if argument is not None and not relations_of(argument) <= own:
            return None
        places.append(None)
    return SideTotals(tuple(summed), tuple(places))


def _summable(value: object, columns: Sequence[Column]) -> int | None:
    if not isinstance(value, Aggregate) or value.function not in FROM_SUMS or not isinstance(value.argument, Column):
        return None
    if value.argument not in columns or value.argument.type.kind not in SUMMABLE:
        return None
    return columns.index(value.argument)
