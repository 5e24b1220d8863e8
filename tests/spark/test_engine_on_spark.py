"""The engine over Spark's own tasks, one Java process for all of this file: what the plan, the format and the handling
of bad records may be, files to files, by the oracle.

That the command starts and ends Spark as it should is the matter of the other files here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from biclique.hosts.embedded import Ending, Engine, Options, Outcome
from biclique.hosts.file_task import ReadTask
from biclique.hosts.spark import Spark
from biclique.plan.make import make_plan
from biclique.query.errors import QueryError
from tests.unit.hosts.local_runs import SCHEMA, START, Given, lines, parts, some_rows

pytestmark = pytest.mark.spark
SLOTS = 4


class Shared:
    """Spark for one engine after the other: what an engine stops goes on for the next."""

    def __init__(self, spark: Spark) -> None:
        self._spark = spark

    def __call__(self, slots: int, log: Path) -> Shared:
        assert slots <= SLOTS
        return self

    def wait(self) -> None:
        self._spark.wait()

    def submit(self, task: ReadTask, failed: Callable[[str], None]) -> None:
        self._spark.submit(task, failed)

    def stop(self) -> None:
        pass


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    started = Spark(SLOTS, tmp_path_factory.mktemp("spark") / "spark.log")
    started.wait()
    yield Shared(started)
    started.stop()


def outcome_of(spark: Shared, given: Given, stop: Callable[[], bool] = lambda: False, **options: object) -> Outcome:
    settings = Options(**({"look_seconds": 0.05, "barrier_seconds": 60.0} | options))  # type: ignore[arg-type]
    return Engine(make_plan(given.query), settings, stop, lambda facts: None, spark).run()  # type: ignore[arg-type]


def two_of(folder: Path, sql: str, format_: str = "parquet", end: str = "", rows: int = 120) -> Given:
    made = Given(
        folder,
        sql,
        {"a": SCHEMA, "b": SCHEMA},
        {"a": some_rows(1, rows), "b": some_rows(2, rows)},
        format_,
        end=end,
        files={"a": [rows // 3, 0, rows - rows // 3], "b": [rows]},
    )
    made.write()
    return made


# --- plans -----------------------------------------------------------------------------------------------------------

PAIRS = "SELECT a.id AS aid, b.id AS bid, a.x, a.m, b.s, b.d FROM a JOIN b ON a.k = b.k AND a.x <= b.x WITHIN 9 SECONDS"
PLANS = {
    "one unit": "",
    "biclique, chosen": "  joiners: {replicas: 3}\n",
    "ContRand": "  plan: {strategy: biclique, subgroups: {a: 2, b: 3}}\n  joiners: {replicas: 2}\n",
    "hash": "  plan: {strategy: hash}\n  joiners: {replicas: 3}\n",
    "hash, unequal sides": "  plan: {strategy: hash, subgroups: {a: 3, b: 2}}\n",
    "random": "  plan: {strategy: random}\n  joiners: {replicas: 3}\n",
    "matrix": "  plan: {strategy: matrix}\n  joiners: {replicas: 3}\n",
}


@pytest.mark.parametrize("plan", PLANS)
def test_every_strategy_finds_the_oracles_pairs(spark: Shared, tmp_path: Path, plan: str) -> None:
    given = two_of(tmp_path, PAIRS, end=PLANS[plan])
    outcome = outcome_of(spark, given)
    assert outcome.ending is Ending.FINISHED
    assert given.found() == given.expected()
    assert sum(given.found().values()) > 50


OTHERS = {
    "no key": "SELECT a.id AS aid, b.id AS bid FROM a JOIN b ON a.x < b.x AND a.m > b.m WHERE a.b",
    "three relations": (
        "SELECT p.id AS pid, q.id AS qid, b.id AS bid FROM a AS p JOIN a AS q ON p.k = q.k AND p.m <= q.m"
        " JOIN b ON b.d = q.d AND b.id <= p.id WITHIN 7 SECONDS"
    ),
    "distinct": "SELECT DISTINCT a.k, b.d FROM a JOIN b ON a.k = b.k",
    "groups": "SELECT a.k, COUNT(*) AS n, SUM(b.m) AS total, MAX(b.at) AS last FROM a JOIN b ON a.k = b.k GROUP BY a.k",
}


@pytest.mark.parametrize("strategy", ["biclique", "random", "matrix"])
@pytest.mark.parametrize("name", OTHERS)
def test_every_strategy_serves_every_kind_of_query(spark: Shared, tmp_path: Path, name: str, strategy: str) -> None:
    end = f"  plan: {{strategy: {strategy}}}\n  joiners: {{replicas: 2}}\n"
    given = two_of(tmp_path, OTHERS[name], "json", end, rows=60)
    assert outcome_of(spark, given).ending is Ending.FINISHED
    assert given.found() == given.expected()


@pytest.mark.parametrize("plan", ["ContRand", "matrix"])
def test_stopped_again_and_again_several_units_go_on(spark: Shared, tmp_path: Path, plan: str) -> None:
    """Ctrl-C at some block of each life; barriers all the time."""
    given = two_of(tmp_path, PAIRS, "csv", PLANS[plan])
    lives = 0
    while True:
        asked = iter(range(1_000_000))
        stops = lambda: next(asked) >= 3 + lives  # noqa: B023, E731 - called before the next turn
        if outcome_of(spark, given, stops, barrier_seconds=0.0).ending is Ending.FINISHED:
            break
        lives += 1
        assert given.found() <= given.expected()
    assert lives > 1
    assert given.found() == given.expected()


# --- bad records -----------------------------------------------------------------------------------------------------

BAD_SCHEMA = "id BIGINT, k TINYINT NOT NULL, at TIMESTAMP"
BAD_SQL = "SELECT a.id AS aid, b.id AS bid FROM a JOIN b ON a.k = b.k"


def with_bad_records(folder: Path, format_: str, policy: str) -> Given:
    """Rows 3, 5 and 7 of a's first file are bad: out of range, null where that is forbidden, without a time."""
    good = [(n, n % 5, START + n * 1_000_000) for n in range(40)]
    given = Given(folder, BAD_SQL, {"a": BAD_SCHEMA, "b": BAD_SCHEMA}, {"a": good, "b": good}, format_)
    given.more = f", onBadRecord: {policy}"
    given.write()
    path = folder / "a" / f"000.{format_}"
    if format_ == "parquet":
        table = pq.read_table(path)
        wide = table.set_column(1, "k", table["k"].cast(pa.int32()))
        bad = pa.table(
            {
                "id": pa.array([100, 101, 102], pa.int64()),
                "k": pa.array([300, None, 1], pa.int32()),
                "at": pa.array([START, START, None], pa.timestamp("us")),
            }
        )
        pieces = [wide.slice(0, 2), bad.slice(0, 1), wide.slice(2, 1), bad.slice(1, 1), wide.slice(3, 1), bad.slice(2)]
        pq.write_table(pa.concat_tables([*pieces, wide.slice(4)]), path)
        return given
    broken = {
        "csv": ["100,300,2023-11-14T22:13:20", "101,,2023-11-14T22:13:20", "102,1,"],
        "json": [
            '{"id": 100, "k": 300, "at": "2023-11-14T22:13:20Z"}',
            '{"id": 101, "at": "2023-11-14T22:13:20Z"}',
            '{"id": 102, "k": 1}',
        ],
    }[format_]
    end = "\r\n" if format_ == "csv" else "\n"
    text = path.read_bytes().decode().split(end)
    header = 1 if format_ == "csv" else 0
    for place, line in zip((2, 4, 6), broken, strict=True):
        text.insert(header + place, line)
    path.write_bytes(end.join(text).encode())
    return given


