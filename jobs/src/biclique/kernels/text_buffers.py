"""The bytes of a pyarrow StringArray as numpy arrays, and back: what numba kernels over strings work on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Offsets = NDArray[np.int32]
Bytes = NDArray[np.uint8]


def buffers_of(strings: pa.StringArray) -> tuple[Offsets, Bytes]:
    """String i is bytes[offsets[i]:offsets[i + 1]]."""
    _, offsets, data = strings.buffers()
    if offsets is None or len(strings) == 0:
        return np.zeros(1, np.int32), np.zeros(0, np.uint8)
    positions: Any = np.frombuffer(offsets, np.int32)[strings.offset : strings.offset + len(strings) + 1]
    return positions, np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)


def strings_from(offsets: Offsets, data: Bytes) -> pa.StringArray:
    return pa.StringArray.from_buffers(len(offsets) - 1, pa.py_buffer(offsets), pa.py_buffer(data))
