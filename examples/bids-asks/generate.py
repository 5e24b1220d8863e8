"""Bids and asks for five shares, ten of each a second, whose price wanders over the day, as CSV.

Rows come up to 1.5 s out of order. Most bids are below the price and most asks above it; a few cross.
"""

from __future__ import annotations

import argparse
import csv
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

FIRST = datetime(2026, 3, 2, 8, tzinfo=UTC)
SECONDS_APART = 0.1
DISORDER_S = 1.5
SYMBOLS = ("ACME", "BOLT", "CORK", "DUNE", "ELMS")


def write(rng: np.random.Generator, folder: Path, price: np.ndarray, side: int) -> None:
    """`side`: -1 for bids, which stay below the price, 1 for asks."""
    rows = len(price)
    symbol = rng.integers(0, len(SYMBOLS), rows)
    wanted = (price * (symbol + 1) * (1 + side * rng.normal(0.005, 0.003, rows))).round(2)
    shares = rng.integers(1, 50, rows) * 10
    behind = rng.uniform(0, DISORDER_S, rows)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "book.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(("id", "symbol", "price", "shares", "at"))
        for i in range(rows):
            at = FIRST + timedelta(seconds=round(i * SECONDS_APART - float(behind[i]), 3))
            writer.writerow((i, SYMBOLS[symbol[i]], wanted[i], shares[i], at.isoformat()))


def generate(into: Path, rows: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    price = 50 * np.exp(np.cumsum(rng.normal(0, 0.0003, rows)))
    write(rng, into / "bids", price, -1)
    write(rng, into / "asks", price, 1)


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--rows", type=int, default=50_000, help="bids, and as many asks")
    arguments.add_argument("--into", type=Path, default=Path(__file__).parent / "data")
    arguments.add_argument("--seed", type=int, default=1)
    chosen = arguments.parse_args()
    generate(chosen.into, chosen.rows, chosen.seed)
    print(f"{chosen.rows:,} bids and {chosen.rows:,} asks are in {chosen.into}")
