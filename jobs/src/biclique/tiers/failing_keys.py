"""How many tuples have a key that fails: they match nothing, and each is counted once.

Not where they are stored: a matrix stores a tuple in several cells, and a restart, a replay and a move store it again.
A tuple of a source is counted by its dispatcher in the turn that stamps it, a partial result by the unit that makes it
in the step that sends it; either count is committed with that turn's progress, so what is repeated is not counted
twice. Keys that cannot fail (a column, above all) are not looked at.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from biclique.core.rows import Vector
from biclique.kernels.evaluate import compile_expression
from biclique.kernels.operators import can_fail
from biclique.plan.model import Side


class FailingKeys:
    def __init__(self, side: Side) -> None:
        access = side.access
        keys = [stored for stored, _ in access.equal]
        keys += [range_.stored for range_ in (access.first, access.second) if range_ is not None]
        positions = {column: i for i, column in enumerate(side.columns)}
        self._programs = tuple(compile_expression(key, positions) for key in dict.fromkeys(keys) if can_fail(key))

    def count(self, columns: Sequence[Vector], rows: int) -> int:
        """`columns`: as the side keeps them."""
        failed = np.zeros(rows, np.bool_)
        for program in self._programs:
            for start, stop in ((0, rows),) if program.pace is None else program.pace.stretches(columns, rows):
                mask = program.run([column.slice(start, stop) for column in columns], stop - start).failed
                if mask is not None:
                    failed[start:stop] |= mask
        return int(np.count_nonzero(failed))
