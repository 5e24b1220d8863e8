"""`f(left) = g(right)` is an equality of keys.

One key of a number, date, time or boolean is exact. A string's key, and the one key that stands for several
equalities, is a hash: equal values have equal keys, and so may others, so these conjuncts are tested again on the
candidates.
"""

from __future__ import annotations

from dataclasses import replace

from biclique.plan.draft import Draft, Equal, StageDraft
from biclique.plan.model import LEFT, RIGHT
from biclique.plan.shift import unwidened, widened
from biclique.query.expression import Call, Op
from biclique.query.types import Kind


def equality(draft: Draft) -> Draft:
    return replace(draft, stages=tuple(equalities_of(stage) for stage in draft.stages))


def equalities_of(stage: StageDraft) -> StageDraft:
    found: list[Equal] = []
    for number, conjunct in enumerate(stage.conjuncts):
        if isinstance(conjunct, Call) and conjunct.op is Op.EQ:
            one, other = conjunct.args
            sides = stage.side_of(one), stage.side_of(other)
            if sides == (RIGHT, LEFT):
                one, other = other, one
            if {*sides} == {LEFT, RIGHT}:
                narrow = unwidened(one), unwidened(other)
                same = narrow[LEFT].type == narrow[RIGHT].type
                pair = narrow if same else (widened(one), widened(other))
                found.append(Equal(number, pair, one.type.kind is not Kind.STRING))
    exact = len(found) == 1
    return replace(stage, equals=tuple(replace(e, exact=exact and e.exact) for e in found))
