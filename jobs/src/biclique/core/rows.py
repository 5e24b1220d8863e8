"""Columns and rows in memory: what blocks carry, stores keep and kernels read.

A `Vector` is one column. Its values are a numpy array, or for STRING a pyarrow StringArray without nulls; `valid` is a
mask (None: every value is there), and `failed` marks nulls that come from an expression that failed (None: none did;
only evaluation makes it, a stored column never has it). The value under a null is 0, "" or False: never garbage.

`Rows` is a run of stamped tuples of one relation, or of partial results of several: in stamp order wherever a contract
says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute
from numpy.typing import NDArray

from biclique.core.stamps import Ids, Stamps

Values = NDArray[np.generic]
Mask = NDArray[np.bool_]
Indexes = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Vector:
    values: Values | pa.StringArray
    valid: Mask | None = None
    failed: Mask | None = None

    def __len__(self) -> int:
        return len(self.values)

    @property
    def nbytes(self) -> int:
        """Of these entries alone, though a slice may hold more of its array in memory."""
        masks = (mask.nbytes for mask in (self.valid, self.failed) if mask is not None)
        return int(self.values.nbytes) + sum(masks)

    def take(self, indexes: NDArray[np.integer]) -> Vector:
        values = self.values.take(pa.array(indexes)) if isinstance(self.values, pa.Array) else self.values[indexes]
        return Vector(
            values,
            None if self.valid is None else self.valid[indexes],
            None if self.failed is None else self.failed[indexes],
        )

    def slice(self, start: int, stop: int) -> Vector:
        if isinstance(self.values, pa.Array):
            values: Values | pa.StringArray = self.values.slice(start, stop - start)
        else:
            values = self.values[start:stop]
        return Vector(
            values,
            None if self.valid is None else self.valid[start:stop],
            None if self.failed is None else self.failed[start:stop],
        )


def concat_vectors(vectors: Sequence[Vector]) -> Vector:
    if len(vectors) == 1:
        return vectors[0]
    first = vectors[0].values
    if isinstance(first, pa.Array):
        values: Values | pa.StringArray = pa.concat_arrays([v.values for v in vectors])
    else:
        values = np.concatenate([v.values for v in vectors])
    valid = None
    if any(v.valid is not None for v in vectors):
        valid = np.concatenate([np.ones(len(v), np.bool_) if v.valid is None else v.valid for v in vectors])
    failed = None
    if any(v.failed is not None for v in vectors):
        failed = np.concatenate([np.zeros(len(v), np.bool_) if v.failed is None else v.failed for v in vectors])
    return Vector(values, valid, failed)


@dataclass(frozen=True, slots=True)
class Rows:
    """`ids` holds one array for each part: one for a source tuple, k for a partial result of k tuples, in plan order.

    `newest` and `oldest` are the greatest and the least event time of the parts, the same array for a source tuple.

    `ordinals` exist where a window counts tuples (core/ranks.py): in a block one array for each counted relation, how
    many of its tuples the row's own dispatcher has stamped before the row; in a unit one array, the row's rank.
    """

    stamps: Stamps
    ids: tuple[Ids, ...]
    newest: NDArray[np.int64]
    oldest: NDArray[np.int64]
    columns: tuple[Vector, ...]
    ordinals: tuple[NDArray[np.int64], ...] = ()

    def __len__(self) -> int:
        return len(self.stamps)

    @property
    def nbytes(self) -> int:
        fixed = self.stamps.nbytes + sum(ids.nbytes for ids in self.ids) + self.newest.nbytes
        own_oldest = 0 if self.oldest is self.newest else self.oldest.nbytes
        ordinals = sum(ordinals.nbytes for ordinals in self.ordinals)
        return int(fixed + own_oldest + ordinals) + sum(column.nbytes for column in self.columns)

    def take(self, indexes: NDArray[np.integer]) -> Rows:
        newest = self.newest[indexes]
        return Rows(
            self.stamps[indexes],
            tuple(ids[indexes] for ids in self.ids),
            newest,
            newest if self.oldest is self.newest else self.oldest[indexes],
            tuple(column.take(indexes) for column in self.columns),
            tuple(ordinals[indexes] for ordinals in self.ordinals),
        )

    def slice(self, start: int, stop: int) -> Rows:
        newest = self.newest[start:stop]
        return Rows(
            self.stamps[start:stop],
            tuple(ids[start:stop] for ids in self.ids),
            newest,
            newest if self.oldest is self.newest else self.oldest[start:stop],
            tuple(column.slice(start, stop) for column in self.columns),
            tuple(ordinals[start:stop] for ordinals in self.ordinals),
        )


def concat_rows(parts: Sequence[Rows]) -> Rows:
    if len(parts) == 1:
        return parts[0]
    newest = np.concatenate([p.newest for p in parts])
    same = all(p.oldest is p.newest for p in parts)
    return Rows(
        np.concatenate([p.stamps for p in parts]),
        tuple(np.concatenate([p.ids[i] for p in parts]) for i in range(len(parts[0].ids))),
        newest,
        newest if same else np.concatenate([p.oldest for p in parts]),
        tuple(concat_vectors([p.columns[i] for p in parts]) for i in range(len(parts[0].columns))),
        tuple(np.concatenate([p.ordinals[i] for p in parts]) for i in range(len(parts[0].ordinals))),
    )


def text_lengths(vector: Vector) -> NDArray[np.int64] | None:
    """In bytes; None: it holds no texts."""
    if not isinstance(vector.values, pa.Array):
        return None
    return np.asarray(pa.compute.binary_length(vector.values)).astype(np.int64)


def text_bytes(rows: Rows) -> NDArray[np.int64] | None:
    """Of all texts of each row; None: it has no column of texts."""
    lengths = [found for found in map(text_lengths, rows.columns) if found is not None]
    if not lengths:
        return None
    sizes = np.zeros(len(rows), np.int64)
    for length in lengths:
        sizes += length
    return sizes
