"""`f(left) < g(right)` is one bound, exact for every type whose keys are; a string's key is a prefix, so its bound lets
ties through and the conjunct is tested again.

A difference with a literal at one end only (`x - y <= c`) is a bound too. The subtraction as written may overflow
where the bound holds, and a pair whose predicate fails is no match: unless the operands are too narrow to overflow,
the conjunct is tested again. For DOUBLE only the upper end is one: a NaN difference satisfies the lower one, and no
range of keys finds it.
"""

from __future__ import annotations

from dataclasses import replace

from biclique.plan.difference import differences_of
from biclique.plan.draft import Bound, Draft, StageDraft
from biclique.plan.model import LEFT, RIGHT
from biclique.plan.rules.band import bounds_of
from biclique.plan.shift import widened
from biclique.query.expression import Call, Expression, Op
from biclique.query.types import Kind

NARROW_BITS = 32  # the difference of two such integers always fits 64 bits


def inequality(draft: Draft) -> Draft:
    return replace(draft, stages=tuple(inequalities_of(stage) for stage in draft.stages))


def inequalities_of(stage: StageDraft) -> StageDraft:
    found = [bound for number, c in enumerate(stage.conjuncts) for bound in _direct(stage, number, c)]
    taken = stage.recognised()
    for d in differences_of(stage):
        if d.conjunct not in taken and (d.kind is not Kind.DOUBLE or d.nan_fails):
            found.extend(bounds_of(d, exact=d.certain and _narrow(d.left) and _narrow(d.right)))
    return replace(stage, bounds=stage.bounds + tuple(found))


def _direct(stage: StageDraft, number: int, conjunct: Expression) -> tuple[Bound, ...]:
    if not isinstance(conjunct, Call) or conjunct.op not in (Op.LT, Op.LE, Op.GT, Op.GE):
        return ()
    small, large = conjunct.args
    if conjunct.op in (Op.GT, Op.GE):
        small, large = large, small
    sides = stage.side_of(small), stage.side_of(large)
    if sides == (LEFT, RIGHT) or sides == (RIGHT, LEFT):
        side = LEFT if sides[0] == LEFT else RIGHT
        is_exact = small.type.kind is not Kind.STRING
        strict = is_exact and conjunct.op in (Op.LT, Op.GT)
        return (Bound(number, widened(small), widened(large), side, strict, exact=is_exact),)
    return ()


def _narrow(expression: Expression) -> bool:
    """Of a narrow integer type before it was cast, by the checker or by `widened`."""
    while isinstance(expression, Call) and expression.op is Op.CAST and expression.type.kind is Kind.INTEGER:
        expression = expression.args[0]
        if expression.type.kind is Kind.INTEGER and expression.type.bits <= NARROW_BITS:
            return True
    return False
