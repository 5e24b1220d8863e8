"""How long each side keeps a tuple, from the windows of its relations.

A pair of two relations may have two windows: the one of the relation with the earlier time counts. A partial result
does not say which of its parts is the earliest, so the checker gives three or more relations one window.
"""

from __future__ import annotations

from dataclasses import replace

from biclique.plan.draft import Draft


def windows(draft: Draft) -> Draft:
    relations = draft.query.relations
    assert all(relation.window.tuples is None for relation in relations)
    assert len(relations) == 2 or len({relation.window for relation in relations}) == 1
    stages = tuple(
        replace(
            stage,
            windows_us=(
                relations[stage.relations[0][0]].window.time_us,
                relations[stage.relations[1][0]].window.time_us,
            ),
        )
        for stage in draft.stages
    )
    return replace(draft, stages=stages)
