"""Polars, a batch engine: it sees all rows at once and keeps no state, so it bounds what a stream join could reach."""

from __future__ import annotations

from pathlib import Path

import polars as pl
from contract import REACH, drive


def join(workload: str, data: Path, output: Path) -> None:
    r, s = (pl.scan_parquet(data / "parquet" / side / "*.parquet") for side in ("r", "s"))
    r = r.rename({"serial": "r_id", "a": "r_a", **({"b": "r_b"} if workload == "two inequalities" else {})})
    s = s.rename({"serial": "s_id", "a": "s_a", **({"b": "s_b"} if workload == "two inequalities" else {})})
    match workload:
        case "equality":
            pairs = r.join(s, left_on="r_a", right_on="s_a")
        case "band":
            low, high = pl.col("s_a") - REACH, pl.col("s_a") + REACH
            pairs = r.join_where(s, pl.col("r_a") >= low, pl.col("r_a") <= high)
        case _:
            pairs = r.join_where(s, pl.col("r_a") < pl.col("s_a"), pl.col("r_b") > pl.col("s_b"))
    pairs.select("r_id", "s_id").sink_parquet(output / "pairs.parquet")


if __name__ == "__main__":
    drive("Polars", pl.__version__, "batch, parquet to parquet", join)
