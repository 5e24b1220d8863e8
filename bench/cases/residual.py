"""A band with an arithmetic residual, from the SQL text down: planned, stored and probed by the joiner's own objects.

What is counted is candidates: pairs that the band lets through and the residual has to look at. One in a hundred
passes.
"""

from __future__ import annotations

import time

import numpy as np

from bench.cases import Measured, Scale
from biclique.core.rows import Rows, Vector
from biclique.core.stamps import stamp_base, tuple_ids
from biclique.plan.make import make_plan
from biclique.query.compile import compile_manifest
from biclique.tiers.matching import BATCH_MAX, Probing
from biclique.tiers.state import SideState

MANIFEST = """
apiVersion: biclique.dev/v1alpha1
kind: JoinQuery
metadata: {name: bench}
spec:
  sources:
    - {name: r, schema: "a BIGINT NOT NULL, b BIGINT NOT NULL", files: {path: r, format: parquet}}
    - {name: s, schema: "a BIGINT NOT NULL, b BIGINT NOT NULL", files: {path: s, format: parquet}}
  sql: "SELECT r.a, s.a AS other FROM r JOIN s ON r.a BETWEEN s.a - 250 AND s.a + 250 AND r.b * 2 + s.b > 2860"
  output: {files: {path: out, format: parquet}}
"""
BLOCK_ROWS = 10_000
BLOCKS_PROBING = 20


def band_residual(scale: Scale) -> Measured:
    stored_rows = scale.of(1_000_000, 100_000)
    random = np.random.default_rng(7)
    stage = make_plan(compile_manifest(MANIFEST, exists=lambda path: True)).stages[0]
    state = SideState(stage, 0)
    probing = Probing(stage, state)
    for number in range(stored_rows // BLOCK_ROWS):
        state.append(_block(random, stored_rows, 0, number, len(stage.sides[0].columns)))
    store = state.own
    candidates, seconds, pairs = 0, 0.0, 0
    for number in range(1 + BLOCKS_PROBING):
        block = _block(random, stored_rows, 1, 1_000_000 + number, len(stage.sides[1].columns))
        before, begin = store.counters.matches, time.perf_counter()
        found = sum(len(chunk.probe) for chunk in probing.find(block, 0, store.end, BATCH_MAX.bytes))
        if number:  # the first block compiles and warms
            seconds += time.perf_counter() - begin
            candidates += store.counters.matches - before
            pairs += found
    return Measured(candidates / seconds, note=f"{candidates:,} candidates, {pairs:,} pairs")


def _block(random: np.random.Generator, domain: int, side: int, epoch: int, columns: int) -> Rows:
    """Keys in a domain as wide as the stored side, so that a band of ±250 meets 501 rows."""
    assert columns == 2, "both columns are kept: the band's and the residual's"
    times = np.full(BLOCK_ROWS, epoch, np.int64)
    ids = tuple_ids(side, 0, np.arange(BLOCK_ROWS, dtype=np.int64) + epoch * BLOCK_ROWS)
    vectors = (Vector(random.integers(0, domain, BLOCK_ROWS)), Vector(random.integers(0, 1000, BLOCK_ROWS)))
    stamps = np.uint64(stamp_base(epoch + 1, 0)) + np.arange(BLOCK_ROWS, dtype=np.uint64)
    return Rows(stamps, (ids,), times, times, vectors)
