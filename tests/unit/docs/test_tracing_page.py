"""docs/tracing.md names the events, spans and settings that there are; its picture is of the spans that it names."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import pytest

from biclique.ports.telemetry_settings import wanted_of
from tests.dataplane.trace_svg import in_order, picture

ROOT = Path(__file__).resolve().parents[3]
PAGE, FOLDER = ROOT / "docs" / "tracing.md", ROOT / "docs" / "tracing"
PACKAGE = ROOT / "jobs" / "src" / "biclique"


def first_cells(text: str, header: str) -> set[str]:
    """Of the table below this header."""
    table = text.split(f"| {header} |", 1)[1].split("\n\n", 1)[0]
    return {name for line in table.splitlines()[2:] for name in re.findall(r"`([^`]+)`", line.split("|")[1])}


def events() -> set[str]:
    found = set()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Dict):
                for key, value in zip(node.keys, node.values, strict=True):
                    if isinstance(key, ast.Constant) and key.value == "event" and isinstance(value, ast.Constant):
                        found.add(str(value.value))
    return found


def test_every_event_is_listed_and_no_other() -> None:
    assert first_cells(PAGE.read_text(encoding="utf-8"), "event | when") == events()


def test_a_line_of_the_log_is_as_the_page_shows_it() -> None:
    (example,) = re.findall(r"^```json\n(.*?)\n```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    line = json.loads(example)
    assert list(line)[:7] == ["time", "level", "query", "tier", "unit", "event", "message"]
    assert line["event"] in events()


def test_the_settings_that_the_page_shows_do_what_it_says() -> None:
    shown = dict(re.findall(r"^export (\w+)=(\S+)", PAGE.read_text(encoding="utf-8"), re.MULTILINE))
    wanted = wanted_of(shown)
    assert wanted.traces and wanted.metrics and wanted.sampler_chosen


@pytest.fixture(scope="module")
def spans() -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads((FOLDER / "one-tuple.json").read_text(encoding="utf-8"))
    return found


def test_the_picture_is_of_the_spans_that_were_kept(spans: list[dict[str, object]]) -> None:
    assert (FOLDER / "one-tuple.svg").read_text(encoding="utf-8") == picture(spans)


def test_they_are_one_trace_through_every_tier(spans: list[dict[str, object]]) -> None:
    assert len({span["trace"] for span in spans}) == 1
    drawn = list(in_order(spans))
    assert len(drawn) == len(spans), "each hangs on the first"
    assert [depth for depth, _ in drawn].count(0) == 1
    assert {span["tier"] for span in spans} == {"shuffler", "dispatcher", "joiner"}
    page = first_cells(PAGE.read_text(encoding="utf-8"), "span | in | is")
    assert {str(span["name"]) for span in spans} - {"route", "commit", "store", "probe", "emit"} <= page
