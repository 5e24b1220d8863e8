"""The rows that engines join: seeded, int32, the same for everyone, as parquet and as CSV.

`keys`: (serial, a), a uniform in [0, 10n): an equality joins a row with 0.1 others, a band of ±5 with 1.1.
`dominance`: (serial, a, b), b = a + uniform in [0, 300): of `r.a < s.a AND r.b > s.b` each half lets through half of
all pairs, and both together five for a row, whatever n is.

A side is `FILES` files, so that a reader that works file by file can use two cores.
"""

from __future__ import annotations

import shutil
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

FILES = 4
SEED = 20_150_531
SPREAD = 300
SIDES = ("r", "s")


def dataset(folder: Path, kind: str, rows: int) -> Path:
    """Where `<format>/<side>/part-<i>.<format>` are; written once, and whole: a folder that was left half-made is not
    taken for a finished one."""
    place = folder / f"{kind}-{rows}"
    if place.exists():
        return place
    fresh = place.with_suffix(".part")
    shutil.rmtree(fresh, ignore_errors=True)
    for number, side in enumerate(SIDES):
        table = _rows(kind, rows, np.random.default_rng((SEED, number, rows)))
        for format_ in ("parquet", "csv"):
            target = fresh / format_ / side
            target.mkdir(parents=True)
            bounds = np.linspace(0, rows, FILES + 1).astype(int)
            for part, (start, stop) in enumerate(pairwise(bounds)):
                _write(table.slice(start, stop - start), target / f"part-{part}.{format_}")
    fresh.rename(place)
    return place


def _rows(kind: str, rows: int, random: np.random.Generator) -> pa.Table:
    columns = {"serial": np.arange(rows, dtype=np.int32), "a": random.integers(0, 10 * rows, rows, dtype=np.int32)}
    if kind == "dominance":
        columns["b"] = columns["a"] + random.integers(0, SPREAD, rows, dtype=np.int32)
    return pa.table(columns)


def _write(table: pa.Table, path: Path) -> None:
    if path.suffix == ".parquet":
        pa.parquet.write_table(table, path)
        return
    with path.open("wb") as file:
        file.write(",".join(table.column_names).encode() + b"\n")
        pa.csv.write_csv(table, file, pa.csv.WriteOptions(include_header=False))
