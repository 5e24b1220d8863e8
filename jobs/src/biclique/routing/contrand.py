"""ContRand, the routing of a biclique: content picks a subgroup, chance picks a unit in it.

A side has d subgroups, the other e. A tuple is stored in one unit: subgroup by its routing hash, unit by a mix of its
id. It probes every unit of the other side's subgroup number (same hash, modulo e). Hash routing is ContRand with one
unit in each subgroup, random routing is ContRand with one subgroup a side; a side whose content cannot decide (no
routing hash) draws its subgroup by id and probes all subgroups of the other side.

Why the cell rule holds. Let `old` and `new` match. Both sides have hashes, or neither has. With hashes: a match
implies equal routing values, hence equal hashes, so the subgroup that `new` probes is the one that `old` chose.
Without: `new` probes all subgroups. Either way `new` probes all of `table.probes` of old's subgroup, `old` is stored
in exactly one of its `table.stores`, and the table keeps stores ⊂ probes (probe before store, stop storing before
stop probing): one unit, once. The number of subgroups is the same in every version: units join and leave, subgroups
do not.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from biclique.core.stamps import Ids
from biclique.routing.mix import Salt, draw
from biclique.routing.protocol import Role, Share
from biclique.routing.table import RoutingTable, Subgroup, UnitId

Numbers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class ContRand:
    stage: int

    def __call__(
        self, table: RoutingTable, side: int, ids: Ids, hashes: NDArray[np.uint64] | None
    ) -> tuple[Share, ...]:
        if len(ids) == 0:
            return ()
        own, other = _subgroups(table, self.stage, side), _subgroups(table, self.stage, 1 - side)
        content: NDArray[np.uint64] | Ids = ids if hashes is None else hashes
        assert len(content) == len(ids)
        return (
            *_stores(table, own, draw(content, len(own), Salt.SUBGROUP), ids),
            *_probes(table, other, None if hashes is None else draw(hashes, len(other), Salt.SUBGROUP)),
        )


def _subgroups(table: RoutingTable, stage: int, side: int) -> tuple[Subgroup, ...]:
    found = tuple(sorted(s for s in table.probes if s.stage == stage and s.side == side))
    assert found and [s.number for s in found] == list(range(len(found))), f"stage {stage}, side {side}: {found}"
    return found


def _stores(table: RoutingTable, own: tuple[Subgroup, ...], chosen: Numbers, ids: Ids) -> list[Share]:
    """The unit is drawn over the units that take stores now, never over those that are only probed."""
    units: list[UnitId] = []
    starts, counts = np.empty(len(own), np.int64), np.empty(len(own), np.int64)
    for k, subgroup in enumerate(own):
        members = table.stores[subgroup]
        assert members, f"no unit of {subgroup} takes stores"
        starts[k], counts[k] = len(units), len(members)
        units.extend(members)
    if len(set(counts.tolist())) == 1:
        unit = starts[chosen] + draw(ids, int(counts[0]), Salt.UNIT)
    else:
        unit = np.empty(len(ids), np.int64)
        for k, count in enumerate(counts.tolist()):
            of_subgroup = chosen == k
            unit[of_subgroup] = starts[k] + draw(ids[of_subgroup], count, Salt.UNIT)
    return [Share(units[n], Role.STORE, rows) for n, rows in split(unit, len(units))]


def _probes(table: RoutingTable, other: tuple[Subgroup, ...], chosen: Numbers | None) -> list[Share]:
    if chosen is None:
        return [Share(unit, Role.PROBE, None) for subgroup in other for unit in table.probes[subgroup]]
    return [Share(unit, Role.PROBE, rows) for k, rows in split(chosen, len(other)) for unit in table.probes[other[k]]]


def split(chosen: Numbers, count: int) -> list[tuple[int, Numbers | None]]:
    """The rows of each choice that occurs, in row order (a block is in stamp order, and so must each share of it be);
    None: all rows."""
    if count == 1:
        return [(0, None)]
    narrow = chosen.astype(np.uint16) if count <= 1 << 16 else chosen  # 16-bit keys are sorted by radix
    order = np.argsort(narrow, kind="stable")
    ends = np.cumsum(np.bincount(chosen, minlength=count))
    starts = ends - np.diff(ends, prepend=0)
    return [
        (n, None if starts[n] == 0 and ends[n] == len(chosen) else order[starts[n] : ends[n]])
        for n in np.flatnonzero(ends > starts).tolist()
    ]
