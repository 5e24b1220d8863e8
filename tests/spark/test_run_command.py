"""`biclique run` as a user has it: a process, Java and all, told by signals, judged by its exit code, words and files.

What only the real thing can show: that Spark's tasks bring what threads bring, that Ctrl-C reaches the right process,
and that no failure is a traceback. Kills are in test_killed.py.
"""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

import pytest

from tests.spark.processes import (
    WAIT_SECONDS,
    barrier,
    big,
    command,
    run,
    wait_until,
)
from tests.unit.hosts.local_runs import FORMATS, SCHEMA, START, Given, parts, some_rows

ROWS = 600_000

pytestmark = pytest.mark.spark


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
    """And what the manifest says to a cluster alone is named, in one line."""
    made = given(tmp_path, format_)
    more = "  topics: {partitions: 8}\n  scaling: {policy: twoPhase}\n  delivery: exactlyOnce\n"
    (tmp_path / "join.yaml").write_text(made.manifest + more, encoding="utf-8")
    done = run(tmp_path, "--json")
    assert done.returncode == 0, done.stderr
    said = done.stderr.splitlines()[0]
    assert said == "biclique: one machine has no use for spec.scaling, spec.topics: it goes on without"
    assert made.found() == made.expected()
    summary = json.loads(done.stdout)
    assert [source["read"] for source in summary["sources"]] == [300, 300]
    assert summary["rows_out"] == sum(made.found().values())


# --- told to stop ---------------------------------------------------------------------------------------------------


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


# --- the other exit codes --------------------------------------------------------------------------------------------


def test_a_unit_without_memory_stops_at_a_checkpoint_with_3(tmp_path: Path) -> None:
    big(tmp_path, ROWS, end="  joiners: {memory: 1Mi}\n")
    done = run(tmp_path)
    assert done.returncode == 3, done.stderr
    assert "a unit has used up its memory (joiners.memory): raise it; or give the query more units" in done.stderr
    assert "the same command goes on from here: biclique run" in done.stderr.splitlines()[-1]
    assert barrier(tmp_path) > 0


def test_spark_that_does_not_start_is_one_sentence_and_4(tmp_path: Path) -> None:
    given(tmp_path, "csv")
    java = tmp_path / "java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text("#!/bin/sh\necho no luck today >&2\nexit 1\n", encoding="utf-8")
    java.chmod(0o755)
    done = run(tmp_path, JAVA_HOME=str(tmp_path / "java"))
    log = tmp_path / "out" / "_checkpoint" / "spark.log"
    assert (done.returncode, done.stdout) == (4, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("biclique: Spark did not start: ") and line.endswith(f"(see {log})")
    assert "no luck today" in log.read_text(encoding="utf-8")


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
            "`biclique run` writes files, and no topics; write `output: {files:",
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
