"""The order of an n-way join: left-deep, chosen by what all probes of all stages cost together.

At most five relations: all orders are weighed. An order that needs a cross product loses to any that needs fewer;
among the rest the least comparisons a second wins (a partial result counts as one more: it is sent, stored and probed
with), and with equal costs the order of FROM.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

from biclique.plan.amounts import number
from biclique.plan.cost import Chain, Probing, comparisons
from biclique.plan.draft import Draft, StageDraft
from biclique.plan.load import results, stage_loads
from biclique.plan.model import LEFT, RIGHT, Reason, Topic
from biclique.plan.recognise import recognised
from biclique.plan.rules.choose_index import access
from biclique.plan.rules.place_predicates import cascade
from biclique.plan.selectivity import first_share, key_share, of_stage
from biclique.plan.statistics import Statistics

Cost = tuple[int, float]  # cross products, comparisons a second


def join_order(draft: Draft) -> Draft:
    relations = range(len(draft.query.relations))
    if len(relations) == 2:
        return replace(draft, order=(0, 1))
    orders = [order for order in permutations(relations) if order[0] < order[1]]
    costs = {order: cost(order, draft) for order in orders}
    best = min(orders, key=lambda order: (costs[order], order))
    names = [draft.query.relations[r].name for r in best]
    from_order = costs[tuple(relations)]
    text = f"joined in the order {', '.join(names)}: {number(costs[best][1])} comparisons/s expected"
    if best != tuple(relations):
        crossing = f", {from_order[0]} cross product(s)" if from_order[0] else ""
        text += f" ({number(from_order[1])} in the order of FROM{crossing})"
    if costs[best][0]:
        text += f"; {costs[best][0]} cross product(s) cannot be avoided"
    return replace(draft, order=best).because(Reason(Topic.ORDER, text))


def cost(order: tuple[int, ...], draft: Draft) -> Cost:
    stages = tuple(recognised(stage) for stage in cascade(order, draft.conjuncts))
    loads = stage_loads(stages, draft.statistics)
    total = 0.0
    for stage, load in zip(stages, loads, strict=True):
        for stored in (LEFT, RIGHT):
            total += load[1 - stored].rate * comparisons_of(stage, stored, load[stored].rows, draft.statistics)
        if stage is not stages[-1]:
            total += results(load, of_stage(stage, draft.statistics.selectivities))[1]
    return sum(not stage.conjuncts for stage in stages), total


def comparisons_of(stage: StageDraft, stored: int, rows: float, statistics: Statistics) -> float:
    """Of one probe of all units of the side, were they one, and one sorted run."""
    chosen = access(stage, stored, statistics.selectivities)
    share = key_share(stage, stored, chosen, statistics.selectivities)
    narrowed = first_share(stage, stored, chosen, statistics.selectivities)
    return comparisons(Probing(chosen.kind, narrowed=narrowed, found=share), Chain(1.0, rows, 0.0, 0.0))
