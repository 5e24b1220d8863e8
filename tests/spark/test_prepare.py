"""`biclique prepare` makes what Java maps in; without it, or with a file that does not fit, Spark starts as before."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import psutil
import pytest

from biclique.hosts.java_classes import archive_path
from biclique.hosts.spark import Spark
from tests.spark.processes import BICLIQUE

LIMIT_S = 600.0  # it takes 20 s of CPU

pytestmark = pytest.mark.spark


def maps_of_java(log: Path) -> str:
    """Of the one that a Spark of ours runs in. A process of its own has it: there is one Spark in a process's life."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as another:
        return another.submit(_maps_of_java, log).result(LIMIT_S)


def _maps_of_java(log: Path) -> str:
    spark = Spark(1, log)
    try:
        spark.wait()
        (java,) = [each for each in psutil.Process().children(recursive=True) if each.name() == "java"]
        return Path(f"/proc/{java.pid}/maps").read_text()
    finally:
        spark.stop()


def test_spark_starts_with_the_classes_that_were_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    command = [BICLIQUE, "prepare"]
    made = subprocess.run(command, capture_output=True, text=True, check=True, timeout=LIMIT_S, env=os.environ)
    archive = archive_path()
    assert made.stdout.startswith(str(archive))
    assert [path.name for path in archive.parent.iterdir()] == [archive.name], "and nothing else is left"
    assert str(archive) in maps_of_java(tmp_path / "with.log")
    archive.unlink()
    archive.write_bytes(b"not what it was")
    assert str(archive) not in maps_of_java(tmp_path / "damaged.log")
