"""How a dispatcher sends the tuples of each relation now: whole, or keys first (plan/transport.py)."""

from __future__ import annotations

from biclique.plan.model import Plan
from biclique.plan.statistics import default_statistics
from biclique.plan.transport import begins_whole


class Transports:
    def __init__(self, plan: Plan) -> None:
        assumed = default_statistics(plan.query)
        self._whole = {r: begins_whole(plan, *plan.entry(r), assumed) for r in range(len(plan.query.relations))}

    def whole(self, relation: int) -> bool:
        return self._whole[relation]
