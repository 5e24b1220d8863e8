"""A segment's sorted runs: few, of sizes that fall geometrically, merged a bounded amount at a time.

The newest run holds the rows of the last append alone; it is merged with older ones only when more rows come. So
within one step the rows that still need a stamp test stand by themselves, and the big runs need none.

Merging: two neighbours are merged when the older is at most `growth` times the newer, as a binary counter carries:
GROWTH, and BIG_GROWTH for a run beyond the caches, which costs a probe several times what one within them does, so that
no second one stands beside it for long. It stays GROWTH where more is made of a run than its rows (sums, a hierarchy):
that would be made anew as often. A merge of up to MERGE_ROWS_AT_ONCE rows is done where it falls due. A bigger one goes
on a little with every append, MERGE_PACE rows for each row appended, and the two runs serve until it is done: no append
waits for it. Every row takes part in O(log n) merges, and as sizes fall geometrically, few big merges are under way at
a time. A sealed segment gets no more rows and is merged to one run at the same pace.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from biclique.index.directory import Directory
from biclique.kernels.dominance import level_starts, summarise
from biclique.kernels.merge import merge_composite, merge_single
from biclique.kernels.sort_order import sort_order
from biclique.kernels.sorted_runs import FENCE_ROWS

Keys = NDArray[np.int64]
RowNumbers = NDArray[np.int32]

GROWTH = 4
BIG_GROWTH = 16
BIG_ROWS_MIN = 1 << 19  # 4 MB of keys
SMALL_ROWS = 256  # runs up to this size are merged whatever their proportion: a run costs a probe more than they do
MERGE_ROWS_AT_ONCE = 1 << 18  # about 2 ms
MERGE_PACE = 64
DIRECTED_ROWS_MIN = 1 << 17  # 1 MB of keys
NO_KEYS = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class SortKeys:
    """What a store sorts its rows by: `major`, then `minor`; `second` travels along and is summarised."""

    major: Keys
    minor: Keys | None = None
    second: Keys | None = None


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """Greatest and least second keys of eight, 64, … neighbours (kernels/dominance.py)."""

    levels: NDArray[np.int64]
    greatest: Keys
    least: Keys


class Run:
    """Rows of one segment in key order. `last_row`: the greatest row number in it."""

    __slots__ = ("_directory", "_fences", "_hierarchy", "last_row", "major", "minor", "rows", "second", "sums")

    def __init__(self, major: Keys, minor: Keys | None, second: Keys | None, rows: RowNumbers, last_row: int) -> None:
        self.major, self.minor, self.second, self.rows, self.last_row = major, minor, second, rows, last_row
        self._directory: Directory | None = None
        self._fences: Keys | None = None
        self._hierarchy: Hierarchy | None = None
        self.sums: tuple[Any, ...] = ()  # index/totals.py keeps a run's prefix sums here, made when first asked for

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def growth(self) -> int:
        """It takes in a newer neighbour of more than a growth-th of its rows."""
        plain = self.minor is None and self.second is None and not self.sums
        return BIG_GROWTH if plain and len(self) >= BIG_ROWS_MIN else GROWTH

    @property
    def directory(self) -> Directory | None:
        """Of a run that was merged from DIRECTED_ROWS_MIN rows or more, their keys spread evenly."""
        return self._directory

    def directed_by(self, directory: Directory) -> None:
        """`directory` has seen all keys."""
        self._directory = directory if directory.even else None

    @property
    def fences(self) -> Keys | None:
        """Every FENCE_ROWS-th key of a run too big for the caches, for one without a directory; None: search the keys
        themselves."""
        if self._fences is None and len(self) >= BIG_ROWS_MIN:
            self._fences = self.major[::FENCE_ROWS].copy()
        return self._fences

    @property
    def nbytes(self) -> int:
        total: int = self.major.nbytes + self.rows.nbytes
        total += sum(keys.nbytes for keys in (self.minor, self.second) if keys is not None)
        total += 0 if self._directory is None else self._directory.nbytes
        total += 0 if self._fences is None else self._fences.nbytes
        total += 0 if self._hierarchy is None else 2 * self._hierarchy.least.nbytes
        total += sum(sums.nbytes for sums in self.sums)
        return total

    @property
    def hierarchy(self) -> Hierarchy:
        if self._hierarchy is None:
            assert self.second is not None
            levels = level_starts(len(self))
            nodes = int(levels[-1])
            made = Hierarchy(levels, np.empty(nodes, np.int64), np.empty(nodes, np.int64))
            summarise(self.second, levels, made.greatest, made.least)
            self._hierarchy = made
        return self._hierarchy


def sorted_run(keys: SortKeys, rows: RowNumbers) -> Run:
    """`rows` ascending, one for each key."""
    order = sort_order(keys.major, keys.minor)
    return Run(
        keys.major[order],
        None if keys.minor is None else keys.minor[order],
        None if keys.second is None else keys.second[order],
        rows[order],
        int(rows[-1]),
    )


class Merge:
    """Two neighbouring runs on their way to one."""

    __slots__ = ("_arguments", "_cursor", "_directory", "_done", "_kernel", "merged", "newer", "older")

    def __init__(self, older: Run, newer: Run) -> None:
        self.older, self.newer = older, newer
        count = len(older) + len(newer)
        carried = older.second is not None
        self.merged = Run(
            np.empty(count, np.int64),
            None if older.minor is None else np.empty(count, np.int64),
            np.empty(count, np.int64) if carried else None,
            np.empty(count, np.int32),
            max(older.last_row, newer.last_row),
        )
        self._cursor = np.zeros(2, np.int64)
        self._done = 0
        self._directory: Directory | None = None
        if older.minor is None and count >= DIRECTED_ROWS_MIN:
            least, greatest = min(older.major[0], newer.major[0]), max(older.major[-1], newer.major[-1])
            self._directory = Directory(int(least), int(greatest), count)
        self._kernel: Callable[..., int] = merge_single if older.minor is None else merge_composite
        self._arguments = tuple(
            part
            for run in (older, newer, self.merged)
            for part in (
                (run.major, run.rows, NO_KEYS if run.second is None else run.second)
                if run.minor is None
                else (run.major, run.minor, run.rows, NO_KEYS if run.second is None else run.second)
            )
        )

    def __len__(self) -> int:
        return len(self.merged)

    @property
    def nbytes(self) -> int:
        """Of what is on its way; the two runs count for themselves."""
        return self.merged.nbytes + (0 if self._directory is None else self._directory.nbytes)

    @property
    def finished(self) -> bool:
        return self._done == len(self.merged)

    def go_on(self, budget: int) -> int:
        """Rows merged now."""
        rows = int(self._kernel(*self._arguments, self._cursor, budget))
        self._done += rows
        if self._directory is not None:
            self._directory.go_on(self.merged.major, self._done)
            if self.finished:
                self.merged.directed_by(self._directory)
        return rows


class Runs:
    """Oldest first. `_big`: the merges under way, oldest first; the runs behind the newest of them are free to
    merge."""

    __slots__ = ("_big", "_sealed", "all")

    def __init__(self) -> None:
        self.all: list[Run] = []
        self._big: list[Merge] = []
        self._sealed = False

    @property
    def nbytes(self) -> int:
        return sum(run.nbytes for run in self.all) + sum(merge.nbytes for merge in self._big)

    @property
    def settled_bytes(self) -> int:
        """Without what is on its way."""
        return sum(run.nbytes for run in self.all)

    @property
    def settled(self) -> bool:
        """Nothing to merge until more rows come."""
        return not self._big and (not self._sealed or len(self.all) <= 1)

    def add(self, run: Run) -> None:
        self.settle(len(run))
        self.all.append(run)

    def seal(self) -> None:
        """No more runs will come; what there is becomes one from the next `settle` on, as the newest rows stand by
        themselves until then."""
        self._sealed = True

    def settle(self, appended: int) -> None:
        """Do the merges that are due and small, and go on with each big one at the pace of the rows appended."""
        for merge in list(self._big):
            merge.go_on(MERGE_PACE * appended)
            if merge.finished:
                self._big.remove(merge)
                self._put(merge)
        while (place := self._due()) is not None:
            merge = Merge(self.all[place], self.all[place + 1])
            if len(merge) > MERGE_ROWS_AT_ONCE:
                self._big.append(merge)
            else:
                merge.go_on(len(merge))
                self._put(merge)

    def _due(self) -> int | None:
        """The place of the older of the newest two neighbours that should be one and are in no merge."""
        taken = {id(run) for merge in self._big for run in (merge.older, merge.newer)}
        for place in range(len(self.all) - 2, -1, -1):
            older, newer = self.all[place], self.all[place + 1]
            if id(older) in taken or id(newer) in taken:
                continue
            if self._sealed or len(older) <= older.growth * len(newer) or len(older) + len(newer) <= SMALL_ROWS:
                return place
        return None

    def _put(self, merge: Merge) -> None:
        place = self.all.index(merge.older)
        self.all[place : place + 2] = [merge.merged]
