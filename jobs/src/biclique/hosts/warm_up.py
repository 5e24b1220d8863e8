"""A first run of the very same loops on a handful of made-up rows, while Java starts: what numba compiles for a
query, or loads from its cache, is then there before the first real row.

It helps or it does nothing. A query may be such that made-up rows fail where real ones do not (a SUM that overflows):
then the warm-up ends there, and the run begins. It has tiers, a store and a log of its own, so nothing of it is
counted. Rows are so few that even if a condition held for every combination of them, the results would be at most
RESULTS_MAX.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from biclique.core.rows import Vector
from biclique.hosts.local_tiers import PARTITION, EngineClock, LocalTiers
from biclique.plan.model import Plan
from biclique.ports.memory import MemoryStore
from biclique.query.types import Kind, Type
from biclique.query.used import used_fields
from biclique.tiers.messages import Topic
from biclique.tiers.shuffler import Shuffler

RESULTS_MAX = 1 << 14
TURNS = 2  # the second probes what the first has stored
_DTYPES = {8: np.int8, 16: np.int16, 32: np.int32, 64: np.int64}


def warm_up(plan: Plan) -> None:
    """Never raises."""
    try:
        run_made_up_rows(plan)
    except Exception:
        return  # the rows are ours: what is wrong with the query, if anything, shows with the user's


def run_made_up_rows(plan: Plan) -> LocalTiers:
    """The tiers behind the run."""
    tiers = LocalTiers(plan, MemoryStore(), 1, None, EngineClock(), hold=False)
    rows = rows_of_a_turn(len(plan.query.relations))
    for turn in range(TURNS):
        for number, source in enumerate(plan.query.sources):
            columns = [made_up(source.fields[position].type, rows) for position in used_fields(plan.query, number)]
            offsets = np.arange(turn * rows, (turn + 1) * rows)
            block = Shuffler(plan.query, number).pack(PARTITION, turn * rows - 1, offsets, offsets.copy(), columns)
            tiers.feed(block)
        tiers.run_until_idle()
    tiers.reach_end()
    tiers.finish()
    tiers.seal()
    for topic in (Topic.OUTPUT, Topic.LATE, Topic.DEAD):
        for _ in tiers.take(topic):
            pass
    return tiers


def rows_of_a_turn(relations: int) -> int:
    """As many as may all meet: 64 for two relations, 12 for three, 5 for four, 3 for five."""
    rows = 1
    while (TURNS * (rows + 1)) ** relations <= RESULTS_MAX:
        rows += 1
    return rows


def made_up(kind: Type, rows: int) -> Vector:
    numbers = np.arange(rows) % 7
    match kind.kind:
        case Kind.STRING:
            return Vector(pa.array([str(n) for n in numbers.tolist()], pa.string()))
        case Kind.BOOLEAN:
            return Vector(numbers > 2)
        case Kind.DOUBLE:
            return Vector(numbers.astype(np.float64))
        case Kind.INTEGER:
            return Vector(numbers.astype(_DTYPES[kind.bits]))
        case Kind.DATE:
            return Vector(numbers.astype(np.int32))
        case _:
            return Vector(numbers.astype(np.int64))
