"""README's "See it work", done as it is written: its commands, and the account that it shows. And its demo."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SECTION = (ROOT / "README.md").read_text(encoding="utf-8").partition("## See it work")[2].partition("\n## ")[0]


@pytest.mark.spark
def test_its_commands_do_what_it_shows(tmp_path: Path) -> None:
    commands = [line.partition("  #")[0].split() for line in re.findall(r"^\.venv/bin/.*$", SECTION, re.MULTILINE)]
    assert [command[:2] for command in commands] == [
        [".venv/bin/python", "examples/orders-offers/generate.py"],
        [".venv/bin/biclique", "explain"],
        [".venv/bin/biclique", "run"],
    ]
    shutil.copytree(
        ROOT / "examples" / "orders-offers",
        tmp_path / "examples" / "orders-offers",
        ignore=shutil.ignore_patterns("data", "out"),
    )
    for program, *arguments in commands:
        done = subprocess.run(
            [Path(sys.executable).with_name(Path(program).name), *arguments],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
    (shown,) = re.findall(r"^```\n( +read .*?)```", SECTION, re.MULTILINE | re.DOTALL)
    assert without_times(done.stdout) == without_times(shown)


@pytest.mark.spark
def test_the_demo_agrees_with_the_other_engine(tmp_path: Path) -> None:
    """`make demo` with fewer rows."""
    command = [sys.executable, ROOT / "examples" / "demo.py", "--rows", "20000", "--into", tmp_path / "demo"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "They agree, also on the sums of the ids" in done.stdout
    assert "; 0 result ids are there twice." in done.stdout


def without_times(account: str) -> str:
    """How long it took is another machine's affair."""
    return re.sub(r"^[\d.]+ s from .*$", "", account, flags=re.MULTILINE)
