"""A step of 1,000 rows by two inequalities against a window of 1M: the index that has most to rearrange."""

from __future__ import annotations

import time

import numpy as np

from bench.cases import Measured, Scale
from bench.cases.index import block_of
from biclique.index.build import new_store
from biclique.index.protocol import IndexKind, ProbeKeys, StoredKeys, StoreLayout
from biclique.query.types import BIGINT

STEP_ROWS = 1_000
DOMAIN = 1 << 30


def step_two_inequalities(scale: Scale) -> Measured:
    """The step appends its rows, probes with as many and expires. About one match a probe, whatever the window."""
    window_rows, steps = scale.of(1_000_000, 100_000), scale.of(2_000, 200)
    random = np.random.default_rng(1)
    store = new_store(StoreLayout(IndexKind.DOMINANCE, (BIGINT, BIGINT), archive_period_us=window_rows // 10))
    noise = 6 * DOMAIN // window_rows
    fill, taken, pairs = window_rows // STEP_ROWS, [], 0
    for number in range(fill + steps):
        x = random.integers(0, DOMAIN, STEP_ROWS)
        y = x + random.integers(0, noise, STEP_ROWS)
        asked = ProbeKeys(STEP_ROWS, first_low=x + 1, second_high=y - 1)
        block = block_of(number, x, y, StoredKeys(first=x, second=y), asked)
        begin = time.perf_counter()
        store.append(block.rows, block.stored)
        found = sum(len(chunk.probe) for chunk in store.probe(block.probe, block.order(store, window_rows)))
        store.expire(number * STEP_ROWS - window_rows)
        if number >= fill:
            taken.append(1e3 * (time.perf_counter() - begin))
            pairs += found
    p50, p99 = np.percentile(taken, (50, 99))
    per_probe = pairs / (steps * STEP_ROWS)
    return Measured(float(p99), note=f"p50 {p50:.2f} ms, worst {max(taken):.1f} ms, {per_probe:.1f} matches a probe")
