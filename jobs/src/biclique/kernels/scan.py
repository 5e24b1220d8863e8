"""Every stored row against every probe: the candidates of a predicate that no key serves.

Rows lie in stamp order, so those before a probe's stamp are a prefix and need no test one by one; the window is asked
of each row where the segment straddles it. The cursor is that of kernels/expand.py.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy import uint64 as place
from numpy.typing import NDArray

from biclique.kernels.qualify import within_window

Positions = NDArray[np.int64]
Times = NDArray[np.int64]


@njit(cache=True, nogil=True)
def scan_rows(
    limits: Positions,
    probes: NDArray[np.int32],
    base: int,
    cursor: Positions,
    out_probe: NDArray[np.int32],
    out_stored: Positions,
    newest: Times,
    oldest: Times,
    probe_newest: Times,
    probe_oldest: Times,
    stored_window: np.uint64,
    probe_window: np.uint64,
    timed: bool,
) -> bool:
    """Rows 0 to limits[i] for probe i."""
    written, room, touched = cursor[2], len(out_probe), 0
    first = cursor[0]
    resume = cursor[1]
    for i in range(first, len(limits)):
        start, end = 0, limits[i]
        if resume >= 0:
            start = resume
            resume = -1
        probe = probes[i]
        if not timed:
            count = min(end - start, room - written)
            for k in range(count):
                out_probe[place(written + k)] = probe
                out_stored[place(written + k)] = base + start + k
            written += count
            touched += count
            if start + count < end:
                cursor[0], cursor[1], cursor[2] = i, start + count, written
                cursor[3] += touched
                return False
            continue
        greatest, least = probe_newest[i], probe_oldest[i]
        for row in range(start, end):
            if written == room:
                cursor[0], cursor[1], cursor[2] = i, row, written
                cursor[3] += touched
                return False
            touched += 1
            at = place(row)
            if within_window(newest[at], oldest[at], greatest, least, stored_window, probe_window):
                out_probe[place(written)] = probe
                out_stored[place(written)] = base + row
                written += 1
    cursor[0], cursor[1], cursor[2] = len(limits), -1, written
    cursor[3] += touched
    return True
