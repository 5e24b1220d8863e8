"""What of the chart can be held without Helm: values against their schema, alerts against their pages and the metrics
that there are, dashboards, and the generator of a first look.
"""

from __future__ import annotations

import importlib.util
import json
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from biclique.query.compile import compile_manifest
from biclique_operator.queue import LAST_S

ROOT = Path(__file__).parents[3]
CHART = ROOT / "charts/biclique"
ALERTS = sorted((CHART / "files/alerts").glob("*.yaml"))
DASHBOARDS = sorted((CHART / "files/dashboards").glob("*.json"))
PROMETHEUS_OWN = {"up"}


def test_the_chart_says_what_it_is() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    assert chart["name"] == "biclique" and chart["apiVersion"] == "v2"
    packages = [(ROOT / part / "pyproject.toml").read_text(encoding="utf-8") for part in ("jobs", "operator")]
    assert all(f'version = "{chart["appVersion"].replace("-", ".")}0"' in text for text in packages)


# --- values ----------------------------------------------------------------------------------------------------------


def keys(value: Any, schema: Any, place: str = "") -> Iterator[tuple[str, Any, Any]]:
    yield place, value, schema
    if isinstance(value, dict) and "properties" in schema:
        for key, inner in value.items():
            yield from keys(inner, schema["properties"].get(key, {}), f"{place}.{key}")


def test_every_value_has_a_place_in_the_schema_and_nothing_else_has() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    kinds = {dict: "object", list: "array", bool: "boolean", int: "integer", str: "string", float: "number"}
    for place, value, inner in keys(values, schema):
        allowed = inner.get("type")
        assert allowed, f"{place} is not in values.schema.json"
        fits = kinds[type(value)] in allowed or (isinstance(value, int) and "number" in allowed)
        assert fits, f"{place} is no {allowed}"
        if isinstance(value, dict) and "properties" in inner:
            assert inner["additionalProperties"] is False, place
            given = set(inner["properties"]) - {"global"}
            own = place.endswith((".resources", ".affinity"))  # Kubernetes' words, not ours
            assert given == set(value) or own, place
            assert inner.get("required", []) == ([] if own else [*value]), f"{place}: what is missing is not off"


def test_what_the_schema_says_of_a_value_is_what_the_values_say() -> None:
    def said(node: Any) -> Iterator[str]:
        if isinstance(node, dict):
            yield from (node[key] for key in ("description",) if isinstance(node.get(key), str))
            for inner in node.values():
                yield from said(inner)

    text = (CHART / "values.yaml").read_text(encoding="utf-8")
    comments = " ".join(" ".join(re.findall(r"# ?(.*)", text)).split())
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    found = [each for each in said(schema) if each != "Helm's own, for charts that contain this one."]
    assert len(found) >= 25
    assert [each for each in found if each not in comments] == []


def test_every_value_that_a_template_reads_is_there() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    for path in (CHART / "templates").rglob("*"):
        if path.is_file():
            for read in re.findall(r"\.Values\.([A-Za-z.]+)", path.read_text(encoding="utf-8")):
                inner = values
                for key in read.split("."):
                    assert isinstance(inner, dict) and key in inner, f"{path.name} reads {read}"
                    inner = inner[key]


# --- metrics ---------------------------------------------------------------------------------------------------------


def told() -> set[str]:
    """Every metric of docs/metrics.md, as Prometheus writes it."""
    found: set[str] = set()
    units = {"s": "_seconds", "By": "_bytes"}
    row = re.compile(r"^\| `([a-z_.]+)` \| (counter|gauge|histogram) \| `([^`]+)` \|", re.MULTILINE)
    for name, kind, unit in row.findall((ROOT / "docs/metrics.md").read_text(encoding="utf-8")):
        base = name.replace(".", "_") + units.get(unit, "")
        endings = {"counter": ["_total"], "gauge": [""], "histogram": ["_bucket", "_count", "_sum"]}[kind]
        found |= {base + ending for ending in endings}
    return found


def used(expression: str) -> set[str]:
    return set(re.findall(r"\b(?:biclique|process)_[a-z_]+\b(?=[{\[\s)]|$)", expression)) - labels(expression)


def labels(expression: str) -> set[str]:
    grouped = re.findall(r"\b(?:by|on|without|ignoring) *\(([^)]*)\)", expression)
    return {name.strip() for names in grouped for name in names.split(",")}


