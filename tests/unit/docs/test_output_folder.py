"""docs/manifest.md names every file that a run leaves in its output folder, finished or stopped, and every column of
what is set aside."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest

from biclique.hosts import embedded
from biclique.hosts.embedded import Ending
from biclique.hosts.parsing.splitting import BlockMax
from tests.unit.hosts.local_runs import SCHEMA, START, Given, lines, some_rows

ROOT = Path(__file__).resolve().parents[3]
TABLE = (ROOT / "docs" / "manifest.md").read_text(encoding="utf-8").partition("## The output folder")[2]


def named(path: str) -> bool:
    """A folder within `_checkpoint` stands for what is in it; `…` for anything."""
    for name in re.findall(r"`([^`\s]+)`", TABLE):
        pattern = re.sub(r"\d+", r"\\d+", re.escape(name).replace("…", ".*"))
        if re.match(pattern if name.count("/") > 1 and name.endswith("/") else f"{pattern}$", path):
            return True
    return False


def left_behind(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_every_file_is_on_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("biclique.hosts.file_task.BLOCK_MAX", BlockMax(8))
    monkeypatch.setattr(embedded, "warm_up", lambda plan: None)
    given = Given(
        tmp_path,
        "SELECT a.id AS aid, b.id AS bid FROM a JOIN b ON a.k = b.k",
        {"a": SCHEMA, "b": SCHEMA},
        {"a": some_rows(1, 60), "b": some_rows(2, 60)},
        "parquet",
        lateness="0s",
    )
    given.write()
    straggler = (1_000, 1, 1.0, 1, "x", True, 0, START - 10_000_000)
    given.write_file(0, "zzz", [straggler, (1_001, 1, 1.0, 1, "x", True, 0, None)])
    asked = itertools.count()
    assert given.run(stop=lambda: next(asked) >= 12).ending is Ending.STOPPED
    stopped = left_behind(given.out)
    assert given.run().ending is Ending.FINISHED
    finished = left_behind(given.out)
    found = stopped | finished
    assert not [path for path in found if not named(path)]
    assert {path.split("/")[0] for path in finished if not path.startswith("part-")} == {
        "_checkpoint",
        "_dead",
        "_late",
    }
    assert any(path.startswith("_checkpoint/blobs/") for path in stopped - finished)
    for folder, own in (("_dead", ""), ("_late", "_")):
        (record, *_) = lines(given.out / folder)
        columns = {key for key in record if key.startswith(own)} if own else set(record)
        assert all(f"`{column}`" in TABLE for column in columns), columns


def test_the_reader_reads() -> None:
    assert named("part-000012-0003.parquet") and named("_dead/part-000001-0000.json") and named("_checkpoint/spark.log")
    assert not named("_checkpoint/secret") and not named("thesis.txt") and not named("_other/part-000001-0000.json")
