"""What each side of each stage holds and receives, from the statistics of the relations.

Two sides with |L| and |R| stored tuples that arrive at rates l and r, and a share s of all pairs that match, give
s (l |R| + r |L|) results a second; of those, s |L| |R| are stored at a time as the left side of the next stage.
"""

from __future__ import annotations

from collections.abc import Sequence

from biclique.plan.cost import Load
from biclique.plan.draft import StageDraft
from biclique.plan.selectivity import of_stage
from biclique.plan.statistics import Statistics
from biclique.query.expression import Column
from biclique.query.types import Kind, Type

STAMP_BYTES, ID_BYTES, TIME_BYTES, RANK_BYTES = 8, 8, 8, 8


def stage_loads(stages: Sequence[StageDraft], statistics: Statistics) -> tuple[tuple[Load, Load], ...]:
    """Left and right of each stage. Row bytes count from when the rules have pruned the columns; before, they are 0."""
    loads: list[tuple[Load, Load]] = []
    for stage in stages:
        shares = [
            row_bytes(columns, len(relations), statistics) + (0 if window is None else RANK_BYTES)
            for columns, relations, window in zip(stage.columns, stage.relations, stage.count_windows, strict=True)
        ]
        right = statistics.relations[stage.relations[1][0]]
        if stage.number == 0:
            first = statistics.relations[stage.relations[0][0]]
            left = Load(first.rows, first.rate, shares[0])
        else:
            share = of_stage(stages[stage.number - 1], statistics.selectivities)
            left = Load(*results(loads[-1], share), shares[0])
        loads.append((left, Load(right.rows, right.rate, shares[1])))
    return tuple(loads)


def results(sides: tuple[Load, Load], share: float) -> tuple[float, float]:
    """(stored at a time, a second)."""
    left, right = sides
    return share * left.rows * right.rows, share * (left.rate * right.rows + right.rate * left.rows)


def row_bytes(columns: tuple[Column, ...], parts: int, statistics: Statistics) -> float:
    """Of a tuple as it is stored and sent: its columns, stamp, ids and times (a partial result has two)."""
    times = 1 if parts == 1 else 2
    fixed = STAMP_BYTES + parts * ID_BYTES + times * TIME_BYTES
    return fixed + sum(value_bytes(column.type, statistics) for column in columns)


def value_bytes(type_: Type, statistics: Statistics) -> float:
    match type_.kind:
        case Kind.INTEGER:
            return type_.bits / 8
        case Kind.BOOLEAN:
            return 1
        case Kind.DATE:
            return 4
        case Kind.STRING:
            return 4 + statistics.string_bytes  # an offset and the characters
        case _:
            return 8
