"""Two inequalities without a scan: all positions of a range whose second key lies in [low, high].

A run sorted by the first key gets a hierarchy over its second keys: a node knows the greatest and the least of its
eight children, eight because a node's children then are one cache line. A walk starts at the node above the range's
start and goes on to the right: a node that cannot hold a match is left behind with one comparison, any other is
entered. Where one bound on the second key is open, a node that is not left behind does hold a match (except on the
two edges of the range, a path of O(log n) nodes each), so a probe costs O(log n + k log(n / k)) comparisons for k
matches. Where both bounds are given, a node may promise in vain, and the answer is right all the same.

The cursor is that of kernels/expand.py. A walk cut short by full buffers begins again from the top at its next
position.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy import uint64 as place
from numpy.typing import NDArray

from biclique.kernels.qualify import within_window

Keys = NDArray[np.int64]
Positions = NDArray[np.int64]
RowNumbers = NDArray[np.int32]

FANOUT_BITS = 3
FANOUT = 1 << FANOUT_BITS


def level_starts(rows: int) -> Positions:
    """Where each level of the hierarchy over so many rows begins in its arrays, lowest first; last: their length."""
    starts = [0]
    nodes = rows
    while nodes > FANOUT:
        nodes = (nodes + FANOUT - 1) >> FANOUT_BITS
        starts.append(starts[-1] + nodes)
    return np.array(starts, np.int64)


@njit(cache=True, nogil=True)
def summarise(second: Keys, starts: Positions, greatest: Keys, least: Keys) -> None:
    for level in range(len(starts) - 1):
        offset = starts[level]
        below = len(second) if level == 0 else starts[level] - starts[level - 1]
        for node in range(starts[level + 1] - offset):
            start = node << FANOUT_BITS
            stop = min(start + FANOUT, below)
            if level == 0:
                most, fewest = second[start], second[start]
                for child in range(start + 1, stop):
                    most = max(most, second[child])
                    fewest = min(fewest, second[child])
            else:
                inner = starts[level - 1]
                most, fewest = greatest[inner + start], least[inner + start]
                for child in range(inner + start + 1, inner + stop):
                    most = max(most, greatest[child])
                    fewest = min(fewest, least[child])
            greatest[offset + node] = most
            least[offset + node] = fewest


@njit(cache=True, nogil=True)
def expand_dominance(
    starts: Positions,
    ends: Positions,
    probes: RowNumbers,
    lows: Keys,
    highs: Keys,
    second: Keys,
    levels: Positions,
    greatest: Keys,
    least: Keys,
    rows: RowNumbers,
    base: int,
    cursor: Positions,
    out_probe: RowNumbers,
    out_stored: Positions,
    fresh_row: int,
    stamps: NDArray[np.uint64],
    newest: Keys,
    oldest: Keys,
    probe_stamps: NDArray[np.uint64],
    probe_newest: Keys,
    probe_oldest: Keys,
    stored_window: np.uint64,
    probe_window: np.uint64,
    timed: bool,
) -> bool:
    written, room, touched = cursor[2], len(out_probe), 0
    first = cursor[0]
    resume = cursor[1]
    top = len(levels) - 1
    for i in range(first, len(starts)):
        position, end = starts[i], ends[i]
        if resume >= 0:
            position = resume
            resume = -1
        probe, low, high = probes[i], lows[i], highs[i]
        level = top
        while position < end:
            if level == 0:
                stop = min(end, (position | (FANOUT - 1)) + 1)
                while position < stop:
                    touched += 1
                    if low <= second[place(position)] <= high:
                        if written == room:
                            cursor[0], cursor[1], cursor[2] = i, position, written
                            cursor[3] += touched
                            return False
                        row = rows[place(position)]
                        at = place(row)
                        fits = not (row >= fresh_row and stamps[at] >= probe_stamps[i])
                        if fits and timed:
                            fits = within_window(
                                newest[at], oldest[at], probe_newest[i], probe_oldest[i], stored_window, probe_window
                            )
                        if fits:
                            out_probe[place(written)] = probe
                            out_stored[place(written)] = base + row
                            written += 1
                    position += 1
            else:
                shift = FANOUT_BITS * level
                number = position >> shift
                node = place(levels[place(level - 1)] + number)
                touched += 1
                if greatest[node] >= low and least[node] <= high:
                    level -= 1
                    continue
                position = (number + 1) << shift
            while level < top and position & ((1 << (FANOUT_BITS * (level + 1))) - 1) == 0:
                level += 1
    cursor[0], cursor[1], cursor[2] = len(starts), -1, written
    cursor[3] += touched
    return True
