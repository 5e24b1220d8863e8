"""How a kind of index arranges keys: what its runs are sorted by, and which range of a run a probe asks for.

Every kind is a sorted run of one key or of two, with or without a second key that is summarised. So a kind is two small
functions (its file), and searching, merging, emitting and summing exist once.

`Probes` are the probing rows that can match at all, in the order in which runs are searched.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from biclique.index.protocol import KEY_MAX, KEY_MIN, Keys, ProbeKeys, StoredKeys
from biclique.index.runs import Run, SortKeys
from biclique.kernels.directory import directed_bounds, directed_ranges
from biclique.kernels.sort_order import sort_order
from biclique.kernels.sorted_runs import (
    composite_ranges,
    key_ranges,
    key_ranges_fenced,
    lower_bounds,
    lower_bounds_fenced,
)

Positions = NDArray[np.int64]

RANGES_SAMPLED = 16
SHORT_RANGE_ROWS = 32


@dataclass(frozen=True, slots=True)
class Bounds:
    """Of each probe: `equal` and then low <= key <= high within a run; a missing bound is infinite."""

    equal: Keys | None = None
    low: Keys | None = None
    high: Keys | None = None
    second_low: Keys | None = None
    second_high: Keys | None = None


@dataclass(frozen=True, slots=True)
class Arrangement:
    sort_keys: Callable[[StoredKeys], SortKeys]
    bounds: Callable[[ProbeKeys], Bounds]


@dataclass(frozen=True, slots=True)
class Probes:
    """`numbers`: positions in the probing rows. `equal`: composite runs. `above`: the highs plus one where they
    ascend with the lows, so that both ends of a range are searched in lockstep; the last `unbounded` of them have no
    end. `low` None: every range starts at the run's start."""

    numbers: NDArray[np.int32]
    equal: Keys | None
    low: Keys | None
    high: Keys
    above: Keys | None
    second_low: Keys | None
    second_high: Keys | None

    def __len__(self) -> int:
        return len(self.numbers)

    def ranges(self, run: Run, starts: Positions, ends: Positions) -> int:
        """Fills one range for each probe; returns the keys touched, or -1 when the run's end keys exclude a match."""
        rows = len(run)
        if self.equal is not None:
            assert run.minor is not None and self.low is not None
            if self.equal[-1] < run.major[0] or self.equal[0] > run.major[-1]:
                return -1
            return int(composite_ranges(run.major, run.minor, self.equal, self.low, self.high, starts, ends))
        if self.low is None:
            starts[:] = 0
            touched = 0
        elif self.low[0] > run.major[-1]:
            return -1
        elif self.above is None or self._narrow(run):
            return self._short_ranges(run, self.low, starts, ends)
        else:
            touched = _search(run, self.low, starts)
        if self.high[-1] < run.major[0]:
            return -1
        assert self.above is not None
        bounded = len(self.above)
        ends[bounded:] = rows
        return touched + _search(run, self.above, ends[:bounded])

    def _short_ranges(self, run: Run, low: Keys, starts: Positions, ends: Positions) -> int:
        if run.directory is not None:
            return int(directed_ranges(run.major, *run.directory.arguments, low, self.high, starts, ends))
        if run.fences is None:
            return int(key_ranges(run.major, low, self.high, starts, ends))
        return int(key_ranges_fenced(run.major, run.fences, low, self.high, starts, ends))

    def _narrow(self, run: Run) -> bool:
        """Where memory must be waited for, a second search is dearer than to go on from the start of a short range;
        how long ranges are is asked of a few."""
        if (run.directory is None and run.fences is None) or self.low is None:
            return False
        step = 1 + len(self) // RANGES_SAMPLED
        lows, highs = self.low[::step].copy(), self.high[::step].copy()
        first, last = np.empty(len(lows), np.int64), np.empty(len(highs), np.int64)
        _search(run, lows, first)
        _search(run, highs, last)
        return bool((last - first).mean() <= SHORT_RANGE_ROWS)


def _search(run: Run, values: Keys, positions: Positions) -> int:
    if run.directory is not None:
        return int(directed_bounds(run.major, *run.directory.arguments, values, positions))
    if run.fences is None:
        return int(lower_bounds(run.major, values, positions))
    return int(lower_bounds_fenced(run.major, run.fences, values, positions))


def arrange_probes(keys: ProbeKeys, bounds: Bounds) -> Probes | None:
    """None: no probe can match anything."""
    possible = keys.active
    for low, high in ((bounds.low, bounds.high), (bounds.second_low, bounds.second_high)):
        if low is not None and high is not None and low is not high:
            uncrossed = low <= high
            if not uncrossed.all():
                possible = uncrossed if possible is None else possible & uncrossed
    chosen = None if possible is None or possible.all() else np.flatnonzero(possible).astype(np.int32)
    count = keys.count if chosen is None else len(chosen)
    if count == 0:
        return None
    leading = bounds.equal if bounds.equal is not None else bounds.low if bounds.low is not None else bounds.high
    if leading is None:
        order = np.arange(count, dtype=np.int32) if chosen is None else chosen
    elif chosen is None:
        order = sort_order(leading)
    else:
        order = chosen[sort_order(leading[chosen])]

    def of(keys: Keys | None, missing: int) -> Keys:
        return np.full(count, missing, np.int64) if keys is None else keys[order]

    equal = None if bounds.equal is None else bounds.equal[order]
    low = None if bounds.low is None and equal is None else of(bounds.low, KEY_MIN)
    high = low if bounds.high is bounds.low and low is not None and bounds.low is not None else of(bounds.high, KEY_MAX)
    above = None
    # Equality has ranges so short that galloping from their start is cheaper than a second search.
    if equal is None and bounds.high is not bounds.low and (low is None or bool((high[1:] >= high[:-1]).all())):
        above = high[: int(np.searchsorted(high, KEY_MAX))] + 1
    if equal is None and bounds.high is None and bounds.low is None:
        above = high[:0]
    summarised = bounds.second_low is not None or bounds.second_high is not None
    return Probes(
        order,
        equal,
        low,
        high,
        above,
        of(bounds.second_low, KEY_MIN) if summarised else None,
        of(bounds.second_high, KEY_MAX) if summarised else None,
    )
