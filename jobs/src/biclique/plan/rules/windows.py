"""How long each side keeps a tuple, from the windows of its relations.

A pair of two relations may have two windows: the one of the relation with the earlier time counts. A partial result
does not say which of its parts is the earliest, so the checker gives three or more relations one window. A window of a
number of tuples is for two relations only; the one of the relation with the smaller stamp counts.
"""

from __future__ import annotations

from dataclasses import replace

from biclique.plan.draft import Draft
from biclique.plan.model import LEFT, RIGHT, CountWindow
from biclique.query.model import Query


def windows(draft: Draft) -> Draft:
    relations = draft.query.relations
    assert len(relations) == 2 or not draft.query.counted
    assert len(relations) == 2 or len({relation.window for relation in relations}) == 1
    stages = []
    for stage in draft.stages:
        left, right = stage.relations[LEFT][0], stage.relations[RIGHT][0]
        times = relations[left].window.time_us, relations[right].window.time_us
        counts = _count_window(draft.query, left), _count_window(draft.query, right)
        stages.append(replace(stage, windows_us=times, count_windows=counts))
    return replace(draft, stages=tuple(stages))


def _count_window(query: Query, relation: int) -> CountWindow | None:
    tuples = query.relations[relation].window.tuples
    return None if tuples is None else CountWindow(tuples, query.counted.index(relation))
