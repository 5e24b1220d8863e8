"""Queries for the planner's tests: SQL over relations a, b, c, d and e, which all have the same columns."""

from __future__ import annotations

import json
import re

from biclique.query.compile import compile_manifest
from biclique.query.model import Query

SCHEMA = (
    "id BIGINT, i INT, j INT, n BIGINT, x DOUBLE, y DOUBLE, lo DOUBLE, hi DOUBLE, m DECIMAL(9,2), k DECIMAL(12,2), "
    "s STRING, t STRING, f BOOLEAN, day DATE, at TIMESTAMP, until TIMESTAMP"
)


def query(
    sql: str,
    *,
    strategy: str | None = None,
    subgroups: dict[str, int] | None = None,
    units: int = 1,
    partitions: int = 4,
    kafka: bool = False,
    tuples: dict[str, int] | None = None,
) -> Query:
    used = sorted(set(re.findall(r"(?:FROM|JOIN|,)\s+([a-e])\b(?!\.)", sql)))
    brokers = "kafka:9092"
    inputs = {
        name: (
            {"kafka": {"bootstrapServers": brokers, "topic": name, "format": "json"}}
            if kafka
            else {"files": {"path": name, "format": "csv"}}
        )
        for name in used
    }
    windows = {name: {"window": {"tuples": count}} for name, count in (tuples or {}).items()}
    plan = {"strategy": strategy, "subgroups": subgroups}
    spec = {
        "sources": [
            {"name": n, "schema": SCHEMA, "eventTime": {"column": "at"}, **inputs[n], **windows.get(n, {})}
            for n in used
        ],
        "sql": sql,
        "plan": {key: value for key, value in plan.items() if value is not None},
        "joiners": {"replicas": units},
        "topics": {"partitions": partitions},
        "output": {"files": {"path": "out", "format": "csv"}},
    }
    manifest = {"apiVersion": "biclique.dev/v1alpha1", "kind": "JoinQuery", "metadata": {"name": "q"}, "spec": spec}
    return compile_manifest(json.dumps(manifest))
