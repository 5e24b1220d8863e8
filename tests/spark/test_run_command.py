"""`biclique run` as a user has it: a process, Java and all, told by signals, judged by its exit code, words and files.

The engine's every step is killed in tests/unit/hosts without Java; here is what only the real thing can show: that
Spark's tasks bring what threads bring, that kill -9 at any moment costs nothing and leaves no process behind, that
Ctrl-C reaches the right one, and that no failure is a traceback.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.unit.hosts.local_runs import FORMATS, SCHEMA, START, Given, parts, some_rows

BICLIQUE = Path(sys.executable).with_name("biclique")
WAIT_SECONDS = 120.0
SEED = 11
ROWS = 2_000_000  # enough for a run of some seconds

pytestmark = pytest.mark.spark


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


def given(folder: Path, format_: str) -> Given:
    made = Given(
        folder,
        "SELECT a.id AS aid, b.id AS bid, a.x, a.m, b.s, b.d, b.at\nFROM a JOIN b ON a.k = b.k AND a.x <= b.x\n"
        "WITHIN 9 SECONDS",
        {"a": SCHEMA, "b": SCHEMA},
        {"a": some_rows(1, 300), "b": some_rows(2, 300)},
        format_,
        files={"a": [100, 200], "b": [300]},
    )
    made.write()
    (folder / "join.yaml").write_text(made.manifest, encoding="utf-8")
    return made


@pytest.mark.parametrize("format_", FORMATS)
def test_files_to_files_are_the_oracles(tmp_path: Path, format_: str) -> None:
    made = given(tmp_path, format_)
    done = run(tmp_path, "--json")
    assert done.returncode == 0, done.stderr
    assert made.found() == made.expected()
    summary = json.loads(done.stdout)
    assert [source["read"] for source in summary["sources"]] == [300, 300]
    assert summary["rows_out"] == sum(made.found().values())


# --- killed ----------------------------------------------------------------------------------------------------------


def big(folder: Path, rows: int = ROWS) -> None:
    """Every row has one partner, in another order."""
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
        f"{sources}\n  sql: SELECT a.id AS aid, b.id AS bid, a.s FROM a JOIN b ON a.k = b.k\n"
        "  output: {files: {path: out}}\n",
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


def judge(folder: Path) -> None:
    ((rows, pairs, ids, wrong),) = duckdb.sql(
        "SELECT count(*), count(DISTINCT (aid, bid)), count(DISTINCT _result_id),"
        f" count(*) FILTER (a.k <> b.k OR o.s <> a.s) FROM '{folder}/out/*.parquet' o"
        f" JOIN '{folder}/a/*.parquet' a ON a.id = aid JOIN '{folder}/b/*.parquet' b ON b.id = bid"
    ).fetchall()
    assert (rows, pairs, ids, wrong) == (ROWS, ROWS, ROWS, 0)


def test_killed_again_and_again_no_pair_is_lost_or_doubled(tmp_path: Path) -> None:
    """Each life is killed a moment after its first barrier, at whatever it is then doing."""
    big(tmp_path)
    rng = random.Random(SEED)
    killed = 0
    for _ in range(3):
        before = max(barrier(tmp_path), 0)
        with subprocess.Popen(command(tmp_path, "--barrier", "0.1"), stderr=subprocess.PIPE, text=True) as process:
            wait_until(lambda: barrier(tmp_path) > before, process)  # noqa: B023 - called before the next turn
            time.sleep(rng.random() * 0.3)
            killed += process.poll() is None
            process.kill()
        wait = time.monotonic() + WAIT_SECONDS
        while java_of(tmp_path):
            assert time.monotonic() < wait, "Java outlives its engine"
            time.sleep(0.05)
    assert killed == 3, "it finished before it was killed: give it more rows"
    done = run(tmp_path, "--barrier", "0.3", "--json")
    assert done.returncode == 0, done.stderr
    judge(tmp_path)
    summary = json.loads(done.stdout)
    assert [(s["read"], s["joined"]) for s in summary["sources"]] == [(ROWS, ROWS)] * 2
    assert summary["rows_out"] == ROWS
    assert not [path for path in (tmp_path / "out").iterdir() if path.name.startswith(".")]
    again = run(tmp_path)
    assert (again.returncode, again.stdout.split(":")[0]) == (0, "This run has finished before")


def test_ctrl_c_stops_at_a_checkpoint_and_says_how_to_go_on(tmp_path: Path) -> None:
    big(tmp_path)
    with subprocess.Popen(
        command(tmp_path, "--barrier", "0.2"), stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        wait_until(lambda: barrier(tmp_path) > 0 and bool(parts(tmp_path / "out")), process)
        process.send_signal(signal.SIGINT)
        said, told = process.communicate(timeout=WAIT_SECONDS)
    assert process.returncode == 130, told
    assert "stopped; the same command goes on from here: biclique run" in told
    assert "Traceback" not in told
    assert "joined" in said
    assert run(tmp_path).returncode == 0
    judge(tmp_path)


def test_following_until_ctrl_c(tmp_path: Path) -> None:
    made = given(tmp_path, "csv")
    first = sum(made.expected().values())
    with subprocess.Popen(
        command(tmp_path, "--follow", "--barrier", "0.2"), stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        wait_until(lambda: bool(parts(made.out)) and sum(made.found().values()) >= first, process)
        more = [(1000 + row[0], *row[1:-1], START + 400_000_000 + row[0]) for row in some_rows(5, 20)]
        for source, name in enumerate("ab"):
            made.rows[name] += more
            hidden = made.write_file(source, ".new", more)
            hidden.rename(hidden.with_name("9.csv"))
        wait_until(lambda: sum(made.found().values()) > first, process)
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=WAIT_SECONDS)
    assert process.returncode == 130, told
    assert made.found() == made.expected()


# --- wrong -----------------------------------------------------------------------------------------------------------


def test_without_java_there_is_a_sentence(tmp_path: Path) -> None:
    given(tmp_path, "csv")
    done = run(tmp_path, PATH=str(tmp_path), JAVA_HOME="")
    assert done.returncode == 2
    assert done.stderr.startswith("biclique: this machine: Spark needs Java, and there is none; install Java 17")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (("path: a,", "path: nowhere,"), "there is no file or folder"),
        (
            ("files: {path: out, format: csv}", "kafka: {bootstrapServers: 'k:9092', topic: t}"),
            "biclique run writes files",
        ),
        (("a.k = b.k", "a.k = b.s"), "spec.sql"),
        (("kind: JoinQuery", "kind: Join Query: 1"), "line 2"),
    ],
)
def test_what_the_user_gave_wrong_gets_one_sentence(tmp_path: Path, change: tuple[str, str], sentence: str) -> None:
    made = given(tmp_path, "csv")
    assert change[0] in made.manifest
    (tmp_path / "join.yaml").write_text(made.manifest.replace(*change), encoding="utf-8")
    done = run(tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_a_file_that_is_no_csv_of_ours_gets_one_sentence(tmp_path: Path) -> None:
    made = given(tmp_path, "csv")
    (tmp_path / "b" / "000.csv").write_text("id,k\n1,2\n", encoding="utf-8")
    done = run(tmp_path)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("biclique: b/000.csv: the header has no column x")
    assert "Traceback" not in done.stderr
    assert not parts(made.out)
