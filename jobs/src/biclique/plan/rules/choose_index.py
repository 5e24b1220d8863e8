"""Which conditions drive the index of each side. The sides choose apart: `a.x BETWEEN b.low AND b.high` is one range
over `a.x` where a is stored, and two inequalities where b is.

All equalities make one key. Of the ranges two are taken wherever there are two, whatever the assumed statistics say of
the first: what they assume, no data has promised, and where each of two inequalities passes half of all pairs and both
together none, testing the second row by row is a scan. The index for two inequalities costs a probe a few comparisons
more and some bytes a row. Of several pairs it is the one that is expected to leave the fewest (`b.low <= a.x` and
`a.x <= b.high` belong together). What the keys do not express exactly is tested on the candidates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

from biclique.index.protocol import IndexKind
from biclique.plan.draft import Draft, StageDraft
from biclique.plan.key_ranges import Candidate, candidates
from biclique.plan.model import LEFT, RIGHT, Access
from biclique.plan.selectivity import share_of
from biclique.plan.statistics import Selectivities
from biclique.query.expression import Expression


def choose_index(draft: Draft) -> Draft:
    assumed = draft.statistics.selectivities
    stages = tuple(
        replace(stage, accesses=tuple(access(stage, stored, assumed) for stored in (LEFT, RIGHT)))
        for stage in draft.stages
    )
    return replace(draft, stages=stages)


def access(stage: StageDraft, stored: int, assumed: Selectivities) -> Access:
    found = candidates(stage, stored)
    if len(found) < 2:
        return _access(stage, stored, found)
    pairs = list(combinations(found, 2))
    return _access(stage, stored, min(pairs, key=lambda pair: share_of(stage, pair, assumed)))


def _access(stage: StageDraft, stored: int, chosen: Sequence[Candidate]) -> Access:
    match bool(stage.equals), len(chosen):
        case False, 0:
            kind = IndexKind.SCAN
        case True, 0:
            kind = IndexKind.EQUALITY
        case False, 1:
            kind = IndexKind.ORDERED
        case True, 1:
            kind = IndexKind.EQUALITY_ORDERED
        case _:
            kind = IndexKind.DOMINANCE
    ranges = [candidate.range for candidate in chosen]
    return Access(
        kind,
        tuple((equal.sides[stored], equal.sides[1 - stored]) for equal in stage.equals),
        ranges[0] if ranges else None,
        ranges[1] if len(ranges) > 1 else None,
        residual(stage, frozenset(n for c in chosen if not c.loose for n in c.uses)),
    )


def residual(stage: StageDraft, expressed: frozenset[int]) -> tuple[Expression, ...]:
    """The conjuncts of which some part is not in the keys, or is there inexactly."""
    loose = {number for number in range(len(stage.conjuncts)) if number not in stage.recognised()}
    loose |= {equal.conjunct for equal in stage.equals if not equal.exact}
    loose |= {bound.conjunct for n, bound in enumerate(stage.bounds) if n not in expressed or not bound.exact}
    return tuple(conjunct for number, conjunct in enumerate(stage.conjuncts) if number in loose)
