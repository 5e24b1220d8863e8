"""What a store loses is sealed again: whatever goes and whenever, the blobs named last hold every row once."""

from __future__ import annotations

import numpy as np
import pytest

from biclique.core.rows import Rows, Vector
from biclique.tiers.progress import BlobRef
from biclique.tiers.state import Adoption, BlobRows, SideState
from tests.unit.tiers.building import plan

WINDOWED = plan("SELECT r.v AS v FROM r JOIN s ON r.k = s.k WITHIN 20 MILLISECONDS")
STAGE = WINDOWED.stages[0]
WINDOW_US = 20_000


def rows(rng: np.random.Generator, first: int, count: int, now: int) -> Rows:
    stamps = np.arange(first, first + count, dtype=np.uint64)
    times = np.sort(now + rng.integers(-3, 4, count)) * 1000
    width = [np.int32 if column.type.bits == 32 else np.int64 for column in STAGE.sides[0].columns]
    columns = tuple(Vector(rng.integers(0, 5, count).astype(kind)) for kind in width)
    return Rows(stamps, (stamps.astype(np.int64),), times, times, columns)


def needed(state: SideState, watermark: int) -> list[list[int]]:
    """The stamps of each of its stores. What has expired may be there or not: a segment goes whole, and segments are
    cut elsewhere in a state that was restored."""
    stored = [store.rows_from(0, 1 << 30, 1 << 40)[0] for store in state.stores]
    kept = [rows.stamps[rows.oldest >= watermark - WINDOW_US].tolist() for rows in stored]
    return [stamps for stamps in kept if stamps]


@pytest.mark.parametrize("seed", range(30))
def test_a_state_is_restored_from_the_blobs_named_last_whatever_was_lost_before(seed: int) -> None:
    rng = np.random.default_rng(seed)
    limits = BlobRows(int(rng.integers(1, 4)), int(rng.integers(4, 9)))
    state = SideState(STAGE, 0, blob_rows=limits, segment_rows_min=2)
    there: dict[str, bytes] = {}
    stamp, now, seal = 1, 0, 0
    for _ in range(30):
        now += int(rng.integers(0, 4))
        count = int(rng.integers(0, 7))
        state.append(rows(rng, stamp, count, now))
        stamp += count
        if rng.random() < 0.1:
            adoption = Adoption({0: state})
            adoption.take(0, rows(rng, 1_000_000 + stamp, 3, now))
            adoption.take_over()
        state.expire(now * 1000, ())
        if rng.random() < 0.5:
            seal += 1
            names = iter([f"{seal}-{n}" for n in range(1000)])
            for ref, data in state.seal(names):
                if rng.random() < 0.2:
                    break  # the store did not take it; what follows is not even made
                there[ref.name] = data
        for name in [name for name in there if rng.random() < 0.05]:
            del there[name]
        lost = frozenset(ref.name for ref in state.blobs()) - there.keys()
        if rng.random() < 0.5:
            state.unseal(lost)
    state.unseal(frozenset(ref.name for ref in state.blobs()) - there.keys())
    there |= {ref.name: data for ref, data in state.seal(iter([f"last-{n}" for n in range(1000)]))}
    named: list[BlobRef] = list(state.blobs())
    assert {ref.name for ref in named} <= there.keys()
    assert len({ref.name for ref in named}) == len(named)
    restored = SideState(STAGE, 0, blob_rows=limits, segment_rows_min=2)
    for ref in named:
        restored.load(ref, there[ref.name])
    assert needed(restored, now * 1000) == needed(state, now * 1000)
