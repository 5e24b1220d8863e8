"""What bounds a joiner unit: parameters all of them, so that tests and the simulator run with tiny ones. No result
depends on one."""

from __future__ import annotations

from dataclasses import dataclass

from biclique.tiers.cutting import RECORD_BYTES_MAX
from biclique.tiers.inbox import HELD_MAX, HeldMax
from biclique.tiers.matching import BATCH_MAX, BatchMax
from biclique.tiers.payloads import CACHE_BYTES_MAX, DEMAND_ROWS
from biclique.tiers.pressure import MemoryBudget
from biclique.tiers.state import BLOB_ROWS, SEGMENT_ROWS_MIN, BlobRows


@dataclass(frozen=True, slots=True)
class JoinerLimits:
    """`batch_max`: of one transaction's matches. `held_max`: of rows above the frontier, and of what one step handles;
    more are read again when needed. `record_bytes`: of a record that it sends on, if that has more rows than one.
    `payload_bytes_max`, `demand_rows`: tiers/payloads.py. `memory`: of all that the unit holds (tiers/pressure.py);
    None: not counted. `slow_start`, `in_flight_bytes`: tiers/pace.py. `seal_blobs`: of a checkpoint, put in one turn: a
    large state that is sealed for the first time, or anew, does not keep its tuples waiting."""

    batch_max: BatchMax = BATCH_MAX
    held_max: HeldMax = HELD_MAX
    blob_rows: BlobRows = BLOB_ROWS
    segment_rows_min: int = SEGMENT_ROWS_MIN
    record_bytes: int = RECORD_BYTES_MAX
    payload_bytes_max: int = CACHE_BYTES_MAX
    demand_rows: int = DEMAND_ROWS
    memory: MemoryBudget | None = None
    slow_start: int = 0
    in_flight_bytes: int = 1 << 27
    seal_blobs: int = 16  # of some 10 ms each, encoded and written


def limits_within(memory: MemoryBudget) -> JoinerLimits:
    """Where that leaves more room, a step and a transaction are bounded as they are without a budget."""
    return JoinerLimits(
        BatchMax(bytes=min(BATCH_MAX.bytes, memory.batch_bytes)),
        HeldMax(bytes=min(HELD_MAX.bytes, memory.step_bytes)),
        payload_bytes_max=min(CACHE_BYTES_MAX, memory.batch_bytes),
        memory=memory,
    )
