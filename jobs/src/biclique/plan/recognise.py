"""All that a stage's conjuncts say of keys: the rules for equality, band and inequality, in their order."""

from __future__ import annotations

from biclique.plan.draft import StageDraft
from biclique.plan.rules.band import bands_of
from biclique.plan.rules.equality import equalities_of
from biclique.plan.rules.inequality import inequalities_of


def recognised(stage: StageDraft) -> StageDraft:
    return inequalities_of(bands_of(equalities_of(stage)))
