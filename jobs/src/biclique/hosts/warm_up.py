"""A first run of the very same loops on a handful of made-up rows, while Java starts: what numba compiles for a
query, or loads from its cache, is then there before the first real row."""

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

ROWS = 64
_DTYPES = {8: np.int8, 16: np.int16, 32: np.int32, 64: np.int64}


def warm_up(plan: Plan) -> None:
    tiers = LocalTiers(plan, MemoryStore(), 1, None, EngineClock(), hold=False)
    for turn in range(2):
        for number, source in enumerate(plan.query.sources):
            columns = [made_up(source.fields[position].type) for position in used_fields(plan.query, number)]
            offsets = np.arange(turn * ROWS, (turn + 1) * ROWS)
            block = Shuffler(plan.query, number).pack(PARTITION, turn * ROWS - 1, offsets, offsets.copy(), columns)
            tiers.feed(block)
        tiers.run_until_idle()
    tiers.reach_end()
    tiers.finish()
    tiers.seal()
    for topic in (Topic.OUTPUT, Topic.LATE, Topic.DEAD):
        for _ in tiers.take(topic):
            pass


def made_up(kind: Type) -> Vector:
    numbers = np.arange(ROWS) % 7
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
