"""From a checked query to its plan: an ordered tuple of rules, each a function from draft to draft.

The same query and statistics always give the same plan. Whatever the statistics say, every plan finds exactly the
pairs of the query (tests/property/test_plan.py); they decide only what it costs.
"""

from __future__ import annotations

from biclique.plan.draft import Draft, StageDraft
from biclique.plan.model import LEFT, RIGHT, Plan, Side, Stage
from biclique.plan.rules.band import band
from biclique.plan.rules.choose_index import choose_index
from biclique.plan.rules.equality import equality
from biclique.plan.rules.inequality import inequality
from biclique.plan.rules.join_order import join_order
from biclique.plan.rules.normalise import normalise
from biclique.plan.rules.place_predicates import place_predicates
from biclique.plan.rules.prune_columns import prune_columns
from biclique.plan.rules.routing_key import routing_key
from biclique.plan.rules.strategy import strategy
from biclique.plan.rules.subgroups import subgroups
from biclique.plan.rules.tiers import tiers
from biclique.plan.rules.windows import windows
from biclique.plan.statistics import Statistics, default_statistics
from biclique.plan.transport import with_transport
from biclique.query.model import Query

RULES = (
    normalise,
    join_order,
    place_predicates,
    windows,
    equality,
    band,
    inequality,
    prune_columns,
    choose_index,
    routing_key,
    strategy,
    subgroups,
    tiers,
)


def make_plan(query: Query, statistics: Statistics | None = None) -> Plan:
    """QueryError where the query's hints contradict it, or it asks for what no plan gives."""
    draft = Draft(query, statistics or default_statistics(query), query.predicates)
    for rule in RULES:
        draft = rule(draft)
    plan = Plan(
        query,
        draft.order,
        tuple(_stage(stage) for stage in draft.stages),
        draft.dispatchers,
        draft.mergers,
        draft.reasons,
    )
    return with_transport(plan, draft.statistics)


def _stage(draft: StageDraft) -> Stage:
    left, right = (
        Side(
            draft.relations[side],
            draft.columns[side],
            draft.accesses[side],
            draft.routes[side],
            draft.windows_us[side],
            draft.subgroups[side],
            draft.units[side],
            draft.count_windows[side],
        )
        for side in (LEFT, RIGHT)
    )
    return Stage(draft.number, draft.strategy, (left, right))
