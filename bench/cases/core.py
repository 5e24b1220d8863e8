"""The registry's functions: the measurements of this folder, at the size and with the number of a line of `CASES`.

State is measured with columns of 4 bytes, the harder case: the less a row weighs, the more an index beside it does; at
rest and without range sums. tests/unit/index/test_state_bytes.py holds it while merges are under way, and with sums.
"""

from __future__ import annotations

from itertools import pairwise

from bench.cases import Measured, Scale
from bench.cases import index as stores
from bench.cases.memory import random_read_ns
from biclique.index.protocol import IndexKind
from biclique.query.types import INT

EQUALITY, BAND, DOMINANCE = IndexKind.EQUALITY, IndexKind.ORDERED, IndexKind.DOMINANCE


def equality(scale: Scale) -> Measured:
    return _throughput(EQUALITY, scale.of(1_000_000, 100_000), 1)


def band(scale: Scale) -> Measured:
    return _throughput(BAND, scale.of(1_000_000, 100_000), 1)


def two_inequalities(scale: Scale) -> Measured:
    return _throughput(DOMINANCE, scale.of(200_000, 50_000), 5)


def _throughput(kind: IndexKind, rows: int, matches: float) -> Measured:
    numbers = stores.join_throughput(kind, rows, matches)
    return Measured(numbers["tuples_per_second"], note=f"{numbers['pairs']:,.0f} pairs")


def pairs_to_arrow(scale: Scale) -> Measured:
    return Measured(stores.arrow_pairs(scale.of(1_000_000, 100_000))["pairs_per_second"], note="reused buffers")


def pairs_through_a_store(scale: Scale) -> Measured:
    return Measured(stores.gathered_pairs(scale.of(1_000_000, 400_000))["pairs_per_second"])


def totals(scale: Scale) -> Measured:
    return Measured(stores.band_totals(scale.of(1_000_000, 400_000))["pairs_per_second"])


def growth_equality(scale: Scale) -> Measured:
    return _growth(EQUALITY, scale)


def growth_band(scale: Scale) -> Measured:
    return _growth(BAND, scale)


def _growth(kind: IndexKind, scale: Scale) -> Measured:
    """One store for each size; the ratio is of the last to the first, the curve is for the plot."""
    sizes = (100_000, 1_000_000, scale.of(10_000_000, 1_000_000))
    points: dict[int, float] = {}
    for small, big in pairwise(sizes):
        if big != small:
            numbers = stores.growth(kind, sizes=(small, big))
            points |= {size: numbers[f"ns_per_probe_{size}"] for size in (small, big)}
    first, last = points[sizes[0]], points[sizes[-1]]
    note = f"{first:,.0f} ns at {sizes[0]:,} rows, {last:,.0f} ns at {sizes[-1]:,}; {_memory(sizes[0], sizes[-1])}"
    return Measured(last / first, tuple(sorted(points.items())), note)


def _memory(small: int, big: int) -> str:
    """The keys alone are 8 bytes a row."""
    little, much = random_read_ns(8 * small), random_read_ns(8 * big)
    return f"a random read of the machine itself {little:.1f} ns in {8 * small:,} bytes, {much:.1f} ns in {8 * big:,}"


def step_equality(scale: Scale) -> Measured:
    return _step(EQUALITY, scale)


def step_band(scale: Scale) -> Measured:
    return _step(BAND, scale)


def _step(kind: IndexKind, scale: Scale) -> Measured:
    numbers = stores.step_latency(kind, scale.of(1_000_000, 100_000), steps=scale.of(2_000, 200))
    return Measured(numbers["p99_ms"], note=f"p50 {numbers['p50_ms']:.2f} ms, worst {numbers['max_ms']:.1f} ms")


def state_equality(scale: Scale) -> Measured:
    return _state(EQUALITY, scale)


def state_band(scale: Scale) -> Measured:
    return _state(BAND, scale)


def state_two_inequalities(scale: Scale) -> Measured:
    return _state(DOMINANCE, scale)


def _state(kind: IndexKind, scale: Scale) -> Measured:
    numbers = stores.state_bytes(kind, INT, scale.of(1_000_000, 100_000))
    return Measured(numbers["ratio"], note=f"{numbers['bytes'] / scale.of(1_000_000, 100_000):.1f} bytes a row")