@pytest.mark.parametrize("format_", ["csv", "json", "parquet"])
def test_bad_records_are_set_aside_with_what_they_held(spark: Shared, tmp_path: Path, format_: str) -> None:
    given = with_bad_records(tmp_path, format_, "deadLetter")
    outcome = outcome_of(spark, given)
    assert outcome.summary is not None
    first, second = outcome.summary.sources
    assert (first.read, first.joined, first.dead, second.dead) == (43, 40, 3, 0)
    assert given.found() == given.expected()
    dead = {record["row"]: record for record in lines(given.out / "_dead")}
    assert list(dead) == [3, 5, 7]
    for row, (column, identity) in zip((3, 5, 7), (("k", "100"), ("k", "101"), ("at", "102")), strict=True):
        record = dead[row]
        assert (record["source"], record["file"]) == ("a", f"a/000.{format_}")
        assert record["place"].startswith(f"a/000.{format_}, row {row}")
        assert record["raw_base64"] is None and identity in record["raw"]
        assert column in record["place"] or "null" in record["reason"]
    assert "300" in dead[3]["reason"] and "TINYINT" in dead[3]["reason"]
    assert "null" in dead[5]["reason"] and dead[7]["reason"] == "the event time is null"


@pytest.mark.parametrize("format_", ["csv", "json", "parquet"])
def test_bad_records_may_be_dropped(spark: Shared, tmp_path: Path, format_: str) -> None:
    given = with_bad_records(tmp_path, format_, "drop")
    outcome = outcome_of(spark, given)
    assert outcome.summary is not None
    assert (outcome.summary.sources[0].read, outcome.summary.sources[0].dropped) == (43, 3)
    assert not (given.out / "_dead").exists()
    assert given.found() == given.expected()


