"""docs/first-join.md, done as it is written: its files, its manifest, its commands, and the result that it shows.

Goal: whoever follows the page sees what the page says. Method: a line that is only a file's name in backticks, followed
by a fenced block, is that file; the block under `result` is what must come out.
"""

from __future__ import annotations

import csv
import io
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "first-join.md"
BICLIQUE = Path(sys.executable).with_name("biclique")


def files_of_the_page() -> dict[str, str]:
    return dict(
        re.findall(r"^`([\w.-]+)`\n```\w+\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    )


def commands_of_the_page() -> list[list[str]]:
    return [
        line.split()
        for line in re.findall(r"^\.venv/bin/biclique (.+)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    ]


def rows(text: str) -> set[tuple[str, ...]]:
    return {tuple(row) for row in csv.reader(io.StringIO(text))}


@pytest.mark.spark
def test_the_page_does_what_it_says(tmp_path: Path) -> None:
    files = files_of_the_page()
    expected = files.pop("result")
    folder = tmp_path / "first"
    folder.mkdir()
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    commands = commands_of_the_page()
    assert [command[0] for command in commands] == ["validate", "explain", "run"]
    for command in commands:
        done = subprocess.run([BICLIQUE, *command], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr

    found = set()
    for part in (folder / "out").glob("[!_.]*.csv"):
        header, *body = csv.reader(io.StringIO(part.read_text(encoding="utf-8")))
        assert header[-1] == "_result_id"
        found |= {tuple(row[:-1]) for row in (header, *body)}
    assert found == rows(expected)
    dead = "".join(path.read_text(encoding="utf-8") for path in (folder / "out" / "_dead").rglob("*") if path.is_file())
    assert "a lot" in dead
