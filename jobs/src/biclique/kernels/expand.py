"""Ranges into pairs: the loops that write (probe, stored row) into buffers of fixed size, resumable at any pair.

`cursor` holds (probe, position in its range, pairs written, candidates touched). A kernel returns True when all
ranges are done and False when the buffers are full; called again with the written count reset, it goes on with the
very next candidate. Memory is bounded by the buffers, whatever the number of matches.

Indexes are taken as unsigned: a signed one may mean "from the end", and the test for that keeps the compiler from
turning these loops into vector instructions (five times the time).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy import uint64 as place
from numpy.typing import NDArray

from biclique.kernels.prefetch import prefetch
from biclique.kernels.qualify import within_window

Positions = NDArray[np.int64]
RowNumbers = NDArray[np.int32]
Times = NDArray[np.int64]

PROBE, POSITION, WRITTEN, TOUCHED = 0, 1, 2, 3  # the cells of a cursor
GROUP = 256  # probes whose ranges are looked at together
SHORT = 4  # ranges up to this long are written as if they were: no loop whose length the processor must guess


def new_cursor() -> Positions:
    """POSITION -1: at the start of the probe's range."""
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
    """All rows of all ranges. Which of a group have any is found out first, without a branch: where some do and some
    do not, the processor would guess wrong at every other probe."""
    written, room, short_until = cursor[2], len(out_probe), len(rows) - SHORT
    resume = cursor[1]
    before = written
    filled = np.empty(GROUP + 1, np.int64)
    for group in range(cursor[0], len(starts), GROUP):
        found = 0
        for i in range(group, min(group + GROUP, len(starts))):
            filled[place(found)] = i
            found += ends[place(i)] > starts[place(i)]
        for f in range(found):
            prefetch(rows, place(starts[place(filled[place(f)])]))
        for f in range(found):
            i = filled[place(f)]
            start, end = starts[place(i)], ends[place(i)]
            if resume >= 0:
                start = resume
                resume = -1
            count = end - start
            probe = probes[place(i)]
            if count <= SHORT and written + SHORT <= room and start <= short_until:
                # What is written too much lies beyond `written` and is written over.
                for k in range(SHORT):
                    out_probe[place(written + k)] = probe
                    out_stored[place(written + k)] = base + rows[place(start + k)]
                written += count
                continue
            count = min(count, room - written)
            for k in range(count):
                out_probe[place(written + k)] = probe
                out_stored[place(written + k)] = base + rows[place(start + k)]
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
    resume = cursor[1]
    for i in range(cursor[0], len(starts)):
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
            row = rows[place(position)]
            at = place(row)
            if row >= fresh_row and stamps[at] >= stamp:
                continue
            if timed and not within_window(newest[at], oldest[at], greatest, least, stored_window, probe_window):
                continue
            out_probe[place(written)] = probe
            out_stored[place(written)] = base + row
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
    probe_values: NDArray[Any],
    stored_values: NDArray[Any],
    cursor: Positions,
    out_probe: NDArray[Any],
    out_stored: NDArray[Any],
) -> bool:
    """expand_ranges and the gather of a column from each side in one loop: pairs of values, no row numbers between."""
    written, room = cursor[2], len(out_probe)
    resume = cursor[1]
    before = written
    for i in range(cursor[0], len(starts)):
        start, end = starts[i], ends[i]
        if resume >= 0:
            start = resume
            resume = -1
        count = min(end - start, room - written)
        if count <= 0 and start >= end:
            continue
        value = probe_values[place(probes[i])]
        for k in range(count):
            out_probe[place(written + k)] = value
            out_stored[place(written + k)] = stored_values[place(rows[place(start + k)])]
        written += count
        if start + count < end:
            cursor[0], cursor[1], cursor[2] = i, start + count, written
            cursor[3] += written - before
            return False
    cursor[0], cursor[1], cursor[2] = len(starts), -1, written
    cursor[3] += written - before
    return True
