"""`NOT (a < b)` is `a >= b`, and `NOT (p OR q)` is two conjuncts: the other rules look at plain comparisons only.

Exact in three-valued logic: the order of values is total (NaN included), so a comparison and its opposite are null or
failed together and otherwise one is true; and a conjunct only counts when it is true, which is all that De Morgan
needs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from biclique.plan.draft import Draft
from biclique.query.expression import Call, Expression, Op

OPPOSITE = {Op.EQ: Op.NE, Op.NE: Op.EQ, Op.LT: Op.GE, Op.GE: Op.LT, Op.GT: Op.LE, Op.LE: Op.GT}


def normalise(draft: Draft) -> Draft:
    return replace(draft, conjuncts=normalised(draft.conjuncts))


def normalised(predicates: Sequence[Expression]) -> tuple[Expression, ...]:
    """Conjuncts that together are true exactly when the given ones are; the same one is not said twice."""
    return tuple(dict.fromkeys(part for predicate in predicates for part in _conjuncts(predicate)))


def _conjuncts(predicate: Expression) -> Iterator[Expression]:
    predicate = _positive(predicate)
    if isinstance(predicate, Call) and predicate.op is Op.AND:
        for arg in predicate.args:
            yield from _conjuncts(arg)
    else:
        yield predicate


def _positive(predicate: Expression) -> Expression:
    if not isinstance(predicate, Call) or predicate.op is not Op.NOT:
        return predicate
    inner = predicate.args[0]
    if not isinstance(inner, Call):
        return predicate
    if inner.op in OPPOSITE:
        return Call(OPPOSITE[inner.op], inner.args, inner.type)
    if inner.op is Op.NOT:
        return _positive(inner.args[0])
    if inner.op in (Op.AND, Op.OR):
        parts = tuple(_positive(Call(Op.NOT, (arg,), inner.type)) for arg in inner.args)
        return Call(Op.OR if inner.op is Op.AND else Op.AND, parts, inner.type)
    return predicate
