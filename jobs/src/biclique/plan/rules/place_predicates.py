"""Stage k joins what the first k+1 relations of the order have made with the next one. A predicate is tested in the
first stage where all its relations are present: any later would carry pairs along that are to be thrown away."""

from __future__ import annotations

from dataclasses import replace

from biclique.plan.draft import Draft, StageDraft
from biclique.query.expression import Expression, relations_of


def place_predicates(draft: Draft) -> Draft:
    return replace(draft, stages=cascade(draft.order, draft.conjuncts))


def cascade(order: tuple[int, ...], conjuncts: tuple[Expression, ...]) -> tuple[StageDraft, ...]:
    stages: list[StageDraft] = []
    open_ = conjuncts
    for number in range(len(order) - 1):
        present = set(order[: number + 2])
        here = tuple(c for c in open_ if relations_of(c) <= present)
        open_ = tuple(c for c in open_ if c not in here)
        stages.append(StageDraft(number, (order[: number + 1], (order[number + 1],)), here))
    assert not open_
    return tuple(stages)
