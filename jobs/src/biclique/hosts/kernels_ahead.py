"""Compiles what queries will need before there is one: `biclique prepare --kernels`, as the image does when it is made.

numba compiles a kernel for the types it meets, and keeps what it compiled. Which types a query of the users will bring
follows from few things: the kind of its keys, its predicates, its window, what it counts. So a list of small queries
that go through all of these is run on a handful of made-up rows each. A query that needs what none of them needed is
compiled when it begins, as ever.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from biclique.hosts.warm_up import run_made_up_rows
from biclique.plan.make import make_plan
from biclique.query.compile import compile_manifest

COLUMNS = {
    "k": "BIGINT",
    "n": "INT",
    "s": "SMALLINT",
    "y": "TINYINT",
    "d": "DOUBLE",
    "m": "DECIMAL(12,2)",
    "t": "STRING",
    "b": "BOOLEAN",
    "day": "DATE",
    "at": "TIMESTAMP",
}
NUMBERS = ("k", "n", "s", "y", "d", "m")
SPANS = {"day": "INTERVAL '1' DAY", "at": "INTERVAL '1' SECOND"}
ROWS, BLOCKS, SPREAD = 4096, 6, 7919
WINDOWS = ("WITHIN 1 MINUTE", "")
EVERYTHING = ", ".join(f"l.{name} AS l_{name}, r.{name} AS r_{name}" for name in COLUMNS)
GROUPED = "COUNT(*) AS rows, SUM(l.n) AS total, SUM(l.d) AS d, AVG(r.n) AS mean, MIN(r.m) AS low, MAX(l.at) AS high"


def compile_ahead() -> int:
    """How many queries were gone through."""
    done = 0
    for sql in queries():
        run_made_up_rows(make_plan(compile_manifest(manifest(sql))))
        done += 1
    for sql in queries_of_many_rows():
        run_made_up_rows(make_plan(compile_manifest(manifest(sql))), many_numbers())
        done += 1
    return done


def many_numbers() -> list[NDArray[np.int64]]:
    """Of several blocks as a burst brings them, in no order, each number once: whatever is only done for many rows is
    done, and few of them meet."""
    numbers = (np.arange(ROWS * BLOCKS) * SPREAD) % (ROWS * BLOCKS)
    return list(numbers.reshape(BLOCKS, ROWS))


def queries_of_many_rows() -> Iterator[str]:
    for condition in ("l.k = r.k", "l.t = r.t AND l.k >= r.k", "l.k BETWEEN r.k - 1 AND r.k + 1"):
        yield f"SELECT l.k AS k, r.t AS t, r.d AS d FROM l JOIN r ON {condition} WITHIN 1 MINUTE"


def queries() -> Iterator[str]:
    for condition in conditions():
        for window in WINDOWS:
            yield f"SELECT {EVERYTHING} FROM l JOIN r ON {condition} {window}"
    for condition in ("l.k = r.k", "l.n < r.n", "l.d BETWEEN r.d - 1 AND r.d + 1", "l.k < r.k AND l.d > r.d"):
        for window in WINDOWS:
            yield f"SELECT {GROUPED} FROM l JOIN r ON {condition} {window}"
            yield f"SELECT r.n AS n, {GROUPED} FROM l JOIN r ON {condition} {window} GROUP BY r.n"
            yield f"SELECT l.t AS t, r.b AS b, {GROUPED} FROM l JOIN r ON {condition} {window} GROUP BY l.t, r.b"
            yield f"SELECT DISTINCT l.t AS t, r.n AS n FROM l JOIN r ON {condition} {window}"
        grouped = f"SELECT l.t AS t, TUMBLE(1 MINUTE) AS minute, {GROUPED} FROM l JOIN r ON {condition}"
        yield f"{grouped} WITHIN 1 MINUTE GROUP BY l.t, TUMBLE(1 MINUTE)"
    chain = "SELECT l.k AS k, r.t AS t, u.d AS d FROM l JOIN r ON {} JOIN u ON {} WITHIN 1 MINUTE"
    yield chain.format("l.k = r.k", "r.n = u.n")
    yield chain.format("l.k = r.k", "u.k = r.k AND u.at >= r.at")
    yield chain.format("l.d < r.d", "u.n BETWEEN r.n - 1 AND r.n + 1")


def conditions() -> Iterator[str]:
    """Of two relations l and r."""
    for name in COLUMNS:
        yield f"l.{name} = r.{name}"
    for name in (*NUMBERS, *SPANS):
        by = SPANS.get(name, "1")
        yield f"l.{name} < r.{name}"
        yield f"l.{name} BETWEEN r.{name} - {by} AND r.{name} + {by}"
        yield f"l.t = r.t AND l.{name} >= r.{name}"
        yield f"l.k = r.k AND l.{name} BETWEEN r.{name} - {by} AND r.{name} + {by}"
        yield f"l.{name} <= r.{name} AND l.n > r.n"
    yield "l.k = r.k AND l.n = r.n"
    yield "l.k = r.k AND l.t = r.t AND l.day = r.day"
    yield "l.t < r.t"
    yield "l.k <> r.k"
    yield "l.d BETWEEN r.d AND r.d + r.m AND l.n <= r.n"
    yield "ABS(l.n - r.n) + ABS(l.k - r.k) <= 3 AND l.n % 2 = r.n % 2"
    yield "l.k < r.k AND l.d < r.d AND l.at < r.at"
    yield "l.m * 2 < r.m + 1 AND l.d / 2 < r.d"
    yield "LOWER(l.t) = SUBSTRING(r.t, 1, 1) AND l.n < r.n"


def manifest(sql: str) -> str:
    """JSON, which is YAML too. Nothing is read or written by it."""
    schema = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
    sources = [
        {"name": name, "schema": schema, "eventTime": {"column": "at"}, "files": {"path": name, "format": "json"}}
        for name in ("l", "r", "u")
        if f" {name} " in sql
    ]
    spec = {"sources": sources, "sql": sql, "output": {"files": {"path": "out", "format": "json"}}}
    return json.dumps(
        {"apiVersion": "biclique.dev/v1alpha1", "kind": "JoinQuery", "metadata": {"name": "ahead"}, "spec": spec}
    )
