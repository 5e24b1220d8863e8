"""Strings by row number: what a growing buffer of bytes and offsets gives back as an Arrow array."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray


@njit(cache=True, nogil=True)
def text_offsets(offsets: NDArray[np.int64], rows: NDArray[np.int64], out: NDArray[np.int64]) -> int:
    """out[k] = where the k-th asked string begins in the result; returns the bytes of all."""
    total = 0
    for k in range(len(rows)):
        out[k] = total
        total += offsets[rows[k] + 1] - offsets[rows[k]]
    out[len(rows)] = total
    return total


@njit(cache=True, nogil=True)
def gather_bytes(
    offsets: NDArray[np.int64],
    data: NDArray[np.uint8],
    rows: NDArray[np.int64],
    out_offsets: NDArray[np.int64],
    out: NDArray[np.uint8],
) -> None:
    for k in range(len(rows)):
        start = offsets[rows[k]]
        begin = out_offsets[k]
        for byte in range(out_offsets[k + 1] - begin):
            out[begin + byte] = data[start + byte]
