"""How many tuples a second an engine joins when there are more than it can take."""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from bench.data import SIDES
from bench.kafka.bed import Bed, Burst, Ends, EndWatch
from bench.kafka.engines import Engine
from bench.kafka.queries import PARTITIONS, WARM_UP_SHIFT, Query, data_of, lines_of
from bench.kafka.tiers import TrialFailed
from bench.workloads import expected, fingerprint

WARM_S = 120.0  # until an engine that has just started has answered the warm-up
QUIET_S = 6.0  # without a new result, and all is said: well above a checkpoint interval
LIMIT_S = 240.0
SETTLE_S = 3.0

_serials = count()


@dataclass(frozen=True)
class Throughput:
    engine: str
    rows: int
    seconds: float
    pairs: int
    note: str = ""

    @property
    def tuples_per_second(self) -> float:
        return 2 * self.rows / self.seconds


def throughput(bed: Bed, data: Path, engine: Engine, query: Query, rows: int) -> Throughput:
    name = f"{query.name}-{engine.name.lower()}-{next(_serials)}"
    whole, small = data_of(data, query, rows)
    bed.create({f"{name}-{side}": PARTITIONS for side in (*SIDES, "out")})
    output = f"{name}-out"
    try:
        engine.start(bed, name, query)
        warm = Burst(bed)
        for side in SIDES:
            warm.write(f"{name}-{side}", lines_of(small, side, WARM_UP_SHIFT), PARTITIONS)
        warm.show()
        _wait_for_results(bed, engine, output, expected(query.workload, small)[0])
        burst = Burst(bed)
        for side in SIDES:
            burst.write(f"{name}-{side}", lines_of(whole, side), PARTITIONS)
        burst.flush()
        time.sleep(SETTLE_S)
        watch = EndWatch(bed, output, PARTITIONS)
        before = engine.cpu()
        began = burst.show()
        wanted = expected(query.workload, small)[0] + expected(query.workload, whole)[0]
        watch.wait_until_quiet(wanted, QUIET_S, LIMIT_S)
        engine.alive()
        after = engine.cpu()
    finally:
        engine.stop()
    last = _read(bed, output, bed.scratch / f"{name}.jsonl")
    found = fingerprint(f"SELECT r_id, s_id FROM read_json('{bed.scratch / name}.jsonl') WHERE r_id >= 0")
    right = expected(query.workload, whole)
    if found != right:
        raise TrialFailed(f"{found[0]:,} pairs with sums {found[1:]}, and not {right[0]:,} with {right[1:]}")
    note = f"CPU seconds before: {before}; after: {after}" if after else ""
    return Throughput(engine.name, rows, watch.readable_at(last) - began, found[0], note)


def _wait_for_results(bed: Bed, engine: Engine, topic: str, wanted: int) -> None:
    """Offsets count control records too, so a little more than `wanted` is asked for where there are fewer results
    than rows; what is missing then comes before the burst is written."""
    ends, deadline = Ends(bed, topic, PARTITIONS), time.monotonic() + WARM_S
    while sum(ends.now()) < wanted:
        engine.alive()
        if time.monotonic() > deadline:
            raise TrialFailed(f"no answer to the warm-up after {WARM_S:.0f} s")
        time.sleep(0.1)
    time.sleep(SETTLE_S)


def _read(bed: Bed, topic: str, target: Path) -> dict[int, int]:
    """All results into a file, a line each; the last offset of each partition."""
    last: dict[int, int] = {}
    with target.open("wb") as file:
        for message in bed.messages(topic, PARTITIONS):
            value = message.value()
            assert value is not None
            file.write(value + b"\n")
            last[message.partition() or 0] = message.offset() or 0
    return last
