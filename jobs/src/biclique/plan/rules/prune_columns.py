"""A side keeps the columns that its stage's keys and residual, a later stage, or the result needs, and nothing else.

The columns of this stage's keys are kept on both sides: a joiner computes stored keys and probe keys from the rows it
has.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from biclique.plan.draft import Draft
from biclique.query.expression import Column, Expression, columns_of
from biclique.query.model import Aggregate, GroupKey, Query


def prune_columns(draft: Draft) -> Draft:
    needed = {column for expression in result_expressions(draft.query) for column in columns_of(expression)}
    stages = []
    for stage in reversed(draft.stages):
        needed |= {column for conjunct in stage.conjuncts for column in columns_of(conjunct)}
        left, right = (_in_order(needed, relations) for relations in stage.relations)
        stages.append(replace(stage, columns=(left, right)))
    return replace(draft, stages=tuple(reversed(stages)))


def result_expressions(query: Query) -> Iterator[Expression]:
    yield from query.group_by
    for item in query.items:
        if isinstance(item.value, Aggregate):
            if item.value.argument is not None:
                yield item.value.argument
        elif not isinstance(item.value, GroupKey):
            yield item.value


def _in_order(columns: set[Column], relations: tuple[int, ...]) -> tuple[Column, ...]:
    return tuple(
        sorted((c for c in columns if c.relation in relations), key=lambda c: (relations.index(c.relation), c.field))
    )
