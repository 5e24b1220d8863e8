"""A plan as plain values, from which the text of `explain` is made: what, why, and what it will need."""

from __future__ import annotations

from dataclasses import asdict
from typing import TypedDict

from biclique.index.protocol import IndexKind
from biclique.plan.amounts import number
from biclique.plan.estimate import SideEstimate, StageEstimate, estimate
from biclique.plan.merging import merger_estimate
from biclique.plan.model import LEFT, RIGHT, Access, Plan, Side, Stage, Topic
from biclique.plan.render import range_text, text
from biclique.plan.statistics import Statistics
from biclique.query.model import Query


class SideText(TypedDict):
    relations: list[str]
    columns: list[str]
    window_us: int | None
    window_tuples: int | None
    subgroups: int
    units: int
    index: str
    keys: list[str]
    residual: list[str]
    cost: str
    transport: str
    transport_why: list[str]
    routed_by: list[str]
    rate_per_s: float
    rows: float
    row_bytes: float
    rows_per_unit: float
    stores_per_tuple: float
    probes_per_tuple: float
    messages_per_tuple: float
    candidates_per_probe: float
    comparisons_per_probe: float


class AlternativeText(TypedDict):
    strategy: str
    memory_bytes: float
    traffic_bytes_per_s: float


class StageText(TypedDict):
    stage: int
    strategy: str
    why: list[str]
    left: SideText
    right: SideText
    memory_bytes: float
    unit_bytes: float
    unit_budget_bytes: int
    traffic_bytes_per_s: float
    growth_ratio: list[float]
    results_per_s: float
    alternatives: list[AlternativeText]


class MergerText(TypedDict):
    groups: float
    memory_bytes: float


class RelationText(TypedDict):
    relation: str
    rate_per_s: float
    rows: float
    heaviest_key: float
    distinct_keys: float | None


class AssumedText(TypedDict):
    """`given`: as the user wrote them; all other numbers are the planner's own."""

    relations: list[RelationText]
    shares: dict[str, float]
    string_bytes: float
    delay_s: float
    given: list[str]


class PlanText(TypedDict):
    query: str
    relations: list[str]
    order: list[str]
    why: list[str]
    dispatchers: int
    mergers: int
    merger: MergerText | None
    stages: list[StageText]
    assumed: AssumedText


def describe(plan: Plan, statistics: Statistics) -> PlanText:
    names = [relation.name for relation in plan.query.relations]
    return {
        "query": plan.query.name,
        "relations": names,
        "order": [names[relation] for relation in plan.order],
        "why": [reason.text for reason in plan.reasons if reason.stage is None],
        "dispatchers": plan.dispatchers,
        "mergers": plan.mergers,
        "merger": _merger(plan, statistics),
        "stages": [
            _stage(plan, stage, numbers) for stage, numbers in zip(plan.stages, estimate(plan, statistics), strict=True)
        ],
        "assumed": _assumed(plan.query, statistics),
    }


def _merger(plan: Plan, statistics: Statistics) -> MergerText | None:
    expected = merger_estimate(plan, statistics)
    return None if expected is None else {"groups": expected.groups, "memory_bytes": expected.bytes}


def _assumed(query: Query, statistics: Statistics) -> AssumedText:
    shares = asdict(statistics.selectivities)
    distinct = shares.pop("distinct") or (0.0,) * len(query.relations)
    return {
        "relations": [
            {
                "relation": relation.name,
                "rate_per_s": known.rate,
                "rows": known.rows,
                "heaviest_key": known.heaviest_key,
                "distinct_keys": keys or None,
            }
            for relation, known, keys in zip(query.relations, statistics.relations, distinct, strict=True)
        ],
        "shares": shares,
        "string_bytes": statistics.string_bytes,
        "delay_s": statistics.delay_s,
        "given": list(statistics.given),
    }


def _stage(plan: Plan, stage: Stage, numbers: StageEstimate) -> StageText:
    return {
        "stage": stage.number,
        "strategy": stage.strategy.value,
        "why": [r.text for r in plan.reasons if r.stage == stage.number and r.topic is Topic.ROUTING],
        "left": _side(plan, stage, LEFT, numbers),
        "right": _side(plan, stage, RIGHT, numbers),
        "memory_bytes": numbers.memory_bytes,
        "unit_bytes": numbers.unit_bytes,
        "unit_budget_bytes": plan.query.hints.memory_bytes,
        "traffic_bytes_per_s": numbers.traffic_bytes_per_s,
        "growth_ratio": list(numbers.growth_ratio),
        "results_per_s": numbers.results_per_s,
        "alternatives": [
            {"strategy": a.name, "memory_bytes": a.memory_bytes, "traffic_bytes_per_s": a.traffic_bytes_per_s}
            for a in numbers.alternatives
        ],
    }


def _transport_why(plan: Plan, stage: Stage, side: Side) -> list[str]:
    """Of one relation; empty for partial results, and where there was nothing to choose."""
    name = plan.query.relations[side.relations[0]].name
    said = (r.text for r in plan.reasons if r.stage == stage.number and r.topic is Topic.TRANSPORT)
    return [text.removeprefix(f"{name}: ") for text in said if text.startswith(f"{name}: ")]


def _side(plan: Plan, stage: Stage, place: int, estimates: StageEstimate) -> SideText:
    query, side, numbers = plan.query, stage.sides[place], estimates.sides[place]
    return {
        "relations": names_of(side, query),
        "columns": [text(column, query) for column in side.columns],
        "window_us": side.window_us,
        "window_tuples": None if side.count_window is None else side.count_window.tuples,
        "subgroups": side.subgroups,
        "units": side.units,
        "index": side.access.kind.value,
        "keys": keys_of(side.access, query),
        "residual": [text(conjunct, query) for conjunct in side.access.residual],
        "cost": cost_of(side.access, numbers, estimates.sides[1 - place]),
        "transport": side.transport.value,
        "transport_why": _transport_why(plan, stage, side),
        "routed_by": [text(expression, query) for expression in side.route],
        "rate_per_s": numbers.rate,
        "rows": numbers.rows,
        "row_bytes": numbers.row_bytes,
        "rows_per_unit": numbers.rows_per_unit,
        "stores_per_tuple": numbers.stores_per_tuple,
        "probes_per_tuple": numbers.probes_per_tuple,
        "messages_per_tuple": numbers.messages_per_tuple,
        "candidates_per_probe": numbers.candidates_per_probe,
        "comparisons_per_probe": numbers.comparisons_per_probe,
    }


def names_of(side: Side, query: Query) -> list[str]:
    return [query.relations[relation].name for relation in side.relations]


def keys_of(access: Access, query: Query) -> list[str]:
    equal = [f"{text(stored, query)} = {text(probe, query)}" for stored, probe in access.equal]
    return equal + [range_text(key, query) for key in (access.first, access.second) if key is not None]


def cost_of(access: Access, numbers: SideEstimate, other: SideEstimate) -> str:
    """One sentence about a probe of this side. Where no index serves, it says so, and what that costs."""
    if access.kind is IndexKind.SCAN:
        a_second = numbers.rows_per_unit * other.rate * other.probes_per_tuple / numbers.units
        why = "no condition that an index serves" if access.residual else "no condition at all: every pair matches"
        return (
            f"NO INDEX: {why}; each probe is compared with all {number(numbers.rows_per_unit)} rows of a unit, "
            f"{number(a_second)} comparisons/s in each unit"
        )
    touched, found = number(numbers.comparisons_per_probe), number(numbers.candidates_per_probe)
    return f"{touched} comparisons a probe for {found} candidates"
