"""The obvious store: a list of rows and nested loops. It judges every index.

It keeps all rows for ever; what may have expired is told apart by `oldest`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa

from biclique.core.rows import Rows, Vector
from biclique.index.protocol import ProbeKeys, ProbeOrder, StoredKeys


@dataclass(frozen=True)
class ListedRow:
    reference: int
    stamp: int
    ids: tuple[int, ...]
    newest: int
    oldest: int
    values: tuple[Any, ...]  # None: null
    equal: int | None
    first: int | None
    second: int | None
    indexed: bool


def values_of(vector: Vector) -> list[Any]:
    values = vector.values.to_pylist() if isinstance(vector.values, pa.Array) else vector.values.tolist()
    if vector.valid is None:
        return values
    return [value if valid else None for value, valid in zip(values, vector.valid.tolist(), strict=True)]


def cell(array: Any, place: int) -> int | None:
    return None if array is None else int(array[place])


def plain_rows(rows: Rows) -> list[tuple[Any, ...]]:
    """Rows as tuples: what two stores' answers are compared by."""
    columns = [values_of(column) for column in rows.columns]
    return [
        (
            int(rows.stamps[i]),
            tuple(int(ids[i]) for ids in rows.ids),
            int(rows.newest[i]),
            int(rows.oldest[i]),
            tuple(column[i] for column in columns),
        )
        for i in range(len(rows))
    ]


def within(row: ListedRow, newest: int, oldest: int, stored_window: int | None, probe_window: int | None) -> bool:
    wide = math.inf
    stored, probing = (wide if w is None else w for w in (stored_window, probe_window))
    if row.oldest < oldest:
        window = stored
    elif oldest < row.oldest:
        window = probing
    else:
        window = max(stored, probing)
    return max(row.newest, newest) - min(row.oldest, oldest) <= window


@dataclass
class ListedStore:
    listed: list[ListedRow] = field(default_factory=list)

    def append(self, rows: Rows, keys: StoredKeys) -> int:
        first = len(self.listed)
        for i, (stamp, ids, newest, oldest, values) in enumerate(plain_rows(rows)):
            self.listed.append(
                ListedRow(
                    first + i,
                    stamp,
                    ids,
                    newest,
                    oldest,
                    values,
                    cell(keys.equal, i),
                    cell(keys.first, i),
                    cell(keys.second, i),
                    keys.indexed is None or bool(keys.indexed[i]),
                )
            )
        return first

    def matching(self, keys: ProbeKeys, order: ProbeOrder, probe: int) -> list[ListedRow]:
        if keys.active is not None and not keys.active[probe]:
            return []
        found = []
        for row in self.listed:
            fits = row.indexed
            if keys.equal is not None:
                fits = fits and row.equal == keys.equal[probe]
            for value, low, high in (
                (row.first, keys.first_low, keys.first_high),
                (row.second, keys.second_low, keys.second_high),
            ):
                if low is not None:
                    fits = fits and value is not None and int(low[probe]) <= value
                if high is not None:
                    fits = fits and value is not None and value <= int(high[probe])
            fits = fits and row.stamp < int(order.stamps[probe])
            fits = fits and within(
                row,
                int(order.newest[probe]),
                int(order.oldest[probe]),
                order.stored_window_us,
                order.probe_window_us,
            )
            if fits:
                found.append(row)
        return found

    def pairs(self, keys: ProbeKeys, order: ProbeOrder) -> set[tuple[int, int]]:
        return {(i, row.reference) for i in range(keys.count) for row in self.matching(keys, order, i)}

    def total(self, keys: ProbeKeys, order: ProbeOrder, probe: int, place: int) -> tuple[int, Fraction | float]:
        """(how many values are there, their exact sum); a sum of doubles with NaN or infinities is one of those."""
        values = [row.values[place] for row in self.matching(keys, order, probe)]
        there = [value for value in values if value is not None]
        if any(isinstance(value, float) and not math.isfinite(value) for value in there):
            return len(there), sum(there)
        return len(there), sum((Fraction(value) for value in there), Fraction(0))


def rows_of(stamps: Any, ids: Any, newest: Any, oldest: Any, columns: tuple[Vector, ...]) -> Rows:
    newest = np.asarray(newest, np.int64)
    oldest = newest if oldest is None else np.asarray(oldest, np.int64)
    return Rows(np.asarray(stamps, np.uint64), tuple(np.asarray(i, np.int64) for i in ids), newest, oldest, columns)
