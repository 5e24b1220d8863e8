"""A difference with literals at both ends, in one conjunct or in several, is a band: one key range on either side.

Exact types: a pair inside the band has a difference that fits 64 bits, so no subtraction overflowed, and adding the
literal to the other side instead changes nothing. DOUBLE: `fl(x - y) <= c` says `x - y < c'` for any c' above c, so
`x < y + c'`, and as x is a double and rounding keeps order, `x <= fl(y + c')`: ends moved outwards lose nothing, and
the conjunct is tested again. A NaN difference satisfies `>= c` alone, but no conjunct with an upper end, so inside a
band it may be lost.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from math import inf, nextafter

from biclique.plan.difference import Difference, differences_of
from biclique.plan.draft import Bound, Draft, StageDraft
from biclique.plan.model import LEFT, RIGHT
from biclique.query.expression import Expression
from biclique.query.types import Kind


def band(draft: Draft) -> Draft:
    return replace(draft, stages=tuple(bands_of(stage) for stage in draft.stages))


def bands_of(stage: StageDraft) -> StageDraft:
    groups: dict[tuple[Expression, Expression], list[Difference]] = defaultdict(list)
    for difference in differences_of(stage):
        groups[difference.left, difference.right].append(difference)
    found: list[Bound] = []
    for group in groups.values():
        if any(d.low is not None for d in group) and any(d.high is not None for d in group):
            if group[0].kind is Kind.DOUBLE and not any(d.nan_fails for d in group):
                continue
            for d in group:
                found.extend(bounds_of(d, exact=d.certain))
    return replace(stage, bounds=stage.bounds + tuple(found))


def bounds_of(d: Difference, exact: bool) -> tuple[Bound, ...]:
    low, high = d.low, d.high
    if d.kind is Kind.DOUBLE:
        low = None if low is None else nextafter(low - abs(low) * 1e-12, -inf)
        high = None if high is None else nextafter(high + abs(high) * 1e-12, inf)
    bounds: list[Bound] = []
    if high is not None:
        bounds.append(Bound(d.conjunct, d.left, d.right, LEFT, shift=high, exact=exact))
    if low is not None:
        bounds.append(Bound(d.conjunct, d.right, d.left, RIGHT, shift=-low, exact=exact))
    return tuple(bounds)
