"""Which routing a stage uses: what the manifest says, else a biclique, by hash where an equality spreads the tuples.

By equation 5 a biclique of m and n units sends each tuple of R to n/e + 1 units: the more subgroups, the fewer
messages, down to two with one unit in each. Only a key that very many tuples share speaks against it: its subgroup
would hold more than its part, which is what chance inside a subgroup cures.
"""

from __future__ import annotations

from dataclasses import replace

from biclique.plan.draft import Draft, StageDraft
from biclique.plan.model import Reason, Topic
from biclique.plan.statistics import Statistics
from biclique.query.errors import QueryError
from biclique.routing.protocol import Strategy

PLACE = "spec.plan.strategy"
OVERLOAD = 1.25  # a subgroup may hold this many times its even share


def strategy(draft: Draft) -> Draft:
    hinted = draft.query.hints.strategy
    wanted = None if hinted is None else Strategy(hinted)
    if wanted is Strategy.HASH and not any(stage.equals for stage in draft.stages):
        raise QueryError(PLACE, "hash needs an equality to route by, and the query has none", "use biclique or random")
    stages = []
    for stage in draft.stages:
        chosen, why = choose(stage, wanted, draft)
        stages.append(replace(stage, strategy=chosen))
        draft = draft.because(Reason(Topic.ROUTING, why, stage.number))
    return replace(draft, stages=tuple(stages))


def choose(stage: StageDraft, wanted: Strategy | None, draft: Draft) -> tuple[Strategy, str]:
    if wanted is Strategy.HASH and not stage.equals:
        return Strategy.RANDOM, "random: hash was asked for, and no equality joins these relations"
    if wanted is not None:
        return wanted, f"{wanted.value}: asked for in spec.plan"
    units, hinted = draft.query.hints.units, dict(draft.query.hints.subgroups)
    if not stage.equals:
        return Strategy.BICLIQUE, "biclique: no equality to route by, so each tuple is stored by chance"
    if hinted:
        return Strategy.BICLIQUE, "biclique: an equality picks one of the subgroups asked for in spec.plan"
    if units == 1:
        return Strategy.BICLIQUE, "biclique: one unit a side needs no choice"
    if subgroups_for(units, heaviest_key(stage, draft.statistics)) == units:
        return Strategy.HASH, "hash: an equality picks the unit, so a tuple visits two units, the fewest possible"
    return Strategy.BICLIQUE, "biclique: an equality picks the subgroup, chance the unit, as one key has many tuples"


def heaviest_key(stage: StageDraft, statistics: Statistics) -> float:
    return max(statistics.relations[r].heaviest_key for relations in stage.relations for r in relations)


def subgroups_for(units: int, heaviest: float) -> int:
    """The most subgroups of equal size of which none is overloaded by the heaviest key."""
    fitting = [d for d in range(1, units + 1) if units % d == 0 and (d == 1 or heaviest * d <= OVERLOAD)]
    return max(fitting)
