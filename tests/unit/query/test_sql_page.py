"""docs/sql.md shows the functions that there are, and its examples mean what it says."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from biclique.query.functions import EXTRACT_UNITS, FUNCTIONS, SYNONYMS, Function, Result, usage
from biclique.query.moments import INTERVAL_UNITS
from biclique.query.schema import TYPE_NAMES
from biclique.query.sql import RELATIONS_MAX
from biclique.query.text import NESTING_MAX, TEXT_BYTES_MAX
from tests.model.tree_invariants import DEPTH_MAX, NODES_MAX

PAGE = Path(__file__).parents[3] / "docs" / "sql.md"
BEGIN, END = (
    "<!-- functions: made from query/functions.py by UPDATE_GOLDEN=1 pytest tests/unit/query -->\n",
    ("<!-- end of functions -->"),
)


def row(function: Function) -> str:
    result = function.result.value if isinstance(function.result, Result) else str(function.result)
    return f"| `{usage(function)}` | {result} | {function.meaning} |\n"


def table() -> str:
    return "| function | result | is |\n|---|---|---|\n" + "".join(row(function) for function in FUNCTIONS.values())


def test_the_table_is_that_of_the_code() -> None:
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    shown, _, after = rest.partition(END)
    if os.environ.get("UPDATE_GOLDEN"):
        PAGE.write_text(before + BEGIN + table() + END + after, encoding="utf-8")
        shown = table()
    assert shown == table()


@pytest.mark.parametrize("word", [*TYPE_NAMES, *FUNCTIONS, *SYNONYMS, *EXTRACT_UNITS])
def test_every_name_is_on_the_page(word: str) -> None:
    assert word in PAGE.read_text(encoding="utf-8")


def test_the_bounds_are_those_of_the_code() -> None:
    page = " ".join(PAGE.read_text(encoding="utf-8").split())
    assert f"{TEXT_BYTES_MAX // 1024} kB of text, {NESTING_MAX} parentheses" in page
    assert f"expressions {DEPTH_MAX} deep and of {NODES_MAX} parts" in page
    assert "Two to five relations" in page and RELATIONS_MAX == 5
    assert f"`{INTERVAL_UNITS[0]}` to `{INTERVAL_UNITS[-1]}`" in page
