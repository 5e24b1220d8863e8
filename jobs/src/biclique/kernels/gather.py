"""Values by row number, several times as fast as fancy indexing: no test for negative numbers, no second index array.

`numbers` may be references, with `base` that of the first row. Numbers outside the values are a programmer's error
and are not looked for here.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy import uint64 as place
from numpy.typing import NDArray


@njit(cache=True, nogil=True)
def _gather(values: NDArray[Any], numbers: NDArray[np.integer], base: int, out: NDArray[Any]) -> None:
    for k in range(len(numbers)):
        out[k] = values[place(numbers[k] - base)]


def gather_values(values: NDArray[Any], numbers: NDArray[np.integer], base: int = 0) -> NDArray[Any]:
    """values[numbers - base]."""
    out = np.empty(len(numbers), values.dtype)
    _gather(values, numbers, base, out)
    return out
