"""How a generation of a unit begins: its first progress is written, and the older generations are fenced.

Whoever does it may crash between any two steps and do it again, and two may do it at once: the progress is looked at
once more behind the fence, so that one who comes late finds what another has begun and leaves it as it is (it has
fenced the unit, which its driver starts again). Only a unit whose birth is over may be named by a routing table: what
is sent to it comes behind `lower`.

It takes over how many expressions have failed so far: behind the fence, the generation before can add no more.
"""

from __future__ import annotations

from biclique.routing.table import RoutingTable, UnitId
from biclique.tiers.effects import Commit, End, Fence, Loop, Outcome, ReadProgress
from biclique.tiers.inbox import joiner_producer
from biclique.tiers.progress import JoinerProgress, start_of


def birth(unit: UnitId, table: RoutingTable, lower: int) -> Loop:
    """`table`: the version that first names the unit; `lower`: the end of its partition. Ends as STOPPED when the
    unit's progress is there."""
    owner, fence = joiner_producer(unit), joiner_producer(unit._replace(generation=0))
    if (yield ReadProgress(owner)) is not None:
        return End.STOPPED
    yield Fence(fence)
    if (yield ReadProgress(owner)) is not None:
        return End.STOPPED
    before: JoinerProgress | None = None
    if unit.generation > 0:
        before = yield ReadProgress(joiner_producer(unit._replace(generation=unit.generation - 1)))
    failed = 0 if before is None else before.failed
    outcome: Outcome = yield Commit(fence, owner, (), start_of(unit, table, lower, failed))
    match outcome:
        case Outcome.COMMITTED:
            return End.STOPPED
        case Outcome.FENCED:
            return End.FENCED
        case Outcome.UNKNOWN:
            return End.UNKNOWN
