"""How many subgroups a side has, and how many units each starts with.

`joiners.replicas` is the units of each subgroup where the manifest names the subgroups. Where it does not, the planner
divides as many units among the subgroups it chooses, so that its choice costs no more units than one subgroup would. A
matrix has as many units in all, in the squarest grid, where its copies are fewest.
"""

from __future__ import annotations

from dataclasses import replace

from biclique.plan.cost import square
from biclique.plan.draft import Draft, StageDraft
from biclique.plan.model import LEFT, RIGHT
from biclique.plan.rules.strategy import heaviest_key, subgroups_for
from biclique.query.errors import QueryError
from biclique.routing.protocol import Strategy

PLACE = "spec.plan.subgroups"


def subgroups(draft: Draft) -> Draft:
    return replace(draft, stages=tuple(_divided(stage, draft) for stage in draft.stages))


def _divided(stage: StageDraft, draft: Draft) -> StageDraft:
    units = draft.query.hints.units
    if stage.strategy is Strategy.MATRIX:
        return replace(stage, units=square(2 * units))
    left, right = _side(stage, LEFT, draft), _side(stage, RIGHT, draft)
    return replace(stage, subgroups=(left[0], right[0]), units=(left[1], right[1]))


def _side(stage: StageDraft, side: int, draft: Draft) -> tuple[int, int]:
    """(subgroups, units of each)."""
    units, relations = draft.query.hints.units, stage.relations[side]
    hinted = dict(draft.query.hints.subgroups).get(draft.query.relations[relations[0]].name)
    if len(relations) > 1:
        hinted = None  # partial results have no name to ask by
    match stage.strategy:
        case Strategy.RANDOM:
            if hinted not in (None, 1):
                raise QueryError(PLACE, f"random routing has one subgroup a side, not {hinted}", "use biclique")
            return 1, units
        case Strategy.HASH:
            return hinted or units, 1
        case _ if hinted is not None:
            return hinted, units
        case _:
            chosen = subgroups_for(units, heaviest_key(stage, draft.statistics)) if stage.equals else 1
            return chosen, units // chosen
