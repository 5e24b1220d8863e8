"""A first run of the very same loops on a handful of made-up rows, while Java starts: what numba compiles for a
query, or loads from its cache, is then there before the first real row.

It helps or it does nothing. A query may be such that made-up rows fail where real ones do not (a SUM that overflows):
then the warm-up ends there, and the run begins. It has tiers, a store and a log of its own, so nothing of it is
counted. Rows are so few that even if a condition held for every combination of them, the results would be at most
RESULTS_MAX.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from biclique.core.rows import Vector
from biclique.hosts.local_tiers import PARTITION, EngineClock, LocalTiers
from biclique.plan.model import Plan
from biclique.ports.memory import MemoryStore
from biclique.ports.wire import decode_source_block, encode_source_block
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
    except Exception:  # the rows are ours: what is wrong with the query, if anything, shows with the user's
        return


def run_made_up_rows(plan: Plan, numbers: Sequence[NDArray[np.int64]] = ()) -> LocalTiers:
    """The tiers behind the run. Every second turn comes as bytes, as over Kafka: what lies in them is read-only, which
    numba takes for another type. `numbers`: of which the values of each turn are made; by default, so few that whatever
    the condition is, it may hold for all of them."""
    tiers = LocalTiers(plan, MemoryStore(), 1, None, EngineClock(), hold=False)
    turns = numbers or (np.arange(rows_of_a_turn(len(plan.query.relations))) % 7,) * TURNS
    rows = len(turns[0])
    for turn, values in enumerate(turns):
        for number, source in enumerate(plan.query.sources):
            types = [source.fields[position].type for position in used_fields(plan.query, number)]
            columns = [made_up(each, values) for each in types]
            offsets = np.arange(turn * rows, (turn + 1) * rows)
            before = turn * rows - 1
            block = Shuffler(plan.query, number).pack(PARTITION, before, offsets, offsets.copy(), columns)
            if turn % 2:
                block = decode_source_block(encode_source_block(block, types), number, PARTITION, before, types)
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


def made_up(kind: Type, numbers: NDArray[np.int64]) -> Vector:
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
