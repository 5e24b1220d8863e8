"""DuckDB, a batch engine: it sees all rows at once and keeps no state, so it bounds what a stream join could reach."""

from __future__ import annotations

from pathlib import Path

import duckdb
from contract import REACH, drive

CONDITIONS = {
    "equality": "r.a = s.a",
    "band": f"r.a >= s.a - {REACH} AND r.a <= s.a + {REACH}",
    "two inequalities": "r.a < s.a AND r.b > s.b",
}


def join(workload: str, data: Path, output: Path) -> None:
    duckdb.sql(f"""
        COPY (SELECT r.serial AS r_id, s.serial AS s_id
              FROM read_parquet('{data}/parquet/r/*.parquet') r
              JOIN read_parquet('{data}/parquet/s/*.parquet') s ON {CONDITIONS[workload]})
        TO '{output}/pairs.parquet' (FORMAT parquet)""")


if __name__ == "__main__":
    drive("DuckDB", duckdb.__version__, "batch, parquet to parquet", join)
