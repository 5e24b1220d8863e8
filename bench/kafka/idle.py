"""What a query without input costs."""

from __future__ import annotations

import time
from itertools import count

from bench.data import SIDES
from bench.kafka.bed import Bed
from bench.kafka.queries import EQUALITY, PARTITIONS, manifest
from bench.kafka.tiers import Tiers, TrialFailed

START_S = 120.0
SETTLE_S = 40.0  # Java compiles on for a while

_serials = count()


def idle_cores(bed: Bed, seconds: float) -> dict[str, float]:
    """Cores that each tier takes on average."""
    name = f"idle-{next(_serials)}"
    bed.create({f"{name}-{side}": PARTITIONS for side in (*SIDES, "out")})
    tiers = Tiers(bed, name, manifest(EQUALITY, name, bed.kafka.bootstrap))
    tiers.start()
    try:
        deadline = time.monotonic() + START_S
        while not (tiers.is_founded and tiers.workers("joiner")):
            tiers.alive()
            if time.monotonic() > deadline:
                raise TrialFailed(f"the tiers did not start within {START_S:.0f} s")
            time.sleep(0.5)
        time.sleep(SETTLE_S)
        began, before = time.monotonic(), tiers.cpu_seconds()
        time.sleep(seconds)
        tiers.alive()
        passed, after = time.monotonic() - began, tiers.cpu_seconds()
        return {tier: (after[tier] - before[tier]) / passed for tier in after}
    finally:
        tiers.stop()
