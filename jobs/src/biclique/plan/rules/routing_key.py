"""What content decides where a tuple goes: the values of all its equalities together.

Every pair that can match has equal values on both sides, so equal hashes; more equalities spread the tuples over more
subgroups. A stage without an equality routes by chance: a range of values may have to visit every subgroup.
"""

from __future__ import annotations

from dataclasses import replace

from biclique.plan.draft import Draft
from biclique.plan.model import LEFT, RIGHT


def routing_key(draft: Draft) -> Draft:
    return replace(
        draft,
        stages=tuple(
            replace(
                stage,
                routes=(
                    tuple(equal.sides[LEFT] for equal in stage.equals),
                    tuple(equal.sides[RIGHT] for equal in stage.equals),
                ),
            )
            for stage in draft.stages
        ),
    )
