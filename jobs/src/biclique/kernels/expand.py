"""Ranges into pairs: the loops that write (probe, stored row) into buffers of fixed size, resumable at any pair.

`cursor` holds (probe, position in its range, pairs written, candidates touched). A kernel returns True when all
ranges are done and False when the buffers are full; called again with the written count reset, it goes on with the
very next candidate. Memory is bounded by the buffers, whatever the number of matches.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from biclique.kernels.qualify import within_window

Positions = NDArray[np.int64]
RowNumbers = NDArray[np.int32]
Times = NDArray[np.int64]

PROBE, POSITION, WRITTEN, TOUCHED = 0, 1, 2, 3  # the cells of a cursor


def new_cursor() -> Positions:
    return np.array([0, -1, 0, 0], np.int64)


@njit(cache=True, nogil=True)
def expand_ranges(
    starts: Positions,
    ends: Positions,
    probes: RowNumbers,
    rows: RowNumbers,
    base: int,
    cursor: Positions,
    out_probe: RowNumbers,
    out_stored: Positions,
) -> bool:
    """All rows of all ranges. position -1 in the cursor: at the start of the probe's range."""
    written, room = cursor[2], len(out_probe)
    first = cursor[0]
    resume = cursor[1]
    before = written
    for i in range(first, len(starts)):
        start, end = starts[i], ends[i]
        if resume >= 0:
            start = resume
            resume = -1
        count = min(end - start, room - written)
        probe = probes[i]
        for k in range(count):
            out_probe[written + k] = probe
            out_stored[written + k] = base + rows[start + k]
        if count > 0:
            written += count
        if start + count < end:
            cursor[0], cursor[1], cursor[2] = i, start + count, written
            cursor[3] += written - before
            return False
    cursor[0], cursor[1], cursor[2] = len(starts), -1, written
    cursor[3] += written - before
    return True


@njit(cache=True, nogil=True)
def expand_tested(
    starts: Positions,
    ends: Positions,
    probes: RowNumbers,
    rows: RowNumbers,
    base: int,
    cursor: Positions,
    out_probe: RowNumbers,
    out_stored: Positions,
    fresh_row: int,
    stamps: NDArray[np.uint64],
    newest: Times,
    oldest: Times,
    probe_stamps: NDArray[np.uint64],
    probe_newest: Times,
    probe_oldest: Times,
    stored_window: np.uint64,
    probe_window: np.uint64,
    timed: bool,
) -> bool:
    """The rows of the ranges that come before their probe (asked of rows at or after fresh_row) and fit the window."""
    written, room, touched = cursor[2], len(out_probe), 0
    first = cursor[0]
    resume = cursor[1]
    for i in range(first, len(starts)):
        start, end = starts[i], ends[i]
        if resume >= 0:
            start = resume
            resume = -1
        if start >= end:
            continue
        probe = probes[i]
        stamp, greatest, least = probe_stamps[i], probe_newest[i], probe_oldest[i]
        for position in range(start, end):
            if written == room:
                cursor[0], cursor[1], cursor[2] = i, position, written
                cursor[3] += touched
                return False
            touched += 1
            row = rows[position]
            if row >= fresh_row and stamps[row] >= stamp:
                continue
            if timed and not within_window(newest[row], oldest[row], greatest, least, stored_window, probe_window):
                continue
            out_probe[written] = probe
            out_stored[written] = base + row
            written += 1
    cursor[0], cursor[1], cursor[2] = len(starts), -1, written
    cursor[3] += touched
    return True


@njit(cache=True, nogil=True)
def expand_values(
    starts: Positions,
    ends: Positions,
    probes: RowNumbers,
    rows: RowNumbers,
    probe_values: NDArray[np.generic],
    stored_values: NDArray[np.generic],
    cursor: Positions,
    out_probe: NDArray[np.generic],
    out_stored: NDArray[np.generic],
) -> bool:
    """expand_ranges and the gather of a column from each side in one loop: pairs of values, no row numbers between."""
    written, room = cursor[2], len(out_probe)
    first = cursor[0]
    resume = cursor[1]
    before = written
    for i in range(first, len(starts)):
        start, end = starts[i], ends[i]
        if resume >= 0:
            start = resume
            resume = -1
        count = min(end - start, room - written)
        value = probe_values[probes[i]]
        for k in range(count):
            out_probe[written + k] = value
            out_stored[written + k] = stored_values[rows[start + k]]
        if count > 0:
            written += count
        if start + count < end:
            cursor[0], cursor[1], cursor[2] = i, start + count, written
            cursor[3] += written - before
            return False
    cursor[0], cursor[1], cursor[2] = len(starts), -1, written
    cursor[3] += written - before
    return True
