"""Orders and offers of a web shop: about five of each a second, in three price bands, as Parquet.

Rows come a little out of order (up to 4 s). A few offers come 20 minutes late, and a few orders have no price although
the schema demands one: the first go to `out/_late`, the second to `out/_dead`.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

FIRST_US = 1_772_352_000_000_000  # 2026-03-01 08:00 UTC
PER_SECOND = 5
DISORDER_US = 4_000_000
LATE_US = 20 * 60 * 1_000_000
ROWS_PER_FILE_MAX = 500_000
ARTICLES_AROUND = np.array([12.0, 60.0, 400.0])  # books, shoes, phones


def prices(rng: np.random.Generator, rows: int) -> np.ndarray:
    return rng.choice(ARTICLES_AROUND, rows, p=[0.5, 0.3, 0.2]) * rng.lognormal(0.0, 0.25, rows)


def times(rng: np.random.Generator, rows: int, per_second: float) -> np.ndarray:
    """In the order of arrival: each is some way behind the clock."""
    return FIRST_US + (np.arange(rows) * (1_000_000 / per_second)).astype(np.int64) - rng.integers(0, DISORDER_US, rows)


def some(rng: np.random.Generator, rows: int) -> np.ndarray:
    """A few positions: one in 5,000, at least one."""
    return rng.choice(rows, max(1, rows // 5000), replace=False)


def orders(rng: np.random.Generator, rows: int, per_second: float) -> pa.Table:
    without_price = np.zeros(rows, bool)
    without_price[some(rng, rows)] = True
    return pa.table(
        {
            "id": pa.array(np.arange(rows)),
            "price": pa.array(prices(rng, rows).round(2), mask=without_price),
            "qty": pa.array(rng.integers(1, 6, rows), pa.int32()),
            "at": pa.array(times(rng, rows, per_second), pa.timestamp("us", "UTC")),
        }
    )


def offers(rng: np.random.Generator, rows: int, per_second: float) -> pa.Table:
    middle = prices(rng, rows)
    half = middle * rng.uniform(0.0005, 0.0025, rows)
    at = times(rng, rows, per_second)
    at[some(rng, rows)] -= LATE_US
    return pa.table(
        {
            "id": pa.array(np.arange(rows)),
            "low": pa.array((middle - half).round(2)),
            "high": pa.array((middle + half).round(2)),
            "qty": pa.array(rng.integers(1, 21, rows), pa.int32()),
            "at": pa.array(at, pa.timestamp("us", "UTC")),
        }
    )


def write(table: pa.Table, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.parquet"):
        old.unlink()
    rows = max(1, min(ROWS_PER_FILE_MAX, len(table) // 4))
    for number, start in enumerate(range(0, len(table), rows)):
        pq.write_table(table.slice(start, rows), folder / f"part-{number:03}.parquet")


def generate(into: Path, rows: int, seed: int, per_second: float = PER_SECOND) -> None:
    rng = np.random.default_rng(seed)
    write(orders(rng, rows, per_second), into / "orders")
    write(offers(rng, rows, per_second), into / "offers")


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--rows", type=int, default=100_000, help="orders, and as many offers")
    arguments.add_argument("--into", type=Path, default=Path(__file__).parent / "data")
    arguments.add_argument("--seed", type=int, default=1)
    chosen = arguments.parse_args()
    generate(chosen.into, chosen.rows, chosen.seed)
    print(f"{chosen.rows:,} orders and {chosen.rows:,} offers are in {chosen.into}")
