"""`biclique run` as a process: started, told by signals, waited for, and what it leaves behind looked at."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

BICLIQUE = Path(sys.executable).with_name("biclique")
WAIT_SECONDS = 120.0
SEED = 11


def command(folder: Path, *arguments: str) -> list[str]:
    return [str(BICLIQUE), "run", str(folder / "join.yaml"), *arguments]


def run(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(folder, *arguments),
        capture_output=True,
        text=True,
        check=False,
        timeout=WAIT_SECONDS,
        env={**os.environ, **environment},
    )


def wait_until(condition: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    until = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert process.poll() is None, f"it ended early: {process.communicate()}"
        assert time.monotonic() < until, "it never came"
        time.sleep(0.01)


def big(folder: Path, rows: int, on: str = "a.k = b.k", end: str = "") -> None:
    """Every row has one partner, in another order. `end`: more of the spec."""
    rng = np.random.default_rng(SEED)
    for name in "ab":
        (folder / name).mkdir()
        key = np.arange(rows) if name == "a" else rng.permutation(rows)
        table = pa.table({"id": np.arange(rows), "k": key, "s": pa.array([f"{n % 97}" for n in range(rows)])})
        half = rows // 2
        pq.write_table(table.slice(0, half), folder / name / "1.parquet")
        pq.write_table(table.slice(half), folder / name / "2.parquet")
    sources = "\n".join(
        f"    - {{name: {name}, schema: 'id BIGINT, k BIGINT, s STRING', files: {{path: {name}}}}}" for name in "ab"
    )
    (folder / "join.yaml").write_text(
        "apiVersion: biclique.dev/v1alpha1\nkind: JoinQuery\nmetadata: {name: big}\nspec:\n  sources:\n"
        f"{sources}\n  sql: SELECT a.id AS aid, b.id AS bid, a.s FROM a JOIN b ON {on}\n"
        f"  output: {{files: {{path: out}}}}\n{end}",
        encoding="utf-8",
    )


def barrier(folder: Path) -> int:
    try:
        _, _, body = (folder / "out" / "_checkpoint" / "checkpoint.json").read_bytes().partition(b"\n")
    except FileNotFoundError:
        return -1
    return int(json.loads(body)["barrier"])


def java_of(folder: Path) -> list[int]:
    """The Java processes that log into this run's checkpoint folder."""
    log, found = str(folder / "out" / "_checkpoint" / "spark.log"), []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if os.readlink(entry / "fd" / "2") == log and (entry / "comm").read_text().startswith("java"):
                    found.append(int(entry.name))
            except OSError:
                continue  # it ended meanwhile, or is not ours to look at
    return found


def wait_for_java_to_end(folder: Path) -> None:
    until = time.monotonic() + WAIT_SECONDS
    while java_of(folder):
        assert time.monotonic() < until, "Java outlives its engine"
        time.sleep(0.05)


def judge(folder: Path, rows: int) -> None:
    ((found, pairs, ids, wrong),) = duckdb.sql(
        "SELECT count(*), count(DISTINCT (aid, bid)), count(DISTINCT _result_id),"
        f" count(*) FILTER (a.k <> b.k OR o.s <> a.s) FROM '{folder}/out/*.parquet' o"
        f" JOIN '{folder}/a/*.parquet' a ON a.id = aid JOIN '{folder}/b/*.parquet' b ON b.id = bid"
    ).fetchall()
    assert (found, pairs, ids, wrong) == (rows, rows, rows, 0)
