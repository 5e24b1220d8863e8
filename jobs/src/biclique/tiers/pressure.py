"""How hard memory presses on a unit, and what that changes of its ways. Nothing that it writes may depend on it.

What a unit holds is counted: its state (with the merges of runs that may be under way, so that the count does not jump
when one begins), what it has read and not handled, and what it is about to send. Three marks, as shares of its budget:

| pressure | the unit                                                                                               |
|----------|--------------------------------------------------------------------------------------------------------|
| SLOW     | reads a few records at a time                                                                          |
| SHED     | makes a checkpoint, and keeps little more than the offsets of blocks that it cannot handle yet         |
| STAND    | takes no step that leaves its state greater, but for what its budget still has room for; it reads on   |
|          | for signals, and keeps offsets                                                                         |

A step adds what it stores, and then drops what no later tuple can match: a unit that stands takes it as soon as the
second is no less than the first, so where there is a window it goes on by itself (room.py). Expiry comes in pieces of a
tenth of a window: there is room for about one between the last mark and the budget. The budget is not passed by more
than one step, which is bounded by a share of it, or is one epoch.

The host adds what it sees from outside (the process's memory and its limit): the greater pressure counts. Nothing
waits for memory to come free of itself: a unit that stands still, and why, is told (hosts/units/condition.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

SLOW_AT, SHED_AT, STAND_AT = 0.7, 0.8, 0.9
STEP_SHARE = 32  # of the budget, for the rows of one step: stored with their index they are some three times as many
BATCH_SHARE = 16  # for the matches of one transaction
SLOW_READS = 8  # of the records that one read brings otherwise, one in so many


class Pressure(IntEnum):
    NONE = 0
    SLOW = 1
    SHED = 2
    STAND = 3


@dataclass(frozen=True, slots=True)
class MemoryBudget:
    """Of one unit: `joiners.memory`, or its share of a tier's."""

    bytes: int

    def pressure(self, held: int) -> Pressure:
        if held >= STAND_AT * self.bytes:
            return Pressure.STAND
        if held >= SHED_AT * self.bytes:
            return Pressure.SHED
        return Pressure.SLOW if held >= SLOW_AT * self.bytes else Pressure.NONE

    @property
    def step_bytes(self) -> int:
        return self.bytes // STEP_SHARE

    @property
    def batch_bytes(self) -> int:
        return self.bytes // BATCH_SHARE


def records_of_a_read(pressure: Pressure, records: int) -> int:
    return records if pressure is Pressure.NONE else max(1, records // SLOW_READS)


class Pressed:
    """What a unit's logic remembers of it. `budget` None: nothing is counted, and only the host can press."""

    __slots__ = ("_armed", "budget", "host", "level", "seal_due", "standing")

    def __init__(self, budget: MemoryBudget | None) -> None:
        self.budget = budget
        self.level, self._armed = Pressure.NONE, True
        self.host = Pressure.NONE  # as it sees it
        self.seal_due = False  # once each time that it comes so far
        self.standing = False  # there was something to do, and no room for it

    def feel(self, held: int, host: Pressure) -> None:
        """Once a turn."""
        own = Pressure.NONE if self.budget is None else self.budget.pressure(held)
        self.level, self.host = max(own, host), host
        if self.level is Pressure.NONE:
            self._armed = True
        elif self.level >= Pressure.SHED and self._armed:
            self._armed, self.seal_due = False, True
        self.standing = self.standing and self.level is Pressure.STAND

    def sealed(self) -> None:
        self.seal_due = False
