"""The engines that Biclique is measured beside: which there are, what each can be asked for, how its pairs are read."""

from __future__ import annotations

from dataclasses import dataclass

PARQUET = "SELECT r_id, s_id FROM read_parquet('{output}/*.parquet')"


@dataclass(frozen=True)
class Peer:
    """`requirements`: what its own environment holds; None: it runs in the checkout's. `nested`: the workloads that
    it can only do by comparing every row with every other. `batch`: no stream join at all, here for orientation."""

    name: str
    driver: str
    requirements: str | None
    workloads: tuple[str, ...]
    pairs: str
    nested: tuple[str, ...] = ()
    batch: bool = False
    needs_java: bool = False


PEERS = (
    Peer(
        "Flink",
        "flink.py",
        "flink.txt",
        ("equality", "band", "two inequalities"),
        "SELECT * FROM read_csv('{output}/*', header = false, names = ['r_id', 's_id'])",
        nested=("two inequalities",),
        needs_java=True,
    ),
    Peer("Spark", "spark.py", None, ("equality", "band"), PARQUET, needs_java=True),
    Peer(
        "Pathway",
        "pathway_.py",
        "pathway.txt",
        ("equality", "band"),
        "SELECT r_id, s_id FROM read_csv('{output}/pairs.csv', header = true)",
    ),
    Peer("DuckDB", "duckdb_.py", None, ("equality", "band", "two inequalities"), PARQUET, batch=True),
    Peer("Polars", "polars_.py", None, ("equality", "band", "two inequalities"), PARQUET, batch=True),
)
