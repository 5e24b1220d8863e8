"""What each rule makes of a query, before and after: golden/<rule>.txt. BICLIQUE_GOLDEN=write writes the plans anew.

A file is cases between lines of `===`: a comment, options (`# units=4`), SQL, a line of `---`, and the plan.
"""

from __future__ import annotations

import os
import random
from dataclasses import replace
from pathlib import Path

import pytest

from biclique.plan.describe import SideText, describe
from biclique.plan.explain import explain
from biclique.plan.make import RULES, make_plan
from biclique.plan.model import Plan
from biclique.plan.statistics import Statistics, default_statistics
from biclique.query.model import Query
from tests.unit.plan.judge import judge, random_rows
from tests.unit.plan.queries import query

FOLDER = Path(__file__).parent / "golden"
BETWEEN, THEN = "\n===\n", "\n---\n"


def compiled(case: str) -> tuple[Query, Statistics]:
    options: dict[str, object] = {}
    heaviest = 0.0
    lines = case.strip().splitlines()
    for line in lines:
        name, _, value = line.removeprefix("# ").partition("=")
        if line.startswith("# ") and value and " " not in name:
            match name:
                case "units" | "partitions":
                    options[name] = int(value)
                case "kafka":
                    options[name] = value == "yes"
                case "strategy":
                    options[name] = value
                case "subgroups":
                    counts = (part.split(":") for part in value.split())
                    options[name] = {relation: int(count) for relation, count in counts}
                case "tuples":
                    windows = (part.split(":") for part in value.split())
                    options[name] = {relation: int(count) for relation, count in windows}
                case "heaviest":
                    heaviest = float(value)
                case _:
                    raise AssertionError(f"{name} is no option")
    made = query("\n".join(line for line in lines if not line.startswith("#")), **options)  # type: ignore[arg-type]
    assumed = default_statistics(made)
    heavy = tuple(replace(relation, heaviest_key=heaviest) for relation in assumed.relations)
    return made, replace(assumed, relations=heavy)


def summary(plan: Plan, statistics: Statistics) -> str:
    described = describe(plan, statistics)
    lines = [f"order {' '.join(described['order'])}", *described["why"]]
    for stage in described["stages"]:
        lines.append(f"stage {stage['stage']}: {stage['strategy']}")
        lines += [f"  {why}" for why in stage["why"]]
        for side in (stage["left"], stage["right"]):
            lines += side_lines(side)
    return "\n".join(lines)


def side_lines(side: SideText) -> list[str]:
    tuples = side["window_tuples"]
    window = side["window_us"] if tuples is None else f"{tuples} tuples"
    layout = f"{side['subgroups']} x {side['units']} units, window {window}"
    lines = [f"  {'+'.join(side['relations'])}: {side['index']}; {layout}"]
    for name, values in (("key", side["keys"]), ("residual", side["residual"])):
        lines += [f"    {name:<8} {value}" for value in values]
    for name, values in (("route", side["routed_by"]), ("columns", side["columns"])):
        lines += [f"    {name:<8} {', '.join(values)}"] if values else []
    return lines


FILES = sorted(FOLDER.glob("*.txt"))


@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_plans_are_as_written(path: Path) -> None:
    cases = path.read_text().rstrip("\n").split(BETWEEN)
    render = explain if path.stem == "explain" else summary
    made = []
    for case in cases:
        before = case.split(THEN)[0]
        asked, statistics = compiled(before)
        made.append(f"{before.strip()}{THEN}{render(make_plan(asked, statistics), statistics).rstrip()}")
    if os.environ.get("BICLIQUE_GOLDEN") == "write":
        path.write_text(BETWEEN.join(made) + "\n")
    assert cases == made


@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_plans_as_written_find_what_the_sql_asks_for(path: Path) -> None:
    rng = random.Random(path.stem)
    for case in path.read_text().rstrip("\n").split(BETWEEN):
        asked, statistics = compiled(case.split(THEN)[0])
        relations = len(asked.relations)
        plan, types = make_plan(asked, statistics), [field.type for field in asked.sources[0].fields]
        for _ in range(20 if relations < 4 else 2):
            judge(plan, random_rows(rng, types, relations))


def test_every_rule_has_its_file() -> None:
    assert {rule.__name__ for rule in RULES} <= {path.stem for path in FILES}
