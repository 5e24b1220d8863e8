"""The joins that every engine is asked for, what their answer must be, and how much faster Biclique has to be.

An answer is judged by its fingerprint, the number of pairs and three sums over them, which DuckDB computes from the
same files: a run whose fingerprint differs has no time, whatever its clock said.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import duckdb

Fingerprint = tuple[int, int, int, int]

FINGERPRINT = "SELECT count(*), sum(r_id::HUGEINT), sum(s_id::HUGEINT), sum(r_id::HUGEINT * s_id) FROM ({pairs})"


@dataclass(frozen=True)
class Workload:
    """`rows`, `rows_quick`: a side's. `rows_nested`: for engines that compare every row with every other."""

    name: str
    what: str
    kind: str  # of the data set
    condition: str
    rows: int
    rows_quick: int
    rows_nested: int
    rows_nested_quick: int

    def size(self, quick: bool, nested: bool) -> int:
        if nested:
            return self.rows_nested_quick if quick else self.rows_nested
        return self.rows_quick if quick else self.rows


WORKLOADS = (
    Workload("equality", "r.a = s.a", "keys", "r.a = s.a", 5_000_000, 100_000, 5_000_000, 100_000),
    Workload(
        "band",
        "r.a within ±5 of s.a",
        "keys",
        "r.a >= s.a - 5 AND r.a <= s.a + 5",
        5_000_000,
        100_000,
        5_000_000,
        100_000,
    ),
    Workload(
        "two inequalities",
        "r.a < s.a AND r.b > s.b",
        "dominance",
        "r.a < s.a AND r.b > s.b",
        200_000,
        20_000,
        20_000,
        2_000,
    ),
)


@dataclass(frozen=True)
class Rival:
    """Biclique's run must take at most 1 / `times` of the rival's (whose rows may be fewer: see
    `Workload.rows_nested`)."""

    workload: str
    peer: str
    times: float


RIVALS = (
    Rival("equality", "Flink", 3),
    Rival("equality", "Spark", 3),
    Rival("equality", "Pathway", 1.5),
    Rival("band", "Flink", 5),
    Rival("band", "Spark", 5),
    Rival("band", "Pathway", 5),
    Rival("two inequalities", "Flink", 4),
)


def expected(workload: Workload, data: Path) -> Fingerprint:
    sides = [f"read_parquet('{data}/parquet/{side}/*.parquet') {side}" for side in ("r", "s")]
    pairs = f"SELECT r.serial AS r_id, s.serial AS s_id FROM {sides[0]} JOIN {sides[1]} ON {workload.condition}"
    return fingerprint(pairs)


def fingerprint(pairs: str) -> Fingerprint:
    """`pairs`: a query with columns r_id and s_id."""
    row = duckdb.connect().execute(FINGERPRINT.format(pairs=pairs)).fetchone()
    assert row is not None
    count, *sums = (0 if value is None else int(value) for value in row)
    return (count, *sums)  # type: ignore[return-value]