@pytest.mark.parametrize("format_", ["csv", "json", "parquet"])
def test_a_bad_record_may_fail_the_run_which_then_goes_on(spark: Shared, tmp_path: Path, format_: str) -> None:
    given = with_bad_records(tmp_path, format_, "fail")
    with pytest.raises(QueryError, match=rf"^a/000\.{format_}, row 3, column k: .*300.*; correct it and begin anew"):
        outcome_of(spark, given)
    assert not parts(given.out)
    given.more = ", onBadRecord: deadLetter"
    assert outcome_of(spark, given).ending is Ending.FINISHED
    assert given.found() == given.expected()
    assert len(lines(given.out / "_dead")) == 3


# --- following -------------------------------------------------------------------------------------------------------

FOLLOWED = {
    "tumble": "SELECT a.k, TUMBLE(10 SECONDS) AS start, COUNT(*) AS n, SUM(b.m) AS total"
    " FROM a JOIN b ON a.k = b.k WITHIN 5 SECONDS GROUP BY a.k, TUMBLE(10 SECONDS)",
    "distinct": "SELECT DISTINCT a.k, b.d FROM a JOIN b ON a.k = b.k",
}


@pytest.mark.parametrize("name", FOLLOWED)
def test_following_writes_each_closed_group_and_each_distinct_row_once(
    spark: Shared, tmp_path: Path, name: str
) -> None:
    """New files while it runs; at last one row far ahead on each side closes all that came before it, and a stop in
    between loses nothing."""
    given = two_of(tmp_path, FOLLOWED[name], "json", "  joiners: {replicas: 2}\n", rows=60)
    given.lateness = "10s"
    batches = [
        [(1_000 + row[0], *row[1:-1], row[-1] + 60_000_000) for row in some_rows(7, 40)],
        [(9_000, None, None, None, None, None, None, START + 900_000_000)],  # matches nothing
    ]

    def stop() -> bool:
        """The world outside: a new file for each side once what can be there is there; Ctrl-C after the first."""
        if batches and given.out.exists() and (name == "tumble" or given.found() == given.expected()):
            more = batches.pop(0)
            for source, side in enumerate("ab"):
                given.rows[side] = given.rows[side] + more
                path = given.write_file(source, f".{len(batches)}", more)
                path.rename(path.with_name(f"z{9 - len(batches)}.json"))
            return len(batches) == 1
        return not batches and given.found() == given.expected()

    options = {"follow": True, "barrier_seconds": 0.1}
    assert outcome_of(spark, given, stop, **options).ending is Ending.STOPPED
    assert len(batches) == 1
    assert outcome_of(spark, given, stop, **options).ending is Ending.STOPPED
    assert not batches
    assert given.found() == given.expected()
    assert sum(given.found().values()) > 20
