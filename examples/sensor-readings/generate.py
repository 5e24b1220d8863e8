"""Temperature and pressure of saturated steam at two ends of a pipe, as JSON: twenty readings a second at each.

Pressure follows from temperature, so two sound readings never contradict each other. One gauge in forty is broken and
shows a pressure that is too low or too high. Readings come up to 1.5 s out of order; a few say "n/a" for a number.
"""

from __future__ import annotations

import argparse
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

FIRST = datetime(2026, 3, 1, 8, tzinfo=UTC)
SECONDS_APART = 0.05
DISORDER_S = 1.5
GAUGES = 40
BROKEN = 13


def pressure_bar(celsius: np.ndarray) -> np.ndarray:
    """Antoine's equation for water above 100 degrees."""
    return 10 ** (8.14019 - 1810.94 / (244.485 + celsius)) / 750.062


def write(rng: np.random.Generator, folder: Path, rows: int) -> None:
    gauge = rng.integers(0, GAUGES, rows)
    celsius = rng.uniform(110, 180, rows).round(1)
    bar = pressure_bar(celsius)
    bar = np.where(gauge == BROKEN, bar * rng.uniform(0.9, 1.1, rows), bar).round(3)
    behind = rng.uniform(0, DISORDER_S, rows)
    missing = set(rng.choice(rows, max(1, rows // 2000), replace=False).tolist())
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "readings.json").open("w", encoding="utf-8") as file:
        for i in range(rows):
            at = FIRST + timedelta(seconds=round(i * SECONDS_APART - float(behind[i]), 3))
            heat = "n/a" if i in missing else float(celsius[i])
            reading = {"gauge": int(gauge[i]), "celsius": heat, "bar": float(bar[i]), "at": at.isoformat()}
            file.write(json.dumps(reading) + "\n")


def generate(into: Path, rows: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    write(rng, into / "boiler", rows)
    write(rng, into / "hall", rows)


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--rows", type=int, default=50_000, help="readings at each end")
    arguments.add_argument("--into", type=Path, default=Path(__file__).parent / "data")
    arguments.add_argument("--seed", type=int, default=1)
    chosen = arguments.parse_args()
    generate(chosen.into, chosen.rows, chosen.seed)
    print(f"{chosen.rows:,} readings of each end are in {chosen.into}")
