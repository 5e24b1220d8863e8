"""Two sorted runs into one, a bounded number of rows at a time.

A merge stops after `budget` rows and goes on from `cursor` (rows taken from the older, from the newer run) when called
again: a step of the join never waits for the whole merge of two big runs. Ties keep the older run's row first.
`carried` is a second column that travels along (empty arrays: none). The choice between the two heads is data without
a branch: heads of random keys would be mispredicted every other row.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy import uint64 as place
from numpy.typing import NDArray

Keys = NDArray[np.int64]
RowNumbers = NDArray[np.int32]


@njit(cache=True, nogil=True)
def merge_single(
    older: Keys,
    older_rows: RowNumbers,
    older_carried: Keys,
    newer: Keys,
    newer_rows: RowNumbers,
    newer_carried: Keys,
    merged: Keys,
    merged_rows: RowNumbers,
    merged_carried: Keys,
    cursor: NDArray[np.int64],
    budget: int,
) -> int:
    i, j = cursor[0], cursor[1]
    first: int = i + j
    last = min(first + budget, len(merged))
    carrying = len(merged_carried) > 0
    k = first
    older_count, newer_count = len(older), len(newer)
    while k < last and i < older_count and j < newer_count:
        a, b = older[place(i)], newer[place(j)]
        from_newer = b < a
        merged[place(k)] = b if from_newer else a
        merged_rows[place(k)] = newer_rows[place(j)] if from_newer else older_rows[place(i)]
        if carrying:
            merged_carried[place(k)] = newer_carried[place(j)] if from_newer else older_carried[place(i)]
        j += from_newer
        i += not from_newer
        k += 1
    while k < last:
        if i < older_count:
            merged[place(k)], merged_rows[place(k)] = older[place(i)], older_rows[place(i)]
            if carrying:
                merged_carried[place(k)] = older_carried[place(i)]
            i += 1
        else:
            merged[place(k)], merged_rows[place(k)] = newer[place(j)], newer_rows[place(j)]
            if carrying:
                merged_carried[place(k)] = newer_carried[place(j)]
            j += 1
        k += 1
    cursor[0], cursor[1] = i, j
    return last - first


@njit(cache=True, nogil=True)
def merge_composite(
    older: Keys,
    older_minor: Keys,
    older_rows: RowNumbers,
    older_carried: Keys,
    newer: Keys,
    newer_minor: Keys,
    newer_rows: RowNumbers,
    newer_carried: Keys,
    merged: Keys,
    merged_minor: Keys,
    merged_rows: RowNumbers,
    merged_carried: Keys,
    cursor: NDArray[np.int64],
    budget: int,
) -> int:
    i, j = cursor[0], cursor[1]
    first: int = i + j
    last = min(first + budget, len(merged))
    carrying = len(merged_carried) > 0
    older_count, newer_count = len(older), len(newer)
    for k in range(first, last):
        if i == older_count:
            from_newer = True
        elif j == newer_count:
            from_newer = False
        else:
            a, b = older[place(i)], newer[place(j)]
            from_newer = (b < a) | ((b == a) & (newer_minor[place(j)] < older_minor[place(i)]))
        if from_newer:
            merged[place(k)], merged_minor[place(k)], merged_rows[place(k)] = (
                newer[place(j)],
                newer_minor[place(j)],
                newer_rows[place(j)],
            )
            if carrying:
                merged_carried[place(k)] = newer_carried[place(j)]
            j += 1
        else:
            merged[place(k)], merged_minor[place(k)], merged_rows[place(k)] = (
                older[place(i)],
                older_minor[place(i)],
                older_rows[place(i)],
            )
            if carrying:
                merged_carried[place(k)] = older_carried[place(i)]
            i += 1
    cursor[0], cursor[1] = i, j
    return last - first
