"""Folders that are given wrongly: a sentence with a remedy before anything is written, and what is there stays."""

from __future__ import annotations

from pathlib import Path

import pytest

from biclique.hosts import embedded
from biclique.hosts.embedded import Ending
from biclique.query.errors import QueryError
from tests.unit.hosts.local_runs import SCHEMA, Given, parts, some_rows


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Given:
    monkeypatch.setattr(embedded, "warm_up", lambda plan: None)
    rows = {"a": some_rows(1, 20), "b": some_rows(2, 20)}
    made = Given(tmp_path, "SELECT a.id FROM a JOIN b ON a.k = b.k", dict.fromkeys("ab", SCHEMA), rows, "csv")
    made.write()
    return made


def everything(folder: Path) -> dict[str, bytes | None]:
    return {str(path): path.read_bytes() if path.is_file() else None for path in sorted(folder.rglob("*"))}


def refused(run: Given, sentence: str, **options: object) -> None:
    """With a remedy, and nothing is other than it was."""
    before = everything(run.folder)
    for restart in (False, True):
        with pytest.raises(QueryError, match=sentence) as error:
            run.run(restart=restart, **options)
        assert error.value.remedy
    assert everything(run.folder) == before


@pytest.mark.parametrize("name", ["out", "out/.", "a/../out", "link"])
@pytest.mark.parametrize("there", [False, True])
def test_a_checkpoint_is_not_the_output_folder_itself(run: Given, name: str, there: bool) -> None:
    (run.folder / "link").symlink_to("out")
    if there:
        run.out.mkdir()
    elif name == "link":
        refused(run, "link: this is a link to nothing", checkpoint=run.folder / name)
        return
    refused(run, "this is the output folder itself", checkpoint=run.folder / name)
    assert run.run().ending is Ending.FINISHED
    refused(run, "this is the output folder itself", checkpoint=run.folder / name)


@pytest.mark.parametrize("name", ["out/ck", "out/_dead", "out/_late/ck"])
def test_a_checkpoint_is_not_among_the_results(run: Given, name: str) -> None:
    refused(run, "it would be taken for a part of the output", checkpoint=run.folder / name)


@pytest.mark.parametrize("name", ["ck", "out/_mine", "out/.mine/ck"])
def test_a_checkpoint_may_be_anywhere_else(run: Given, name: str) -> None:
    ended = iter([False] * 3)
    stopped = run.run(lambda: next(ended, True), checkpoint=run.folder / name, barrier_seconds=0.0)
    assert stopped.ending is Ending.STOPPED
    assert run.run(checkpoint=run.folder / name).ending is Ending.FINISHED
    assert run.found() == run.expected()
    assert run.run(checkpoint=run.folder / name).ending is Ending.NOTHING_TO_DO


def test_a_checkpoint_folder_of_somebody_else_is_left_alone(run: Given) -> None:
    refused(
        run, r"it is not empty \(a\), and is no checkpoint of this query; name an empty folder", checkpoint=run.folder
    )
    (run.folder / "ck" / "blobs").mkdir(parents=True)
    (run.folder / "ck" / "thesis.txt").write_text("years of work")
    refused(run, r"it is not empty \(thesis.txt\)", checkpoint=run.folder / "ck")


def test_paths_where_no_folder_can_be(run: Given) -> None:
    run.out.write_text("a file")
    refused(run, "out: a folder is needed here, and this is a file; give spec.output.files.path")
    run.out.unlink()
    run.out.symlink_to("nowhere")
    refused(run, "out: this is a link to nothing; give spec.output.files.path")
    run.out.unlink()
    csv = parts(run.folder / "a")[0]
    refused(run, "000.csv: a folder is needed here, and this is a file; give --checkpoint", checkpoint=csv)
    refused(run, "000.csv: a folder is needed here, and this is a file; give --checkpoint", checkpoint=csv / "x" / "y")
    impossible = "/proc(/biclique: No such file or directory|: nothing may be written there); give --checkpoint"
    with pytest.raises(QueryError, match=impossible):
        run.run(checkpoint=Path("/proc/biclique/out"))


def test_a_folder_that_may_not_be_written(run: Given, monkeypatch: pytest.MonkeyPatch) -> None:
    """As of a disk that is mounted to be read: root, who runs tests in a container, may write anywhere else."""
    denied = run.folder / "read-only"
    denied.mkdir()
    monkeypatch.setattr("os.access", lambda path, mode: Path(path) != denied)
    refused(run, "read-only: nothing may be written there; give --checkpoint", checkpoint=denied / "ck")


def test_a_part_file_that_is_gone_is_said_to_be(run: Given) -> None:
    assert run.run(checkpoint=run.folder / "ck").ending is Ending.FINISHED
    parts(run.out)[0].unlink()
    with pytest.raises(
        QueryError, match=r"part-000001-0000.csv: it is gone, .*; put it back, or begin anew with --rest"
    ):
        run.run(checkpoint=run.folder / "ck")
    assert run.run(checkpoint=run.folder / "ck", restart=True).ending is Ending.FINISHED
    assert run.found() == run.expected()
