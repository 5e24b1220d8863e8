"""The routing table that a query starts with: version 0, laid out as its plan says."""

from __future__ import annotations

from biclique.plan.model import Plan
from biclique.routing.protocol import Strategy
from biclique.routing.table import BOTH_SIDES, RoutingTable, Subgroup, UnitId


def first_table(plan: Plan) -> RoutingTable:
    groups: dict[Subgroup, tuple[UnitId, ...]] = {}
    for stage in plan.stages:
        if stage.strategy is Strategy.MATRIX:
            rows, columns = (side.units for side in stage.sides)
            for row in range(rows):
                subgroup = Subgroup(stage.number, BOTH_SIDES, row)
                groups[subgroup] = tuple(UnitId(subgroup, column) for column in range(columns))
            continue
        for number, side in enumerate(stage.sides):
            for k in range(side.subgroups):
                subgroup = Subgroup(stage.number, number, k)
                groups[subgroup] = tuple(UnitId(subgroup, n) for n in range(side.units))
    return RoutingTable(0, groups, groups, {})
