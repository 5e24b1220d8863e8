"""How long each side keeps a tuple, from the windows of its relations.

A pair of two relations may have two windows: the one of the relation with the earlier time counts. A partial result
does not say which of its parts is the earliest, so three or more relations need one window for all.
"""

from __future__ import annotations

from dataclasses import replace

from biclique.plan.draft import Draft
from biclique.query.errors import QueryError


def windows(draft: Draft) -> Draft:
    relations = draft.query.relations
    for relation in relations:
        if relation.window.tuples is not None:
            raise QueryError(
                f"spec.sources, window of {relation.name}",
                "windows of a number of tuples are not supported",
                "give a window of time",
            )
    times = {relation.window.time_us for relation in relations}
    if len(relations) > 2 and len(times) > 1:
        raise QueryError(
            "spec.sources, window",
            "a join of more than two relations needs one window for all of them",
            "use WITHIN, or give every source the same window",
        )
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
