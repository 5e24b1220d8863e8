"""A merger's groups as bytes: one Arrow IPC stream, as for rows (core/codec.py)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from biclique.core.codec import decode_batch, encode_batch, from_arrow, to_arrow
from biclique.core.rows import Vector
from biclique.kernels.partials import Shares, state_types
from biclique.query.model import Aggregate, GroupKey
from biclique.query.types import TIMESTAMP, Type


def encode_shares(shares: Shares, values: Sequence[Aggregate | GroupKey], key_types: Sequence[Type]) -> bytes:
    states = [column for state in shares.states for column in state]
    columns = [*shares.keys, *states, Vector(shares.newest)]
    arrays = [to_arrow(column, type_) for column, type_ in zip(columns, _types(values, key_types), strict=True)]
    return encode_batch(pa.RecordBatch.from_arrays(arrays, [f"c{i}" for i in range(len(arrays))]))


def decode_shares(data: bytes, values: Sequence[Aggregate | GroupKey], key_types: Sequence[Type]) -> Shares:
    batch = decode_batch(data)
    types = _types(values, key_types)
    columns = [from_arrow(array, type_) for array, type_ in zip(batch.columns, types, strict=True)]
    at = len(key_types)
    states: list[tuple[Vector, ...]] = []
    for value in values:
        width = len(state_types(value))
        states.append(tuple(columns[at : at + width]))
        at += width
    newest: NDArray[np.int64] = np.asarray(columns[-1].values)
    return Shares(tuple(columns[: len(key_types)]), tuple(states), newest)


def _types(values: Sequence[Aggregate | GroupKey], key_types: Sequence[Type]) -> tuple[Type, ...]:
    return (*key_types, *(type_ for value in values for type_ in state_types(value)), TIMESTAMP)
