"""Join-matrix: a left tuple goes to all units of one row, a right tuple to all units of one column.

A row is a subgroup, a unit of it is a cell; the unit's number is its column. Both tuples of a pair meet in exactly
one cell, the one where their row and column cross, and each is both stored there and probes there: whichever is newer
finds the other.

While cells join or leave, some are probed but take no stores. Rows and columns are drawn over those that every tuple
can still be stored in: rows of which some cell takes stores, columns that take stores in all those rows. A tuple
visits every cell of its row or column that is probed; where the cell takes no stores it only probes. So under one
table: the older tuple is stored in all storing cells of its line, the newer one probes all cells of its own line,
whose crossing with the older one's is a storing cell; and every other cell lies on only one of the two lines. A cell
that starts to take stores has been given a copy of its row's or column's state first, which is what makes the rule
hold between two versions.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from biclique.core.stamps import Ids
from biclique.routing.contrand import split
from biclique.routing.mix import Salt, draw
from biclique.routing.protocol import Role, Share
from biclique.routing.table import BOTH_SIDES, RoutingTable, Subgroup, UnitId


@dataclass(frozen=True, slots=True)
class Matrix:
    stage: int

    def __call__(
        self, table: RoutingTable, side: int, ids: Ids, hashes: NDArray[np.uint64] | None
    ) -> tuple[Share, ...]:
        """Content decides nothing here: `hashes` is not looked at."""
        if len(ids) == 0:
            return ()
        lines = self._rows(table) if side == 0 else self._columns(table)
        chosen = draw(ids, len(lines), Salt.UNIT)
        storing = {unit for subgroup, units in table.stores.items() if self._mine(subgroup) for unit in units}
        return tuple(
            Share(unit, Role.BOTH if unit in storing else Role.PROBE, rows)
            for n, rows in split(chosen, len(lines))
            for unit in lines[n]
        )

    def _mine(self, subgroup: Subgroup) -> bool:
        return subgroup.stage == self.stage and subgroup.side == BOTH_SIDES

    def _storing_rows(self, table: RoutingTable) -> list[Subgroup]:
        rows = sorted(s for s, units in table.stores.items() if units and self._mine(s))
        assert rows, f"no row of stage {self.stage} takes stores"
        return rows

    def _rows(self, table: RoutingTable) -> list[tuple[UnitId, ...]]:
        return [table.probes[row] for row in self._storing_rows(table)]

    def _columns(self, table: RoutingTable) -> list[tuple[UnitId, ...]]:
        storing = [{unit.number for unit in table.stores[row]} for row in self._storing_rows(table)]
        numbers = sorted(set.intersection(*storing))
        assert numbers, f"no column of stage {self.stage} takes stores in every row"
        probed = [table.probes[row] for row in sorted(s for s in table.probes if self._mine(s))]
        return [tuple(unit for units in probed for unit in units if unit.number == number) for number in numbers]
