"""What docs/manifest.md says of text files: null and the empty string in CSV, NaN in JSON, in and out; and a byte order
mark before it all."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from biclique.hosts import embedded
from biclique.hosts.embedded import Ending
from biclique.hosts.parsing.splitting import BlockMax
from tests.unit.hosts.local_runs import SCHEMA, Given, lines, parts, some_rows

AT = "2026-03-01T00:00:00"


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("biclique.hosts.file_task.BLOCK_MAX", BlockMax(8, 400))
    monkeypatch.setattr(embedded, "warm_up", lambda plan: None)


def given(folder: Path, format_: str, a: str, b: str) -> Given:
    made = Given(
        folder,
        "SELECT a.k, a.s, a.x FROM a JOIN b ON a.k = b.k",
        {"a": "k INT, s STRING, x DOUBLE, at TIMESTAMP", "b": "k INT, at TIMESTAMP"},
        {},
        format_,
    )
    for name, text in (("a", a), ("b", b)):
        (folder / name).mkdir()
        (folder / name / f"0.{format_}").write_text(text, encoding="utf-8")
    return made


def test_in_csv_an_empty_field_is_null_and_a_quoted_one_is_the_empty_string(tmp_path: Path) -> None:
    rows = [f"1,,,{AT}", f'2,"",nan,{AT}', f"3,NULL,inf,{AT}"]
    run = given(
        tmp_path, "csv", "\n".join(["k,s,x,at", *rows, ""]), "\n".join(["k,at", *(f"{k},{AT}" for k in (1, 2, 3)), ""])
    )
    run.run()
    (part,) = parts(run.out)
    found = {line.rpartition(",")[0] for line in part.read_text().splitlines()[1:]}
    assert found == {"1,,", '2,"",nan', '3,"NULL",inf'}


def test_in_json_nan_is_a_string_and_no_bare_word(tmp_path: Path) -> None:
    a = [
        f'{{"k": 1, "s": "", "x": "NaN", "at": "{AT}"}}',
        f'{{"k": 2, "s": null, "x": "-Infinity", "at": "{AT}"}}',
        f'{{"k": 3, "at": "{AT}"}}',
        f'{{"k": 4, "s": "", "x": NaN, "at": "{AT}"}}',
    ]
    b = [json.dumps({"k": k, "at": AT}) for k in (1, 2, 3, 4)]
    run = given(tmp_path, "json", "\n".join([*a, ""]), "\n".join([*b, ""]))
    run.run()
    (part,) = parts(run.out)
    found = {(row["k"], row["s"], row["x"]) for row in map(json.loads, part.read_text().splitlines())}
    assert found == {(1, "", "NaN"), (2, None, "-Infinity"), (3, None, None)}
    (dead,) = lines(run.out / "_dead")
    assert (dead["row"], dead["reason"]) == (4, "no JSON: NaN is not a JSON value")


@pytest.mark.parametrize("format_", ["csv", "json"])
def test_a_byte_order_mark_is_no_part_of_the_first_record(tmp_path: Path, format_: str) -> None:
    """Whether the run goes through or is stopped and gone on with inside the file."""
    rows = {"a": some_rows(1, 60), "b": some_rows(2, 60)}
    sql = "SELECT a.id AS aid, b.id AS bid, a.s FROM a JOIN b ON a.k = b.k WITHIN 5 SECONDS"
    run = Given(tmp_path, sql, dict.fromkeys("ab", SCHEMA), rows, format_, files={"a": [20, 0, 40]})
    run.write()
    for path in (*parts(tmp_path / "a"), *parts(tmp_path / "b")):
        path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    stops = 0
    while run.run(stop=asked(12)).ending is Ending.STOPPED:
        stops += 1
    assert stops
    assert run.found() == run.expected()
    assert not (run.out / "_dead").exists()


def asked(times: int) -> Callable[[], bool]:
    """Ctrl-C, when the engine has been asked so often."""
    count = itertools.count()
    return lambda: next(count) >= times
