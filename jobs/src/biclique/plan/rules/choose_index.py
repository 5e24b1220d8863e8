"""Which conditions drive the index of each side. The sides choose apart: `a.x BETWEEN b.low AND b.high` is one range
over `a.x` where a is stored, and two inequalities where b is.

All equalities make one key. A range costs a binary search and saves up to a whole scan, so the narrowest one is always
taken. A second one needs the index for two inequalities, whose probes cost a little more for each match and nothing for
what does not match: it is taken unless the first alone is expected to leave few rows; of several pairs, the one that
leaves the fewest (`b.low <= a.x` and `a.x <= b.high` belong together). What the keys do not express
exactly is tested on the candidates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

from biclique.index.protocol import IndexKind
from biclique.plan.draft import Draft, StageDraft
from biclique.plan.key_ranges import Candidate, candidates
from biclique.plan.load import stage_loads
from biclique.plan.model import LEFT, RIGHT, Access
from biclique.plan.selectivity import share_of
from biclique.plan.statistics import Selectivities
from biclique.query.expression import Expression

FEW_ROWS = 256  # tested in about 5 microseconds, less than a few walks through a hierarchy of summaries


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
    found = candidates(stage, stored)
    if len(found) < 2 or rows * share_of(stage, found[:1], assumed) <= FEW_ROWS:
        return _access(stage, stored, found[:1])
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