def test_the_metrics_are_seen() -> None:
    assert {"biclique_source_lag", "biclique_tuples_total", "biclique_frontier_age_seconds"} <= told()
    assert used('sum by (biclique_query) (rate(biclique_tuples_total{biclique_fate="dead"}[5m]))') == {
        "biclique_tuples_total"
    }


@pytest.mark.parametrize("path", ALERTS, ids=lambda path: path.stem)
def test_an_alert_has_a_page_and_looks_at_what_is_told(path: Path) -> None:
    alert = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert alert["alert"] == path.stem
    assert alert["labels"]["severity"] in {"critical", "warning", "info"}
    assert alert["annotations"].keys() == {"summary", "description"}
    assert used(alert["expr"]) <= told() | PROMETHEUS_OWN, used(alert["expr"]) - told()
    assert used(alert["expr"]) or "up" in alert["expr"]
    page = (ROOT / "docs/runbooks" / f"{path.stem}.md").read_text(encoding="utf-8")
    assert page.startswith(f"# {path.stem}\n")
    assert page.index("## What to look at") < page.index("## What to do")


def test_one_query_that_fails_for_ever_is_alerted_of() -> None:
    """Its turns come no more rarely than this."""
    told = yaml.safe_load((CHART / "files/alerts/BicliqueReconcileFails.yaml").read_text(encoding="utf-8"))
    assert float(told["expr"].rpartition(">")[2]) < 1 / (1.5 * LAST_S)


def test_a_page_is_of_an_alert_and_looks_at_what_is_told() -> None:
    pages = sorted((ROOT / "docs/runbooks").glob("*.md"))
    assert {page.stem for page in pages} == {path.stem for path in ALERTS}
    for page in pages:
        text = page.read_text(encoding="utf-8")
        named = set(re.findall(r"`(biclique_[a-z_]+)`", text))
        known = told() | {name.removesuffix(ending) for name in told() for ending in ("_bucket", "_sum", "_count")}
        attributes = {"biclique_outcome"}
        assert named <= known | attributes, (page.name, named - known)
        for target in re.findall(r"\]\(([^)]+)\)", text):
            assert (page.parent / target.partition("#")[0]).exists(), (page.name, target)


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_a_dashboard_shows_what_is_told(path: Path) -> None:
    board = json.loads(path.read_text(encoding="utf-8"))
    panels = [panel for panel in board["panels"] if panel["type"] != "row"]
    numbers = [panel["id"] for panel in board["panels"]]
    assert len(numbers) == len(set(numbers)) and panels
    variables = {variable["name"] for variable in board["templating"]["list"]}
    for panel in panels:
        for target in panel["targets"]:
            assert used(target["expr"]), target
            assert used(target["expr"]) <= told(), used(target["expr"]) - told()
            read = set(re.findall(r"\$([a-z_]+)", target["expr"])) - {"__rate_interval"}
            assert read <= variables
        at = panel["gridPos"]
        assert at["x"] + at["w"] <= 24


# --- labels ----------------------------------------------------------------------------------------------------------


OF_PROMETHEUS = {"pod", "instance"}  # whose a series is that nobody has added up
OF_TIERS = {"biclique_query", "biclique_tier", "biclique_unit"}
SELECTOR = re.compile(r"\b((?:biclique|process)_[a-z_]+)\b(?:\{([^}]*)\})?(?=[\[\s)]|$)")
MATCHER = re.compile(r"([a-z_]+)(?:=~|!~|!=|=)\"([^\"]*)\"")
ROW = re.compile(r"^\| `([a-z_.]+)` \| (?:counter|gauge|histogram) \| `[^`]+` \|(.*)\|$", re.MULTILINE)


def rows() -> dict[str, tuple[set[str], str]]:
    """Of a metric as docs/metrics.md has it, as Prometheus writes its name without unit and ending: the labels that it
    is told with, and all that is said of it, values of labels among it."""
    found = {}
    for name, rest in ROW.findall((ROOT / "docs/metrics.md").read_text(encoding="utf-8")):
        *_, attributes, _ = rest.split("|")
        own = {label.replace(".", "_") for label in re.findall(r"`([a-z_.]+)`", attributes)}
        found[name.replace(".", "_")] = (own if "operator" in name else own | OF_TIERS), rest
    return found


def row_of(metric: str) -> tuple[set[str], str]:
    known = rows()
    (name,) = [name for name in (metric, *_shorter(metric)) if name in known][:1]
    with_labels, said = known[name]
    return with_labels | ({"le"} if metric.endswith("_bucket") else set()), said


