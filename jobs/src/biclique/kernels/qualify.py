"""Does a stored row qualify for a probing row: the pair rule's stamp and the window, inlined into the loops that emit.

A pair is within the window when max(newest) - min(oldest) <= the window of the side that holds the earlier `oldest`;
on a tie the wider window counts, so that it does not matter which of the two is the stored one. The difference is
never negative, so it is taken in unsigned numbers and cannot overflow. WINDOW_NONE is wider than any difference.
"""

from __future__ import annotations

import numpy as np
from numba import njit

WINDOW_NONE = 2**64 - 1


@njit(cache=True, nogil=True, inline="always")
def within_window(
    stored_newest: int, stored_oldest: int, newest: int, oldest: int, stored_window: np.uint64, probe_window: np.uint64
) -> bool:
    greatest = max(stored_newest, newest)
    least = min(stored_oldest, oldest)
    if stored_oldest < oldest:
        window = stored_window
    elif oldest < stored_oldest:
        window = probe_window
    else:
        window = max(stored_window, probe_window)
    return bool(np.uint64(greatest) - np.uint64(least) <= window)
