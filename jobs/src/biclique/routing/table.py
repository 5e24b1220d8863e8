"""The routing table: which units exist, who stores, who is probed, and what has moved. One immutable value a version.

The operator (or the embedded engine, or the simulator) writes versions; dispatchers apply one at an epoch boundary and
announce (version, first epoch) in their signals. S(v), the switch-over point of v, is the greatest first epoch of v
over all senders; version v+1 carries S(v) in `switch` and is applied only in epochs above it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

BOTH_SIDES = 2  # the `side` of a unit of a join-matrix, which stores both


class Subgroup(NamedTuple):
    stage: int
    side: int  # LEFT, RIGHT, or BOTH_SIDES
    number: int  # for a join-matrix: the row

    def __str__(self) -> str:
        return f"{self.stage}{'LRM'[self.side]}{self.number}"


class UnitId(NamedTuple):
    subgroup: Subgroup
    number: int  # for a join-matrix: the column
    generation: int = 0

    def __str__(self) -> str:
        return f"{self.subgroup}.{self.number}" + (f"#{self.generation}" if self.generation else "")


class Move(NamedTuple):
    """All tuples of `source` with stamps up to S(version) belong to `target` for probes above S(version)."""

    source: UnitId
    target: UnitId
    version: int


@dataclass(frozen=True, slots=True)
class RoutingTable:
    """`stores` and `probes`: the units of each subgroup that stores, and probes, go to.

    `switch`: S(v) of all earlier versions, over all senders. `stage_switch`: the same over the senders of one stage
    alone (the dispatchers, and the units of the stage before), by (version, stage): what that stage's units can tell
    from their own logs. `born`: the version in which a unit was first probed; 0 where it is missing.
    """

    version: int
    stores: Mapping[Subgroup, tuple[UnitId, ...]]
    probes: Mapping[Subgroup, tuple[UnitId, ...]]
    switch: Mapping[int, int]
    moves: tuple[Move, ...] = ()
    stage_switch: Mapping[tuple[int, int], int] = field(default_factory=dict)
    born: Mapping[UnitId, int] = field(default_factory=dict)
    _units: tuple[UnitId, ...] = field(init=False, repr=False, compare=False)  # asked for with every signal

    def __post_init__(self) -> None:
        seen = {unit for table in (self.stores, self.probes) for units in table.values() for unit in units}
        object.__setattr__(self, "_units", tuple(sorted(seen)))

    def units(self) -> tuple[UnitId, ...]:
        """Every unit that is stored to or probed: all of them get every signal."""
        return self._units

    def units_of_stage(self, stage: int) -> tuple[UnitId, ...]:
        return tuple(unit for unit in self.units() if unit.subgroup.stage == stage)

    def senders_to(self, stage: int, version: int) -> tuple[UnitId, ...]:
        """The units of the stage before that were probed before `version`: they announce it to this stage's units."""
        return tuple(unit for unit in self.units_of_stage(stage - 1) if self.born.get(unit, 0) < version)
