"""Which conditions drive the index of each side. The sides choose apart: `a.x BETWEEN b.low AND b.high` is one range
over `a.x` where a is stored, and two inequalities where b is.

All equalities make one key. A range costs a binary search and saves up to a whole scan, so the narrowest one is
always taken. A second one needs the index for two inequalities, which touches log² nodes: it is taken when the rows
that the first one leaves are expected to be more than that. What neither expresses exactly is tested on the
candidates.
"""

from __future__ import annotations

from dataclasses import replace

from biclique.index.protocol import IndexKind
from biclique.plan.cost import comparisons
from biclique.plan.draft import Draft, StageDraft
from biclique.plan.key_ranges import Candidate, candidates
from biclique.plan.load import stage_loads
from biclique.plan.model import LEFT, RIGHT, Access
from biclique.plan.selectivity import of_equalities, of_range, of_stage
from biclique.plan.statistics import Selectivities
from biclique.query.expression import Expression


def choose_index(draft: Draft) -> Draft:
    loads = stage_loads(draft.stages, draft.statistics)
    stages = tuple(
        replace(
            stage,
            accesses=tuple(
                access(stage, stored, load[stored].rows, draft.statistics.selectivities) for stored in (LEFT, RIGHT)
            ),
        )
        for stage, load in zip(draft.stages, loads, strict=True)
    )
    return replace(draft, stages=stages)


def access(stage: StageDraft, stored: int, rows: float, assumed: Selectivities) -> Access:
    by_equality = of_equalities(stage, assumed)
    chosen = candidates(stage, stored)[:2]
    if len(chosen) == 2:
        after_first = rows * by_equality * of_range(chosen[0], assumed)
        after_both = min(after_first * of_range(chosen[1], assumed), rows * of_stage(stage, assumed))
        one = IndexKind.EQUALITY_ORDERED if stage.equals else IndexKind.ORDERED
        if comparisons(one, rows, after_first) <= comparisons(IndexKind.DOMINANCE, rows, after_both):
            chosen = chosen[:1]
    return _access(stage, stored, chosen)


def _access(stage: StageDraft, stored: int, chosen: tuple[Candidate, ...]) -> Access:
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
