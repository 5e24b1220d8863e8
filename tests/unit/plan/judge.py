"""Judges a plan pair by pair, by the plain evaluator: it must neither lose nor add one.

Keys that are not exact (hashes, prefixes, shifted DOUBLEs) are read in both ways: as strictly as they may be, to see
that no match is lost, and as if they let everything through, to see that the residual alone holds back what must not
pass.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import product

from biclique.plan.model import LEFT, RIGHT, Access, KeyRange, Plan, Stage
from biclique.query.expression import Column, columns_of
from biclique.query.model import Aggregate, GroupKey
from biclique.query.types import Kind, Type
from tests.model.domains import column
from tests.model.evaluate import FAILED, Value, evaluate, holds, rank

ROWS = 4
Row = Mapping[Column, Value]


def random_rows(rng: random.Random, types: Sequence[Type], relations: int) -> list[list[Row]]:
    rows: list[list[Row]] = []
    for relation in range(relations):
        own = [Column(relation, field, type_) for field, type_ in enumerate(types)]
        extreme = rng.choice((0.0, 0.1, 0.5))
        values = [column(rng, c.type, ROWS, nulls=0.1, extreme=extreme) for c in own]
        rows.append([{c: v[n] for c, v in zip(own, values, strict=True)} for n in range(ROWS)])
    return rows


# --- the twin of an index --------------------------------------------------------------------------------------------


def lets_through(access: Access, stored: Row, probe: Row, generous: bool) -> bool:
    """`generous`: inexact keys let everything through; otherwise only what they must."""
    inexact = len(access.equal) > 1
    for of_stored, of_probe in access.equal:
        left, right = evaluate(of_stored, stored), evaluate(of_probe, probe)
        if missing(left) or missing(right):
            return False
        if not (generous and (inexact or of_stored.type.kind is Kind.STRING)) and rank(left) != rank(right):
            return False
    return all(in_range(r, stored, probe, generous) for r in (access.first, access.second) if r is not None)


def missing(found: Value) -> bool:
    return found is None or found is FAILED


def in_range(key: KeyRange, stored: Row, probe: Row, generous: bool) -> bool:
    held = evaluate(key.stored, stored)
    for bound, shift, strict, sign in (
        (key.low, key.low_shift, key.low_strict, 1),
        (key.high, key.high_shift, key.high_strict, -1),
    ):
        if bound is None:
            continue
        end = evaluate(bound, probe)
        if missing(held) or missing(end):
            return False
        kind = key.stored.type.kind
        assert bound.type.kind is kind and bound.type.scale == key.stored.type.scale
        if generous and (kind is Kind.STRING or (kind is Kind.DOUBLE and shift)):
            continue
        if not reaches(held, end, shift, strict, sign):
            return False
    return True


def reaches(held: Value, end: Value, shift: int | float, strict: bool, sign: int) -> bool:
    """held >= end + shift for sign 1, held <= end + shift for -1; shifted DOUBLEs with the margin that keys.py adds."""
    if isinstance(end, float) and shift and math.isfinite(end) and math.isfinite(shift):
        if not math.isfinite(held):
            return rank(held) > rank(end) if sign == 1 else rank(held) < rank(end)
        margin = Fraction(2) ** -52 * (abs(Fraction(end)) + abs(Fraction(shift)))
        return sign * (Fraction(held) - Fraction(end) - Fraction(shift)) >= -margin
    target = end if not shift else end + shift
    if strict:
        return rank(held) > rank(target) if sign == 1 else rank(held) < rank(target)
    return rank(held) >= rank(target) if sign == 1 else rank(held) <= rank(target)


# --- judging ---------------------------------------------------------------------------------------------------------


def passes(stage: Stage, pair: tuple[Row, Row]) -> bool:
    """Whether the stage joins the two: whichever of them is stored, and however generous the keys are."""
    kept = [{c: row[c] for c in side.columns} for row, side in zip(pair, stage.sides, strict=True)]
    answers = set()
    for stored, generous in product((LEFT, RIGHT), (False, True)):
        access = stage.sides[stored].access
        found = lets_through(access, kept[stored], kept[1 - stored], generous)
        answers.add(found and all(holds(p, {**kept[LEFT], **kept[RIGHT]}) for p in access.residual))
    assert len(answers) == 1, ("the ways disagree", stage.number, stage.sides[LEFT].access, stage.sides[RIGHT].access)
    if answers == {True}:
        routes = [[rank(evaluate(e, row)) for e in side.route] for row, side in zip(kept, stage.sides, strict=True)]
        assert routes[LEFT] == routes[RIGHT], "a pair that matches would be routed apart"
    return answers == {True}


def judge(plan: Plan, rows: list[list[Row]]) -> int:
    """The number of results; raises where the cascade and the predicates disagree."""
    partial: list[tuple[Row, ...]] = [(row,) for row in rows[plan.order[0]]]
    for stage in plan.stages:
        right = rows[stage.sides[RIGHT].relations[0]]
        partial = [(*left, row) for left in partial for row in right if passes(stage, (merged(left), row))]
    everything = product(*(rows[relation] for relation in plan.order))
    assert partial == [r for r in everything if all(holds(p, merged(r)) for p in plan.query.predicates)]
    assert needed_by_result(plan) <= {c for side in plan.stages[-1].sides for c in side.columns}
    return len(partial)


def needed_by_result(plan: Plan) -> set[Column]:
    values = [item.value for item in plan.query.items if not isinstance(item.value, GroupKey)]
    arguments = [v.argument if isinstance(v, Aggregate) else v for v in values]
    return {c for e in (*arguments, *plan.query.group_by) if e is not None for c in columns_of(e)}


def merged(parts: tuple[Row, ...]) -> Row:
    return {c: v for part in parts for c, v in part.items()}
