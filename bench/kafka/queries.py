"""The joins of the trials: for Biclique as a manifest, for Flink as SQL, over the same topics.

Event time is the record's own; a window of an hour holds all that a trial writes, so the answer is the plain join's,
and Flink may run its interval join, which is what its users run on streams.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import yaml

from bench.data import SIDES, dataset
from bench.workloads import WORKLOADS, Workload
from biclique.ports.tables import json_objects

PARTITIONS = 2  # of every topic that a user has: one a core
WARM_UP_SHIFT = -100_000_000  # of the warm-up's keys: they meet each other and nobody else
WITHIN = "1 HOUR"


@dataclass(frozen=True)
class Query:
    """`subgroups`: of each side. `rows`: a side's; `flink_rows`: of Flink's run, where it is asked for less."""

    workload: Workload
    name: str
    subgroups: int = 1
    rows: int = 1_000_000
    flink_rows: int = 1_000_000

    @property
    def columns(self) -> str:
        return "serial INT, a INT" + (", b INT" if self.workload.kind == "dominance" else "")


_BY_NAME = {workload.name: workload for workload in WORKLOADS}
EQUALITY = Query(_BY_NAME["equality"], "equality")
BAND = Query(_BY_NAME["band"], "band", subgroups=2)
TWO_INEQUALITIES = Query(_BY_NAME["two inequalities"], "two-inequalities", rows=100_000, flink_rows=20_000)


def manifest(
    query: Query,
    name: str,
    brokers: str,
    *,
    partitions: int = 2,
    within: str = WITHIN,
    output: str = "json",
    condition: str | None = None,
    lateness: str = "0s",
) -> str:
    def kafka(topic: str, format_: str) -> dict[str, Any]:
        return {"bootstrapServers": brokers, "topic": topic, "format": format_}

    common = {"schema": query.columns, "eventTime": {"lateness": lateness}}
    sources = [{"name": side, **common, "kafka": kafka(f"{name}-{side}", "json")} for side in SIDES]
    sql = f"SELECT r.serial AS r_id, s.serial AS s_id FROM r JOIN s ON {condition or query.workload.condition}"
    spec = {
        "sources": sources,
        "sql": f"{sql} WITHIN {within}",
        "topics": {"partitions": partitions, "replication": 1},
        "plan": {"subgroups": dict.fromkeys(SIDES, query.subgroups)},
        "joiners": {"replicas": 1},
        "output": {"kafka": kafka(f"{name}-out", output)},
    }
    whole = {"apiVersion": "biclique.dev/v1alpha1", "kind": "JoinQuery", "metadata": {"name": name}, "spec": spec}
    return yaml.safe_dump(whole, sort_keys=False)


def lines_of(folder: Path, side: str, shift: int = 0) -> Iterator[bytes]:
    """A side's rows as JSON; a shift moves the keys, and makes the serials negative."""
    table = pq.read_table(folder / "parquet" / side)
    if shift:
        for position, name in enumerate(table.column_names):
            values = table.column(name).to_numpy()
            moved = -1 - values if name == "serial" else values + shift
            table = table.set_column(position, name, [moved])
    yield from json_objects(table)


def data_of(folder: Path, query: Query, rows: int) -> tuple[Path, Path]:
    """The data and the warm-up."""
    return dataset(folder, query.workload.kind, rows), dataset(folder, query.workload.kind, max(rows // 50, 100))
