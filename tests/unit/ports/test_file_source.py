"""Which files a source has, in which order, under which ordinals."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from biclique.ports.file_source import FileSource, InputFile, refuse_if_changed
from biclique.query.errors import QueryError

PLACE = "spec.sources[0].files.path"


def write(folder: Path, *names: str) -> None:
    folder.mkdir(exist_ok=True)
    for name in names:
        (folder / name).write_text(name)


def test_a_folder_is_read_in_the_order_of_names_without_hidden_ones(tmp_path: Path) -> None:
    write(tmp_path / "in", "b", "a", "B", "a.crc", "_SUCCESS", ".a.crc", "é", "10", "9")
    found = FileSource(PLACE, str(tmp_path / "in")).discover(())
    assert [file.name for file in found] == ["in/10", "in/9", "in/B", "in/a", "in/a.crc", "in/b", "in/é"]
    assert [file.ordinal for file in found] == list(range(7))


def test_a_path_may_be_one_file(tmp_path: Path) -> None:
    write(tmp_path, "_hidden.csv")
    (found,) = FileSource(PLACE, str(tmp_path / "_hidden.csv")).discover(())
    assert (found.ordinal, found.name, found.size) == (0, "_hidden.csv", 11)


def test_a_later_file_gets_a_later_ordinal_whatever_its_name(tmp_path: Path) -> None:
    write(tmp_path / "in", "m", "n")
    source = FileSource(PLACE, str(tmp_path / "in"))
    known = source.discover(())
    write(tmp_path / "in", "a", "z")
    assert [(file.ordinal, file.name) for file in source.discover(known)] == [(2, "in/a"), (3, "in/z")]


def test_an_unsettled_file_waits_until_it_is_seen_twice_the_same(tmp_path: Path) -> None:
    write(tmp_path / "in", "a")
    source = FileSource(PLACE, str(tmp_path / "in"))
    assert source.discover((), settled=False) == ()
    (tmp_path / "in" / "a").write_text("it grows")
    assert source.discover((), settled=False) == ()
    (found,) = source.discover((), settled=False)
    assert found.size == len("it grows")


def test_a_file_that_changed_is_refused_and_one_that_is_gone_is_not(tmp_path: Path) -> None:
    write(tmp_path / "in", "a")
    source = FileSource(PLACE, str(tmp_path / "in"))
    (file,) = source.discover(())
    refuse_if_changed(file)
    os.utime(file.path, ns=(file.mtime_ns + 1, file.mtime_ns + 1))
    with pytest.raises(QueryError, match=r"^in/a: the file has changed since the run"):
        refuse_if_changed(file)
    os.unlink(file.path)
    refuse_if_changed(file)


def test_a_moved_folder_is_found_again(tmp_path: Path) -> None:
    file = InputFile(0, "in/a", "/elsewhere/in/a", 1, 2)
    write(tmp_path / "in", "a")
    assert FileSource(PLACE, str(tmp_path / "in")).located(file).path == str(tmp_path / "in" / "a")


@pytest.mark.parametrize(
    ("path", "sentence"),
    [("nowhere", "there is no file or folder"), ("outer", "outer/inner is no file, and folders within a folder")],
)
def test_what_cannot_be_read_gets_a_sentence(tmp_path: Path, path: str, sentence: str) -> None:
    (tmp_path / "outer" / "inner").mkdir(parents=True)
    with pytest.raises(QueryError, match=sentence):
        FileSource(PLACE, str(tmp_path / path))
