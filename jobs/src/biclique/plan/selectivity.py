"""How many pairs a stage's conjuncts let through, as a share of all pairs: the product over its conditions.

Two bounds that enclose one expression count as one band or range, whichever side is stored: the share of matching
pairs is a property of the predicate, not of how it is looked up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from biclique.plan.draft import Bound, Equal, StageDraft
from biclique.plan.key_ranges import Candidate, Width, candidates
from biclique.plan.model import LEFT, RIGHT, Access, KeyRange
from biclique.plan.statistics import Selectivities
from biclique.query.expression import Call, Expression, Op, relations_of
from biclique.query.types import Kind


def of_range(candidate: Candidate, assumed: Selectivities) -> float:
    match candidate.width:
        case Width.BAND:
            return assumed.band
        case Width.RANGE:
            return assumed.range
        case Width.OPEN:
            return assumed.inequality


def of_equality(equal: Equal, assumed: Selectivities) -> float:
    if equal.sides[LEFT].type.kind is Kind.BOOLEAN:
        return 0.5
    return assumed.equal(relation for side in equal.sides for relation in relations_of(side))


def of_equalities(stage: StageDraft, assumed: Selectivities) -> float:
    """The most selective counts in full, each further one at a third: columns of one key are seldom independent."""
    shares = sorted(of_equality(equal, assumed) for equal in stage.equals)
    return (shares[0] if shares else 1.0) * assumed.inequality ** max(len(shares) - 1, 0)


def of_stage(stage: StageDraft, assumed: Selectivities) -> float:
    share = of_terms(stage, assumed)
    for number in set(range(len(stage.conjuncts))) - stage.recognised():
        conjunct = stage.conjuncts[number]
        unequal = isinstance(conjunct, Call) and conjunct.op is Op.NE
        share *= assumed.unequal if unequal else assumed.other
    return share


def key_share(stage: StageDraft, stored: int, access: Access, assumed: Selectivities) -> float:
    """The share of the stored rows that fit a probe's keys: what an index hands on to the residual."""
    ranges = [key for key in (access.first, access.second) if key is not None]
    return _share(stage, stored, ranges, assumed)


def first_share(stage: StageDraft, stored: int, access: Access, assumed: Selectivities) -> float:
    """The share of the stored rows that fit the equalities and the first range: what a hierarchy is walked over."""
    return _share(stage, stored, [] if access.first is None else [access.first], assumed)


def _share(stage: StageDraft, stored: int, ranges: Sequence[KeyRange], assumed: Selectivities) -> float:
    return share_of(stage, [c for c in candidates(stage, stored) if c.range in ranges], assumed)


def share_of(stage: StageDraft, chosen: Sequence[Candidate], assumed: Selectivities) -> float:
    """Of the equalities and these ranges alone."""
    used = sorted({bound for candidate in chosen for bound in candidate.uses})
    return of_terms(replace(stage, bounds=tuple(stage.bounds[n] for n in used)), assumed)


def of_terms(stage: StageDraft, assumed: Selectivities) -> float:
    """Of the equalities and bounds alone."""
    share = of_equalities(stage, assumed)
    counted: set[int] = set()
    enclosing = [c for side in (LEFT, RIGHT) for c in candidates(stage, side) if c.width is not Width.OPEN]
    for candidate in sorted(enclosing, key=lambda c: list(Width).index(c.width)):
        if not candidate.uses & counted:
            counted |= candidate.uses
            share *= of_range(candidate, assumed)
    return share * assumed.inequality ** len(_independent(stage.bounds, counted))


def _independent(bounds: tuple[Bound, ...], counted: set[int]) -> set[tuple[Expression, Expression]]:
    """Further bounds between two expressions that already are bounded by each other say little."""
    used = {(bounds[n].small, bounds[n].large) for n in counted}
    return {(b.small, b.large) for n, b in enumerate(bounds) if n not in counted} - used