def _shorter(metric: str) -> Iterator[str]:
    """Without its ending, and without its unit."""
    bare = re.sub(r"_(total|bucket|count|sum)$", "", metric)
    yield bare
    yield re.sub(r"_(seconds|bytes)$", "", bare)


def amiss(expression: str, shown: str) -> list[str]:
    """What an expression asks for that no series has. `shown`: the text with labels of its result."""
    selected = [(metric, matchers) for metric, matchers in SELECTOR.findall(expression) if metric in used(expression)]
    found = []
    for metric, matchers in selected:
        known, said = row_of(metric)
        found += [f"{metric} has no {label}" for label in labels(expression) - known]
        for label, values in MATCHER.findall(matchers):
            words = set(values.split("|")) if not values.startswith("$") else set()
            found += [f"{metric} has no {label}"] if label not in known else []
            found += [f"no {label} is {word}" for word in words if not re.search(rf"\b{word}\b", said)]
    left = labels(expression) or set().union(*(row_of(metric)[0] for metric, _ in selected), OF_PROMETHEUS)
    named = set(re.findall(r"\{\{-? *(?:\$labels\.)?([a-z_]+) *-?\}\}", shown))
    return found + [f"{label} is not left to be shown" for label in named - left]


def test_what_no_series_has_is_seen() -> None:
    rate = 'rate(biclique_tuples_total{biclique_fate="dead"}[5m])'
    assert amiss(f"sum by (biclique_source) ({rate})", "{{ $labels.biclique_source }}") == []
    assert amiss(f"sum by (biclique_side) ({rate})", "") == ["biclique_tuples_total has no biclique_side"]
    assert amiss(rate.replace("dead", "died"), "") == ["no biclique_fate is died"]
    assert amiss(rate.replace("biclique_fate", "fate"), "{{pod}}") == ["biclique_tuples_total has no fate"]
    assert amiss(f"sum by (biclique_source) ({rate})", "{{biclique_unit}}") == ["biclique_unit is not left to be shown"]
    assert amiss("sum by (le) (rate(biclique_operator_queue_wait_seconds_count[5m]))", "") == [
        "biclique_operator_queue_wait_seconds_count has no le"
    ]


@pytest.mark.parametrize("path", ALERTS, ids=lambda path: path.stem)
def test_an_alert_asks_for_labels_that_there_are(path: Path) -> None:
    alert = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert amiss(alert["expr"], " ".join(alert["annotations"].values())) == []


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_a_dashboard_asks_for_labels_that_there_are(path: Path) -> None:
    board = json.loads(path.read_text(encoding="utf-8"))
    for panel in board["panels"]:
        for target in panel.get("targets", ()):
            assert amiss(target["expr"], target["legendFormat"]) == [], target
    for variable in board["templating"]["list"]:
        if variable["type"] == "query":
            metric, label = re.findall(r"label_values\((\w+), (\w+)\)", variable["query"]["query"])[0]
            assert metric in told() and label in row_of(metric)[0]


# --- a first look ----------------------------------------------------------------------------------------------------


def load_program() -> Any:
    spec = importlib.util.spec_from_file_location("load", CHART / "files/tryout/load.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_load_fits_the_example() -> None:
    """Each column that the example's schemas have, and no other; times close to the clock."""
    text = (ROOT / "examples/orders-offers/kubernetes.yaml").read_text(encoding="utf-8")
    query = compile_manifest(text)
    rows = load_program().rows(random.Random(1), 7, 1_772_352_000.0)
    assert rows.keys() == {source.name for source in query.sources}
    for source in query.sources:
        assert rows[source.name].keys() == {field.name for field in source.fields}
        assert str(rows[source.name]["at"]).startswith("2026-03-01T07:59:5") or "08:00:00" in rows[source.name]["at"]
    assert set(load_program().TOPICS) >= {source.input.topic for source in query.sources} | {query.output.topic}


def test_the_load_is_as_much_as_was_asked_for_and_no_flood_after_a_pause() -> None:
    due = load_program().due
    assert list(due(10, 100.0, 100.55, 0)) == [0, 1, 2, 3, 4]
    assert list(due(10, 100.0, 100.55, 5)) == []
    assert list(due(10, 100.0, 160.0, 5)) == list(range(590, 600))
    assert list(due(0.5, 100.0, 104.0, 1)) == [1]
