"""What the stores do on one thread, with blocks already in memory. Each function returns its numbers; `bench` prints
them.

Every row has an id, a time, a stamp and two integer columns. In the joins, blocks alternate: a block is appended to
its own side's store and probes the other's; what is measured includes both, up to the pairs (probe, stored row).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from biclique.core.rows import Rows, Vector
from biclique.index.build import new_store
from biclique.index.protocol import IndexKind, ProbeKeys, ProbeOrder, Store, StoredKeys, StoreLayout
from biclique.index.runs import DIRECTED_ROWS_MIN
from biclique.kernels.expand import WRITTEN, expand_values, new_cursor
from biclique.query.types import BIGINT, INT, Type

CLOCK = time.perf_counter
Numbers = dict[str, float]

BLOCK_ROWS = 10_000
STAMPS_PER_BLOCK = 1 << 16
WARM_ROWS = 2 * DIRECTED_ROWS_MIN


@dataclass(frozen=True)
class Block:
    """Rows of one side with the keys they are stored by and the keys they ask for."""

    rows: Rows
    stored: StoredKeys
    probe: ProbeKeys

    def order(self, store: Store, window_us: int | None) -> ProbeOrder:
        rows = self.rows
        return ProbeOrder(rows.stamps, rows.newest, rows.oldest, store.end, window_us, window_us)


def block_of(number: int, first: np.ndarray, second: np.ndarray, stored: StoredKeys, probe: ProbeKeys) -> Block:
    count = len(first)
    stamps = np.uint64(number * STAMPS_PER_BLOCK) + np.arange(count, dtype=np.uint64)
    times = np.int64(number) * count + np.arange(count)  # one microsecond a row
    rows = Rows(stamps, (times.copy(),), times, times, (Vector(first), Vector(second)))
    return Block(rows, stored, probe)


def equality_blocks(
    rng: np.random.Generator, rows: int, matches: float, block_rows: int = BLOCK_ROWS, first_number: int = 0
) -> Iterator[Block]:
    """Blocks of both sides in turn; a key meets about `matches` rows of a whole side."""
    domain = max(1, int(rows / matches))
    for number in range(2 * rows // block_rows):
        key = rng.integers(0, domain, block_rows)
        other = rng.integers(0, 1000, block_rows)
        yield block_of(first_number + number, key, other, StoredKeys(equal=key), ProbeKeys(block_rows, equal=key))


def band_blocks(
    rng: np.random.Generator, rows: int, matches: float, width: int = 5, block_rows: int = BLOCK_ROWS
) -> Iterator[Block]:
    domain = max(1, int(rows * (2 * width + 1) / matches))
    for number in range(2 * rows // block_rows):
        key = rng.integers(0, domain, block_rows)
        other = rng.integers(0, 1000, block_rows)
        asked = ProbeKeys(block_rows, first_low=key - width, first_high=key + width)
        yield block_of(number, key, other, StoredKeys(first=key), asked)


def dominance_blocks(rng: np.random.Generator, rows: int, pairs: int) -> Iterator[Block]:
    """left.x < right.x and left.y > right.y, y rising with x but for a noise that lets about `pairs` pairs through."""
    domain = 1 << 30
    # A pair needs x apart by d and noise apart by more than d: about rows * rows * noise / (6 * domain) of them.
    noise = max(2, int(6 * pairs * domain / rows / rows))
    for number in range(2 * rows // BLOCK_ROWS):
        x = rng.integers(0, domain, BLOCK_ROWS)
        y = x + rng.integers(0, noise, BLOCK_ROWS)
        left = number % 2 == 0
        if left:
            asked = ProbeKeys(BLOCK_ROWS, first_low=x + 1, second_high=y - 1)
        else:
            asked = ProbeKeys(BLOCK_ROWS, first_high=x - 1, second_low=y + 1)
        yield block_of(number, x, y, StoredKeys(first=x, second=y), asked)


def run_join(kind: IndexKind, blocks: list[Block], layout: StoreLayout | None = None) -> tuple[float, int, list[Store]]:
    """(seconds, pairs, stores)."""
    layout = layout or StoreLayout(kind, (BIGINT, BIGINT))
    stores = [new_store(layout), new_store(layout)]
    pairs = 0
    start = CLOCK()
    for number, block in enumerate(blocks):
        own, other = stores[number % 2], stores[1 - number % 2]
        own.append(block.rows, block.stored)
        for matches in other.probe(block.probe, block.order(other, None)):
            pairs += len(matches.probe)
    return CLOCK() - start, pairs, stores


def _warm(kind: IndexKind) -> None:
    """With as many rows as it takes to use every kernel, those of big runs too."""
    rng = np.random.default_rng(0)
    made = {
        IndexKind.EQUALITY: lambda: equality_blocks(rng, WARM_ROWS, 1),
        IndexKind.ORDERED: lambda: band_blocks(rng, WARM_ROWS, 1),
        IndexKind.DOMINANCE: lambda: dominance_blocks(rng, WARM_ROWS, 10_000),
    }
    run_join(kind, list(made[kind]()))


def join_throughput(kind: IndexKind, rows: int = 1_000_000, matches: float = 1, seed: int = 1) -> Numbers:
    """Tuples a second of both sides; `matches` is per probe once a side is full."""
    rng = np.random.default_rng(seed)
    _warm(kind)
    match kind:
        case IndexKind.EQUALITY:
            blocks = list(equality_blocks(rng, rows, matches))
        case IndexKind.ORDERED:
            blocks = list(band_blocks(rng, rows, matches))
        case _:
            blocks = list(dominance_blocks(rng, rows, int(rows * matches)))
    seconds, pairs, stores = run_join(kind, blocks)
    return {
        "rows_a_side": rows,
        "pairs": pairs,
        "seconds": seconds,
        "tuples_per_second": 2 * rows / seconds,
        "comparisons_per_probe": sum(s.counters.comparisons for s in stores) / (2 * rows),
        "runs": sum(store.runs for store in stores),  # type: ignore[attr-defined]
    }


def arrow_pairs(rows: int = 1_000_000, matches: int = 10, seed: int = 1) -> Numbers:
    """Pairs a second from ranges to an Arrow batch of two 8-byte columns, one from each side, in reused buffers."""
    rng = np.random.default_rng(seed)
    stored_values, probe_values = rng.integers(0, 1 << 40, rows), rng.integers(0, 1 << 40, BLOCK_ROWS)
    in_key_order = rng.permutation(rows).astype(np.int32)
    starts = np.sort(rng.integers(0, rows - matches, BLOCK_ROWS))
    ends = starts + matches
    probes = rng.permutation(BLOCK_ROWS).astype(np.int32)
    out_probe, out_stored = np.empty(1 << 16, np.int64), np.empty(1 << 16, np.int64)
    arrays = [pa.Array.from_buffers(pa.int64(), 1 << 16, [None, pa.py_buffer(out)]) for out in (out_probe, out_stored)]

    def once() -> int:
        cursor, written, done = new_cursor(), 0, False
        while not done:
            done = expand_values(
                starts, ends, probes, in_key_order, probe_values, stored_values, cursor, out_probe, out_stored
            )
            count = int(cursor[WRITTEN])
            batch = pa.record_batch([array.slice(0, count) for array in arrays], names=["probe", "stored"])
            written += batch.num_rows
            cursor[WRITTEN] = 0
        return written

    once()
    start, pairs, repeats = CLOCK(), 0, 50
    for _ in range(repeats):
        pairs += once()
    return {"pairs": pairs, "pairs_per_second": pairs / (CLOCK() - start)}


def gathered_pairs(rows: int = 1_000_000, matches: int = 10, seed: int = 1) -> Numbers:
    """The same pairs by the general way: probe a store, then gather one column of each side."""
    rng = np.random.default_rng(seed)
    store = new_store(StoreLayout(IndexKind.ORDERED, (BIGINT, BIGINT)))
    blocks = [b for b in band_blocks(rng, rows, matches) if b.rows.stamps[0] // STAMPS_PER_BLOCK % 2 == 0]
    for block in blocks:
        store.append(block.rows, block.stored)
    pairs, start = 0, 0.0
    for repeat, block in enumerate(blocks[:21]):
        if repeat == 1:
            pairs, start = 0, CLOCK()
        order = ProbeOrder(block.rows.stamps, block.rows.newest, block.rows.oldest, store.end, None, None)
        for matches_found in store.probe(block.probe, order):
            stored = store.column(0, matches_found.stored)
            probe = block.rows.columns[0].values[matches_found.probe]
            batch = pa.record_batch([pa.array(probe), pa.array(stored.values)], names=["probe", "stored"])
            pairs += batch.num_rows
    return {"pairs": pairs, "pairs_per_second": pairs / (CLOCK() - start)}


def band_totals(rows: int = 1_000_000, matches: int = 500, seed: int = 1) -> Numbers:
    """COUNT and SUM over a band: pairs a second that would have had to be visited."""
    rng = np.random.default_rng(seed)
    store = new_store(StoreLayout(IndexKind.ORDERED, (BIGINT, BIGINT), sums=(1,)))
    width = 250
    blocks = list(band_blocks(rng, rows, matches, width))[::2]
    for block in blocks:
        store.append(block.rows, block.stored)
    pairs, start = 0, 0.0
    for repeat, block in enumerate(blocks[:31]):
        if repeat == 1:
            pairs, start = 0, CLOCK()
        order = ProbeOrder(block.rows.stamps, block.rows.newest, block.rows.oldest, store.end, None, None)
        totals = store.totals(block.probe, order)
        assert totals is not None
        pairs += int(totals.count.sum())
    return {"pairs": pairs, "pairs_per_second": pairs / (CLOCK() - start)}


def filled_store(kind: IndexKind, rows: int, matches: float, rng: np.random.Generator) -> Store:
    """A full-history store as it has come about block by block."""
    store = new_store(StoreLayout(kind, (BIGINT, BIGINT)))
    make = equality_blocks if kind is IndexKind.EQUALITY else band_blocks
    for number, block in enumerate(make(rng, rows, matches)):
        if number % 2 == 0:
            store.append(block.rows, block.stored)
    return store


def growth(
    kind: IndexKind, matches: float = 1, sizes: tuple[int, int] = (100_000, 10_000_000), seed: int = 1
) -> Numbers:
    """Nanoseconds of a probe against a small and a big side, at an equal number of matches."""
    _warm(kind)
    numbers: Numbers = {}
    for size in sizes:
        rng = np.random.default_rng(seed)
        store = filled_store(kind, size, matches, rng)
        make = equality_blocks if kind is IndexKind.EQUALITY else band_blocks
        probing = [block for block, _ in zip(make(rng, size, matches), range(20), strict=False)]
        best = float("inf")
        for _ in range(3):
            pairs = 0
            start = CLOCK()
            for block in probing:
                order = ProbeOrder(block.rows.stamps, block.rows.newest, block.rows.oldest, store.end, None, None)
                order = ProbeOrder(
                    np.full(BLOCK_ROWS, 1 << 62, np.uint64), order.newest, order.oldest, store.end, None, None
                )
                for found in store.probe(block.probe, order):
                    pairs += len(found.probe)
            best = min(best, CLOCK() - start)
        numbers[f"ns_per_probe_{size}"] = 1e9 * best / (len(probing) * BLOCK_ROWS)
        numbers[f"pairs_per_probe_{size}"] = pairs / (len(probing) * BLOCK_ROWS)
        numbers[f"runs_{size}"] = store.runs  # type: ignore[attr-defined]
    small, big = (numbers[f"ns_per_probe_{size}"] for size in sizes)
    return {**numbers, "ratio": big / small}


def step_latency(
    kind: IndexKind = IndexKind.EQUALITY,
    window_rows: int = 1_000_000,
    step_rows: int = 1_000,
    steps: int = 2_000,
    seed: int = 1,
) -> Numbers:
    """Milliseconds of a step that appends step_rows, probes with as many and expires, against a full window."""
    _warm(kind)
    rng = np.random.default_rng(seed)
    step_us = step_rows  # one microsecond a row on a side
    layout = StoreLayout(kind, (BIGINT, BIGINT), archive_period_us=window_rows // 10)
    store = new_store(layout)
    times = []
    fill = window_rows // step_rows
    domain = window_rows
    for number in range(fill + steps):
        key = rng.integers(0, domain, step_rows)
        keys = (
            (StoredKeys(equal=key), ProbeKeys(step_rows, equal=key))
            if kind is IndexKind.EQUALITY
            else (StoredKeys(first=key), ProbeKeys(step_rows, first_low=key - 5, first_high=key + 5))
        )
        block = block_of(number, key, key, *keys)
        start = CLOCK()
        store.append(block.rows, block.stored)
        found = 0
        for matches in store.probe(block.probe, block.order(store, window_rows)):
            found += len(matches.probe)
        store.expire(number * step_us - window_rows)
        if number >= fill:
            times.append(CLOCK() - start)
    taken = np.array(times) * 1e3
    return {
        "p50_ms": float(np.percentile(taken, 50)),
        "p99_ms": float(np.percentile(taken, 99)),
        "max_ms": float(taken.max()),
        "rows": store.rows,
    }


def state_bytes(kind: IndexKind = IndexKind.ORDERED, column: Type = BIGINT, rows: int = 1_000_000) -> Numbers:
    """State over the raw bytes of what is kept: two columns, id, time, stamp."""
    rng = np.random.default_rng(1)
    store = new_store(StoreLayout(kind, (column, column)))
    width = column.bits // 8
    for number in range(rows // BLOCK_ROWS):
        key = rng.integers(0, rows, BLOCK_ROWS)
        values = key.astype(np.int32) if column is INT else key
        stored = StoredKeys(equal=key, first=key, second=key)
        store.append(block_of(number, values, values, stored, ProbeKeys(0)).rows, stored)
    raw = rows * (3 * 8 + 2 * width)
    return {"bytes": store.bytes, "raw_bytes": raw, "ratio": store.bytes / raw}


def tiny_step(steps: int = 2_000) -> Numbers:
    """Microseconds of append and probe with five rows on a store of a few hundred."""
    rng = np.random.default_rng(1)
    store = new_store(StoreLayout(IndexKind.ORDERED, (BIGINT, BIGINT), archive_period_us=100))
    taken = []
    for number in range(steps):
        key = rng.integers(0, 50, 5)
        block = block_of(number, key, key, StoredKeys(first=key), ProbeKeys(5, first_low=key - 1, first_high=key + 1))
        fresh_from = store.end
        order = ProbeOrder(block.rows.stamps, block.rows.newest, block.rows.oldest, fresh_from, 300, 300)
        start = CLOCK()
        store.append(block.rows, block.stored)
        for _ in store.probe(block.probe, order):
            pass
        taken.append(CLOCK() - start)
        store.expire(number * 5 - 300)
    return {"p50_us": float(np.percentile(taken, 50)) * 1e6, "p99_us": float(np.percentile(taken, 99)) * 1e6}
