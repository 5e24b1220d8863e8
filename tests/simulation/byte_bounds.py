"""The bounds of a run in bytes, and those of its mergers.

They are drawn apart from all else, so that a world without them is what it would be.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from biclique.tiers.cutting import RECORD_BYTES_MAX
from biclique.tiers.inbox import HELD_MAX
from biclique.tiers.joiner_limits import JoinerLimits
from biclique.tiers.loops import READ_LIMITS
from biclique.tiers.matching import BATCH_MAX
from biclique.tiers.merger import WRITTEN_MAX, WrittenMax
from biclique.tiers.state import BLOB_ROWS


@dataclass(frozen=True)
class ByteBounds:
    """A row of these worlds has some 50 to 150 bytes, a match twice as many."""

    held: int = HELD_MAX.bytes
    batch: int = BATCH_MAX.bytes
    blob: int = BLOB_ROWS.bytes_most
    written: WrittenMax = WRITTEN_MAX
    record: int = RECORD_BYTES_MAX
    turn: int = READ_LIMITS.turn_bytes
    seal_blobs: int = JoinerLimits().seal_blobs

    def writing(self, groups: int | None) -> ByteBounds:
        return self if groups is None else replace(self, written=WrittenMax(groups))


def byte_bounds_of(seed: int) -> ByteBounds:
    slices = random.Random(f"blobs of one turn of {seed}")
    some = slices.choice((1, 2, 3)) if slices.random() < 0.2 else ByteBounds.seal_blobs
    return replace(_drawn(random.Random(f"bounds in bytes of {seed}")), seal_blobs=some)


def _drawn(rng: random.Random) -> ByteBounds:
    if rng.random() < 0.6:
        return ByteBounds()
    return ByteBounds(
        held=rng.choice((0, 300, 1000, HELD_MAX.bytes)),
        batch=rng.choice((1, 300, 1000, BATCH_MAX.bytes)),
        blob=rng.choice((1, 400, BLOB_ROWS.bytes_most)),
        written=WrittenMax(rng.choice((1, 2, 5, WRITTEN_MAX.groups))),
        record=rng.choice((1, 200, RECORD_BYTES_MAX)),
        turn=rng.choice((1, 2000, READ_LIMITS.turn_bytes)),
    )
