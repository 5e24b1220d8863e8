"""What is kept of Java's classes is of one Java and one Spark, and is not asked for where it is not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from biclique.hosts.java_classes import IN_PLACE, QUIET, archive_path, java_of_this_machine, mapped_in
from biclique.hosts.spark_settings import on_this_machine


def java_at(home: Path) -> Path:
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.touch()
    return java


def test_another_java_has_another_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    first, second = java_at(tmp_path / "17"), java_at(tmp_path / "21")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "17"))
    assert java_of_this_machine() == first
    of_first = archive_path()
    os.utime(first, ns=(1, 1))
    assert archive_path() != of_first, "it was updated in its place"
    of_first = archive_path()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "21"))
    assert java_of_this_machine() == second
    assert archive_path() != of_first


def test_it_is_named_where_it_is_there_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "a cache"))
    java_at(tmp_path / "17")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "17"))
    options = "spark.driver.extraJavaOptions"
    assert mapped_in() == ""
    assert on_this_machine("q", 1, "-Da=b")[options] == "-Da=b"
    archive_path().parent.mkdir(parents=True)
    archive_path().touch()
    assert f'"-XX:SharedArchiveFile={archive_path()}"' in on_this_machine("q", 1, "-Da=b")[options]
    assert on_this_machine("q", 1, "-Da=b", archived=False)[options] == "-Da=b"


def test_an_executors_pod_maps_it_in_as_a_driver_does() -> None:
    start = (Path(__file__).parents[3] / "images" / "spark" / "start").read_text()
    assert f'"-XX:SharedArchiveFile=${{classes[0]}}" {IN_PLACE} {QUIET} ' in start
