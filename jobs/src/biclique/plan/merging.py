"""What the mergers hold: groups, at most as many as there are results to come from, and as values of the keys.

A relation's part of a key has at most as many values as the relation has rows stored, or as its equality keys are
said to have where those are the part. Groups that a time closes are counted for two windows: one that fills, and one
that lateness keeps open.
"""

from __future__ import annotations

from dataclasses import dataclass

from biclique.plan.cost import groups_bytes
from biclique.plan.estimate import estimate
from biclique.plan.model import Plan
from biclique.plan.statistics import Statistics
from biclique.query.expression import Expression, relations_of
from biclique.query.model import Aggregate, AggregateFunction, GroupKey

OPEN_WINDOWS = 2


@dataclass(frozen=True, slots=True)
class MergerEstimate:
    """Of all mergers together, at most."""

    groups: float
    bytes: float


def merger_estimate(plan: Plan, statistics: Statistics) -> MergerEstimate | None:
    """None: the plan has no merger."""
    if not plan.mergers:
        return None
    query, last = plan.query, estimate(plan, statistics)[-1]
    results = last.results_rows
    if query.tumble_us is not None:
        results = last.results_per_s * OPEN_WINDOWS * query.tumble_us / 1_000_000
    keys = query.group_by
    if not query.aggregating:
        keys = tuple(item.value for item in query.items if not isinstance(item.value, Aggregate | GroupKey))
    groups = max(min(results, _values(plan, keys, statistics)), 1.0)
    if query.tumble_us is not None:
        groups = max(min(results, OPEN_WINDOWS * _values(plan, keys, statistics)), 1.0)
    aggregates = [item.value for item in query.items if isinstance(item.value, Aggregate)]
    distinct = sum(
        min(results, groups * _values(plan, (value.argument,), statistics))
        for value in aggregates
        if value.function is AggregateFunction.COUNT_DISTINCT and value.argument is not None
    )
    return MergerEstimate(groups, groups_bytes(groups, len(query.items) if query.aggregating else 0, distinct))


def _values(plan: Plan, keys: tuple[Expression, ...], statistics: Statistics) -> float:
    """Of all these expressions together, at most."""
    values = 1.0
    for relation in frozenset[int]().union(*(relations_of(key) for key in keys)):
        values *= _of_relation(plan, relation, keys, statistics)
    return values


def _of_relation(plan: Plan, relation: int, keys: tuple[Expression, ...], statistics: Statistics) -> float:
    distinct = statistics.selectivities.distinct
    rows = statistics.relations[relation].rows
    if relation >= len(distinct) or not distinct[relation]:
        return rows
    equal = {stored for stage in plan.stages for side in stage.sides for stored, _ in side.access.equal}
    own = [key for key in keys if relation in relations_of(key)]
    return min(rows, distinct[relation]) if all(key in equal for key in own) else rows
