"""What a routing strategy decides: for each row of a side, the units that store it and the units that it probes.

The cell rule, tested for every strategy: for every pair old < new that can match, exactly one unit is both in
store(old) and in probe(new). A decision depends on nothing but the row (its id, its routing hash) and the table: a
replay repeats it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from biclique.core.stamps import Ids
from biclique.routing.table import RoutingTable, UnitId


class Strategy(Enum):
    BICLIQUE = "biclique"  # ContRand: content picks a subgroup, chance a unit in it
    HASH = "hash"  # ContRand with one unit in each subgroup
    RANDOM = "random"  # ContRand with one subgroup a side
    MATRIX = "matrix"  # join-matrix: a left tuple goes to a row of units, a right one to a column


class Role(Enum):
    STORE = "store"
    PROBE = "probe"
    BOTH = "both"  # join-matrix: the unit stores the row and probes its other store with it


@dataclass(frozen=True, slots=True)
class Share:
    """Rows for one unit; `rows` None: all of them."""

    unit: UnitId
    role: Role
    rows: NDArray[np.int64] | None


class Router(Protocol):
    def __call__(
        self, table: RoutingTable, side: int, ids: Ids, hashes: NDArray[np.uint64] | None
    ) -> tuple[Share, ...]:
        """`hashes`: of the routing expressions (None: the side has none). Shares without rows are left out."""
