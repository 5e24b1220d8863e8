"""Taxi rides in a town of 6 by 6 km with four places where many rides begin or end: about two a second, as CSV.

Rides are reported up to 20 s out of order. A few are reported an hour late, and a few lines cannot be read.
"""

from __future__ import annotations

import argparse
import csv
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

FIRST = datetime(2026, 3, 1, 8, tzinfo=UTC)
SECONDS_APART = 0.5
DISORDER_S = 20
TOWN_M = 6000
FILES = 4
PLACES = np.array([[3000, 3200], [5200, 900], [1100, 4700], [4100, 4400]])  # station, airport bus, hospital, theatre
COLUMNS = ("id", "picked_up", "passengers", "from_x", "from_y", "to_x", "to_y")


def places(rng: np.random.Generator, rows: int) -> np.ndarray:
    """Two in three around one of the places, the others anywhere."""
    around = PLACES[rng.integers(0, len(PLACES), rows)] + rng.normal(0, 120, (rows, 2))
    anywhere = rng.uniform(0, TOWN_M, (rows, 2))
    return np.where(rng.random((rows, 1)) < 0.66, around, anywhere).astype(int)


def generate(into: Path, rows: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    begin, end = places(rng, rows), places(rng, rows)
    passengers = rng.choice([1, 2, 3, 4], rows, p=[0.6, 0.25, 0.1, 0.05])
    behind = rng.uniform(0, DISORDER_S, rows)
    behind[rng.choice(rows, max(1, rows // 1000), replace=False)] = 3600.0
    unreadable = set(rng.choice(rows, max(1, rows // 2000), replace=False).tolist())
    (into / "rides").mkdir(parents=True, exist_ok=True)
    for number, part in enumerate(np.array_split(np.arange(rows), FILES)):
        with (into / "rides" / f"rides-{number}.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(COLUMNS)
            for i in part.tolist():
                at = FIRST + timedelta(seconds=round(i * SECONDS_APART - float(behind[i]), 3))
                people = "two" if i in unreadable else passengers[i]
                writer.writerow((i, at.isoformat(), people, *begin[i], *end[i]))


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--rows", type=int, default=50_000, help="rides")
    arguments.add_argument("--into", type=Path, default=Path(__file__).parent / "data")
    arguments.add_argument("--seed", type=int, default=1)
    chosen = arguments.parse_args()
    generate(chosen.into, chosen.rows, chosen.seed)
    print(f"{chosen.rows:,} rides are in {chosen.into}")
