"""docs/metrics.md lists every metric of the catalogue as the catalogue has it, the operator's, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

from biclique.ports.metrics import METRICS, Kind

ROOT = Path(__file__).resolve().parents[3]
PAGE, OPERATOR = ROOT / "docs" / "metrics.md", ROOT / "operator/src/biclique_operator"
KINDS = {Kind.COUNTER: "counter", Kind.TOTAL: "counter", Kind.GAUGE: "gauge", Kind.HISTOGRAM: "histogram"}
Row = tuple[str, ...]


def page() -> tuple[str, str]:
    """Of the tiers, and of the operator."""
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition("## The operator\n")
    ours, _, after = rest.partition("\n## ")
    return before + after, ours


def rows_of(text: str) -> list[Row]:
    found = re.findall(r"^\| `([\w.]+)` \| (.*) \|$", text, re.MULTILINE)
    return [(name, *(cell.strip() for cell in rest.split("|"))) for name, rest in found]


def wanted() -> list[Row]:
    return [
        (
            metric.name,
            KINDS[metric.kind],
            f"`{metric.unit}`",
            ", ".join(metric.tiers),
            ", ".join(f"`{name}`" for name in metric.attributes),
            metric.meaning,
        )
        for metric in METRICS
    ]


def test_the_page_and_the_catalogue_say_the_same() -> None:
    listed, told = rows_of(page()[0]), wanted()
    assert sorted(listed) == sorted(told)
    assert len({row[0] for row in listed}) == len(listed)


def test_every_metric_that_the_page_names_exists() -> None:
    names = {metric.name for metric in METRICS}
    named = set(re.findall(r"`((?:biclique|process)\.[\w.]+)`", page()[0]))
    attributes = {name for metric in METRICS for name in metric.attributes}
    whose = {"biclique.query", "biclique.tier", "biclique.unit", "biclique.incarnation"}
    assert named - attributes - whose == names


def test_the_operators_metrics_are_those_that_it_makes() -> None:
    made = [path.read_text(encoding="utf-8") for path in OPERATOR.rglob("*.py")]
    told = {
        name: unit for text in made for name, unit in re.findall(r'"(biclique\.operator\.[a-z.]+)",\s*"([^"]+)"', text)
    }
    assert {row[0]: row[2].strip("`") for row in rows_of(page()[1])} == told


def test_names_and_units_are_as_the_conventions_have_them() -> None:
    for metric in METRICS:
        assert re.fullmatch(r"[a-z]+(\.[a-z]+)+", metric.name)
        assert metric.unit in ("s", "By", "1") or re.fullmatch(r"\{[a-z]+\}", metric.unit)
        assert (metric.unit == "s") == metric.name.endswith((".duration", ".age", ".delay", ".time"))
        assert metric.meaning.endswith(".") and metric.tiers
