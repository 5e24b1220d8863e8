"""The kernels below the stores, each against numpy's or Python's own way, on sizes that the stores' histories do not
reach.

Inputs: few distinct keys (long runs of ties), many, the ends of int64, lengths around the group's and the fences' size.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from biclique.index.directory import Directory
from biclique.index.runs import Merge, Run
from biclique.kernels.directory import CROWDED_ROWS, directed_bounds, directed_ranges
from biclique.kernels.directory import GROUP as DIRECTED_TOGETHER
from biclique.kernels.dominance import level_starts
from biclique.kernels.expand import GROUP as EXPANDED_TOGETHER
from biclique.kernels.expand import TOUCHED, WRITTEN, expand_ranges, expand_values, new_cursor
from biclique.kernels.gather import gather_values
from biclique.kernels.prefix_sums import (
    BLOCK,
    add_double_ranges,
    add_integer_ranges,
    add_valid_ranges,
    block_ends,
    count_blocks,
    sum_blocks,
    sum_nodes,
)
from biclique.kernels.sort_order import LIBRARY_BELOW, sort_order
from biclique.kernels.sorted_runs import (
    FENCE_ROWS,
    GROUP,
    composite_ranges,
    key_ranges,
    key_ranges_fenced,
    lower_bounds,
    lower_bounds_fenced,
)

KEY_MIN, KEY_MAX = np.iinfo(np.int64).min, np.iinfo(np.int64).max
LENGTHS = (1, 2, FENCE_ROWS - 1, FENCE_ROWS, FENCE_ROWS + 1, 3 * FENCE_ROWS, 1000, 5003)
DOMAINS = (3, 100, 1 << 40, 0)  # 0: all of int64


def keys_of(rng: np.random.Generator, count: int, domain: int) -> np.ndarray:
    if domain == 0:
        keys = rng.integers(KEY_MIN, KEY_MAX, count, endpoint=True)
        keys[rng.random(count) < 0.2] = KEY_MIN
        keys[rng.random(count) < 0.2] = KEY_MAX
        return keys
    return rng.integers(-domain, domain, count)


@pytest.mark.parametrize("domain", DOMAINS)
@pytest.mark.parametrize("rows", LENGTHS)
def test_ranges_are_those_of_a_binary_search(rows: int, domain: int) -> None:
    rng = np.random.default_rng([rows, domain % 1000])
    keys = np.sort(keys_of(rng, rows, domain))
    fences = keys[::FENCE_ROWS].copy()
    for count in (1, GROUP - 1, GROUP, GROUP + 1, 500):
        lows = np.sort(keys_of(rng, count, domain))
        highs = np.maximum(lows, keys_of(rng, count, domain))
        starts, ends = np.empty(count, np.int64), np.empty(count, np.int64)
        expected = np.searchsorted(keys, lows), np.searchsorted(keys, highs, side="right")
        assert lower_bounds(keys, lows, starts) >= 0
        assert (starts == expected[0]).all()
        lower_bounds_fenced(keys, fences, lows, ends)
        assert (ends == expected[0]).all()
        for find, more in ((key_ranges, ()), (key_ranges_fenced, (fences,))):
            starts[:] = ends[:] = -7
            find(keys, *more, lows, highs, starts, ends)
            assert (starts == expected[0]).all() and (ends == expected[1]).all()


def directory_of(rng: np.random.Generator, keys: np.ndarray) -> Directory:
    """Made in pieces, some of them empty, as a merge makes it."""
    directory = Directory(int(keys[0]), int(keys[-1]), len(keys))
    for known in (*np.sort(rng.integers(0, len(keys) + 1, 5)).tolist(), len(keys)):
        directory.go_on(keys, known)
    return directory


def outlier(keys: np.ndarray) -> np.ndarray:
    return np.append(keys[1:], 1 << 62)


def one_value(keys: np.ndarray) -> np.ndarray:
    return np.full_like(keys, keys[len(keys) // 2])


@pytest.mark.parametrize("skew", [np.copy, outlier, one_value])
@pytest.mark.parametrize("domain", DOMAINS)
@pytest.mark.parametrize("rows", LENGTHS)
def test_a_directory_leads_where_a_binary_search_does(rows: int, domain: int, skew: Callable[..., np.ndarray]) -> None:
    rng = np.random.default_rng([rows, domain % 1000, 3])
    keys = np.sort(skew(np.sort(keys_of(rng, rows, domain))))
    directory = directory_of(rng, keys)
    bucket_starts, least, shift = directory.arguments
    buckets = [(key - least) >> shift for key in keys.tolist()]
    assert bucket_starts.tolist() == np.searchsorted(buckets, np.arange(buckets[-1] + 2)).tolist()
    held = np.diff(bucket_starts)
    assert directory.even == (2 * held[held > CROWDED_ROWS].sum() <= rows)
    for count in (1, DIRECTED_TOGETHER // 2 - 1, DIRECTED_TOGETHER // 2, 500):  # twice as many, and the two ends
        lows = np.concatenate([keys_of(rng, count, domain), rng.choice(keys, count), [KEY_MIN, KEY_MAX]])
        rng.shuffle(lows)
        highs = np.maximum(lows, rng.permutation(lows))
        starts, ends = np.full(len(lows), -7), np.full(len(lows), -7)
        expected = np.searchsorted(keys, lows), np.searchsorted(keys, highs, side="right")
        directed_bounds(keys, *directory.arguments, lows, starts)
        assert (starts == expected[0]).all()
        starts[:] = -7
        directed_ranges(keys, *directory.arguments, lows, highs, starts, ends)
        assert (starts == expected[0]).all() and (ends == expected[1]).all()


@pytest.mark.parametrize("room", [4, 5, 33, 10_000])
@pytest.mark.parametrize("probes", [1, EXPANDED_TOGETHER - 1, EXPANDED_TOGETHER, 3 * EXPANDED_TOGETHER + 1])
def test_ranges_are_expanded_in_order_whatever_the_room(probes: int, room: int) -> None:
    rng = np.random.default_rng([probes, room])
    rows = rng.permutation(200).astype(np.int32)
    numbers = rng.permutation(probes).astype(np.int32)
    starts = rng.integers(0, 201, probes)
    lengths = rng.choice([0, 0, 0, 1, 3, 5, 40], probes)
    ends = np.minimum(starts + lengths, 200)
    out_probe, out_stored = np.empty(room, np.int32), np.empty(room, np.int64)
    cursor, found, done = new_cursor(), [], False
    while not done:
        done = expand_ranges(starts, ends, numbers, rows, 1000, cursor, out_probe, out_stored)
        written = int(cursor[WRITTEN])
        assert done or written == room
        found += list(zip(out_probe[:written].tolist(), out_stored[:written].tolist(), strict=True))
        cursor[WRITTEN] = 0
    assert found == [(numbers[i], 1000 + rows[k]) for i in range(probes) for k in range(starts[i], ends[i])]
    assert cursor[TOUCHED] == len(found)


@pytest.mark.parametrize("domain", DOMAINS)
@pytest.mark.parametrize("rows", LENGTHS)
def test_composite_ranges_hold_what_a_filter_holds(rows: int, domain: int) -> None:
    rng = np.random.default_rng([rows, domain % 1000, 1])
    major, minor = keys_of(rng, rows, 3), keys_of(rng, rows, domain)
    order = np.lexsort((minor, major))
    major, minor = major[order], minor[order]
    count = 90
    equals = np.sort(keys_of(rng, count, 4))
    lows = keys_of(rng, count, domain)
    highs = np.maximum(lows, keys_of(rng, count, domain))
    starts, ends = np.empty(count, np.int64), np.empty(count, np.int64)
    composite_ranges(major, minor, equals, lows, highs, starts, ends)
    for i in range(count):
        held = np.flatnonzero((major == equals[i]) & (minor >= lows[i]) & (minor <= highs[i]))
        assert held.tolist() == list(range(starts[i], ends[i]))


@pytest.mark.parametrize("domain", DOMAINS)
@pytest.mark.parametrize("rows", [0, 1, 40, LIBRARY_BELOW - 1, LIBRARY_BELOW, 3000])
def test_the_radix_sort_is_a_stable_sort(rows: int, domain: int) -> None:
    rng = np.random.default_rng([rows, domain % 1000, 2])
    major, minor = keys_of(rng, rows, domain), keys_of(rng, rows, 3)
    assert (sort_order(major) == np.argsort(major, kind="stable")).all()
    assert (sort_order(minor, major) == np.lexsort((major, minor))).all()


@pytest.mark.parametrize("budget", [1, 7, 10_000])
@pytest.mark.parametrize("composite", [False, True])
def test_a_merge_in_pieces_is_a_sort(composite: bool, budget: int) -> None:
    rng = np.random.default_rng([composite, budget])
    runs = []
    for number, rows in enumerate((300, 170)):
        major, minor, second = keys_of(rng, rows, 5), keys_of(rng, rows, 3), keys_of(rng, rows, 0)
        order = np.lexsort((minor, major))
        numbers = (np.arange(rows) + 1000 * number).astype(np.int32)
        runs.append(Run(major[order], minor[order] if composite else None, second[order], numbers, int(numbers[-1])))
    merge = Merge(*runs)
    while not merge.finished:
        assert 1 <= merge.go_on(budget) <= budget
    merged = merge.merged
    order = np.argsort(np.concatenate([run.major for run in runs]), kind="stable")
    if composite:
        order = np.lexsort((np.concatenate([run.minor for run in runs]), np.concatenate([run.major for run in runs])))
        assert (merged.minor == np.concatenate([run.minor for run in runs])[order]).all()
    for name in ("major", "second", "rows"):
        assert (getattr(merged, name) == np.concatenate([getattr(run, name) for run in runs])[order]).all()
    assert merged.last_row == 1169


@pytest.mark.parametrize("rows", [1, 8, 9, 64, 65, 1000])
def test_sums_of_doubles_see_only_their_range(rows: int) -> None:
    """A prefix difference would lose the small values behind 1e300 and turn everything behind an infinity to NaN."""
    rng = np.random.default_rng(rows)
    values = rng.integers(-8, 9, rows) / 4
    values[0] = 1e300
    if rows > 60:
        values[rows // 2] = np.inf
    valid = rng.random(rows) < 0.9
    numbers = np.arange(rows, dtype=np.int32)
    levels = level_starts(rows)
    nodes = int(levels[-1])
    sums, errors = np.empty(nodes), np.empty(nodes)
    sum_nodes(values, valid, numbers, levels, sums, errors)
    ends_of = rng.integers(0, rows + 1, (200, 2))
    starts, ends = ends_of.min(axis=1), ends_of.max(axis=1)
    totals, lost = np.zeros(200), np.zeros(200)
    probes = np.arange(200, dtype=np.int32)
    add_double_ranges(starts, ends, probes, numbers, values, valid, levels, sums, errors, totals, lost)
    for i in range(200):
        held = np.where(valid, values, 0.0)[starts[i] : ends[i]]
        assert totals[i] + lost[i] == held.sum() or (totals[i] == 1e300 and held[0] == 1e300)


@pytest.mark.parametrize("nulls", [False, True], ids=["all", "nulls"])
@pytest.mark.parametrize("rows", [1, 7, 8, 9, 15, 16, 17, 23, 24, 25, 40, 1000])
def test_sums_of_integers_are_exact_at_every_end(rows: int, nulls: bool) -> None:
    """Every range of a small run, so that each end lies at every place between two ends of blocks."""
    rng = np.random.default_rng(rows)
    values = rng.choice([-(1 << 63), -1, 0, 1, (1 << 63) - 1], rows)
    valid = rng.random(rows) < 0.6
    mask = valid if nulls else np.empty(0, np.bool_)
    numbers = rng.permutation(rows).astype(np.int32)
    high, low, counts = (np.empty(block_ends(rows), np.int64) for _ in range(3))
    sum_blocks(values, mask, numbers, high, low)
    if rows <= 40:
        starts, ends = (np.ascontiguousarray(part) for part in np.array(np.triu_indices(rows + 1)))
    else:
        starts, ends = np.sort(rng.integers(0, rows + 1, (500, 2)), axis=1).T.copy()
    probes = np.arange(len(starts), dtype=np.int32)
    totals, lows, found = (np.zeros(len(starts), np.int64) for _ in range(3))
    touched = add_integer_ranges(starts, ends, probes, numbers, values, mask, high, low, totals, lows)
    held = np.where(valid, values, 0)[numbers] if nulls else values[numbers]
    expected = [sum(held[a:b].tolist()) for a, b in zip(starts, ends, strict=True)]
    assert (totals.astype(object) * (1 << 32) + lows).tolist() == expected
    assert touched <= (4 + BLOCK) * len(starts)
    if nulls:
        count_blocks(valid, numbers, counts)
        assert add_valid_ranges(starts, ends, probes, numbers, valid, counts, found) <= (2 + BLOCK) * len(starts)
        assert found.tolist() == [int(valid[numbers][a:b].sum()) for a, b in zip(starts, ends, strict=True)]


def test_pairs_of_values_are_ranges_expanded_and_gathered() -> None:
    rng = np.random.default_rng(5)
    starts = rng.integers(0, 90, 40)
    ends = starts + rng.integers(0, 8, 40)
    probes, rows = rng.permutation(40).astype(np.int32), rng.permutation(100).astype(np.int32)
    left, right = rng.random(40), rng.integers(0, 1 << 50, 100)
    out_left, out_right = np.empty(7), np.empty(7, np.int64)
    cursor, found, done = new_cursor(), [], False
    while not done:
        done = expand_values(starts, ends, probes, rows, left, right, cursor, out_left, out_right)
        count = int(cursor[WRITTEN])
        found += zip(out_left[:count].tolist(), out_right[:count].tolist(), strict=True)
        cursor[WRITTEN] = 0
    assert found == [(left[probes[i]], right[rows[k]]) for i in range(40) for k in range(int(starts[i]), int(ends[i]))]


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.uint64, np.float64, np.bool_])
def test_a_gather_is_indexing(dtype: type) -> None:
    values = np.arange(50).astype(dtype)
    numbers = np.random.default_rng(1).integers(0, 50, 200)
    assert (gather_values(values, numbers + 1000, 1000) == values[numbers]).all()
    assert gather_values(values, numbers.astype(np.int32)).dtype == values.dtype
