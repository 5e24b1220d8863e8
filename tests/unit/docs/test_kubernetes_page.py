"""docs/kubernetes.md names every condition and every reason that the operator says, and no other."""

from __future__ import annotations

import re
from pathlib import Path

from biclique_operator.policies import reasons

PAGE = (Path(__file__).parents[3] / "docs/kubernetes.md").read_text(encoding="utf-8")
SAID = {value for name, value in vars(reasons).items() if name.isupper() and isinstance(value, str)}
EVENTS = {reasons.DRIVER_STARTED, reasons.DRIVER_STOPPED}
OF_CONDITIONS = SAID - EVENTS - set(reasons.CONDITIONS) | {reasons.IS_SUSPENDED}


def table(header: str) -> list[list[str]]:
    """Its rows, cell by cell."""
    rows = PAGE.partition(f"| {header} |")[2].partition("\n\n")[0].splitlines()[2:]
    return [re.split(r" \| ", row.strip("| ")) for row in rows]


def names(text: str) -> set[str]:
    return set(re.findall(r"`([A-Za-z]+)`", text))


def test_the_conditions_are_those_of_the_page() -> None:
    assert [cells[0].strip("`") for cells in table("condition")] == list(reasons.CONDITIONS)


def test_the_reasons_are_those_of_the_page() -> None:
    of_conditions = set.union(*(names(cells[2]) for cells in table("condition"))) - {reasons.DEGRADED}
    of_degraded = set.union(*(names(cells[0]) for cells in table("reason of `Degraded`")))
    assert of_conditions | of_degraded == OF_CONDITIONS


def test_the_events_are_those_of_the_page() -> None:
    (sentence,) = re.findall(r"^Events are written .*?\.$", PAGE, re.MULTILINE | re.DOTALL)
    assert names(sentence) - set(reasons.CONDITIONS) == EVENTS
