"""`biclique explain`: a plan on a screen. A picture of the dataflow, then stage by stage what drives which index, what
is tested on candidates, where tuples go, and what that will need; at the end what was assumed, as no number is better
than it.
"""

from __future__ import annotations

from collections.abc import Iterator

from biclique.plan.amounts import count, number, size, span
from biclique.plan.describe import PlanText, SideText, StageText, describe
from biclique.plan.model import Plan
from biclique.plan.statistics import Statistics
from biclique.query.model import Files, Query
from biclique.routing.protocol import Strategy

LABEL = 12  # width of the names of things
WIDTH = 118


def explain(plan: Plan, statistics: Statistics) -> str:
    described = describe(plan, statistics)
    counts = f"{count(len(described['relations']), 'relation')}, {count(len(described['stages']), 'stage')}"
    lines = [
        f"Plan of {described['query']}: {counts}",
        "",
        *_picture(plan.query, described),
        "",
        *(f"  {why}" for why in described["why"]),
    ]
    for stage in described["stages"]:
        lines += ["", *_stage(stage)]
    if (merger := described["merger"]) is not None:
        held = f"at most {number(merger['groups'])} in all mergers, {size(merger['memory_bytes'])}"
        lines += ["", *_field("groups", [held], LABEL, 0)]
    lines += ["", *_assumed(plan.query, statistics)]
    return "\n".join(line.rstrip() for line in lines) + "\n"


# --- the picture -----------------------------------------------------------------------------------------------------


def _picture(query: Query, described: PlanText) -> Iterator[str]:
    """One relation a line, in join order; each stage is a box that the line above flows into."""
    order = described["order"]
    width = max(len(name) for name in order)
    tiers = f" ─▶ shuffler ─▶ {count(described['dispatchers'], 'dispatcher')} ─"
    boxes = [_box(stage) for stage in described["stages"]]
    into = "into file" if isinstance(query.output, Files) else "into topic"
    output = query.output.path if isinstance(query.output, Files) else query.output.topic
    indent = 0
    for place, name in enumerate(order):
        line = f"  {name:<{width}}{tiers}" + "─" * indent
        if place == 0:
            yield line + "─┐"
            continue
        line += f"─┴─▶ {boxes[place - 1]}"
        if place < len(order) - 1:
            indent += len(f"┴─▶ {boxes[place - 1]} ─")
            yield line + " ─┐"
        else:
            merger = f" ─▶ {count(described['mergers'], 'merger')}" if described["mergers"] else ""
            yield f"{line}{merger} ─▶ {into} {output}"


def _box(stage: StageText) -> str:
    left, right = stage["left"], stage["right"]
    if stage["strategy"] == Strategy.MATRIX.value:
        return f"[stage {stage['stage']}: {left['units']} x {right['units']} units]"
    units = [side["subgroups"] * side["units"] for side in (left, right)]
    return f"[stage {stage['stage']}: {units[0]} + {units[1]} units]"


# --- a stage ---------------------------------------------------------------------------------------------------------


def _stage(stage: StageText) -> Iterator[str]:
    left, right = stage["left"], stage["right"]
    yield f"Stage {stage['stage']}: {_names(left)} with {_names(right)}"
    for stored, probing in ((left, right), (right, left)):
        yield from _side(stored, probing)
    yield ""
    yield from _field("routing", stage["why"])
    if left["routed_by"]:
        pairs = zip(left["routed_by"], right["routed_by"], strict=True)
        yield from _field("by content", [", ".join(f"{one} | {other}" for one, other in pairs)])
    for side in (left, right):
        yield from _field(_names(side), [_movement(side, stage["strategy"])], LABEL)
        for why in side["transport_why"]:
            yield from _field("", [f"travels {why}"], LABEL)
    yield from _field("memory", _memory(stage))
    yield from _field("traffic", [f"{size(stage['traffic_bytes_per_s'])}/s into all units"])
    for other in stage["alternatives"]:
        if other["strategy"] != stage["strategy"]:
            text = f"{size(other['memory_bytes'])} of tuples, {size(other['traffic_bytes_per_s'])}/s"
            yield from _field(f"as {other['strategy']}", [text])
    yield from _field("results", [f"{number(stage['results_per_s'])} pairs/s expected"])


def _side(stored: SideText, probing: SideText) -> Iterator[str]:
    yield f"  {_names(probing)} finds {_names(stored)}"
    yield from _field("index", [f"{stored['index']}: {stored['cost']}"], indent=4)
    yield from _field("keys", stored["keys"], indent=4)
    yield from _field("residual", stored["residual"], indent=4)
    kept = ", ".join(stored["columns"]) or "nothing but id, time and stamp"
    state = (
        f"{number(stored['rows'])} rows of {size(stored['row_bytes'])} ({_window(stored)}), "
        f"{number(stored['rows_per_unit'])} in each unit"
    )
    yield from _field("state", [state, kept], indent=4)


def _window(side: SideText) -> str:
    tuples = side["window_tuples"]
    return span(side["window_us"]) if tuples is None else f"the last {count(tuples, 'tuple')}"


def _movement(side: SideText, strategy: str) -> str:
    stored, probed = side["stores_per_tuple"], side["probes_per_tuple"]
    messages = f"{number(side['messages_per_tuple'])} messages a tuple"
    if strategy == Strategy.MATRIX.value:
        return f"{messages}: stored in and probing {number(stored)} units at once"
    layout = f"{count(side['subgroups'], 'subgroup')} of {count(side['units'], 'unit')}"
    return f"{layout}; {messages}: stored in {number(stored)}, probing {number(probed)}"


def _memory(stage: StageText) -> list[str]:
    share = stage["unit_bytes"] / stage["unit_budget_bytes"]
    fullest = f"{size(stage['unit_bytes'])} with its index in the fullest"
    budget = f"{share:.1%} of its {size(stage['unit_budget_bytes'])}"
    lines = [f"{size(stage['memory_bytes'])} of tuples in all units; {fullest}, {budget}"]
    if share > 1:
        lines.append("MORE THAN A UNIT HAS: the run will stop when it is full; use more units or a shorter window")
    if stage["strategy"] == Strategy.MATRIX.value:
        rows, columns = stage["growth_ratio"]
        lines.append(f"of a new row's memory {rows:.0%} is free for new tuples, of a new column's {columns:.0%}")
    return lines


def _names(side: SideText) -> str:
    return "+".join(side["relations"])


def _field(name: str, values: list[str], width: int = LABEL, indent: int = 2) -> Iterator[str]:
    """`name  value`, further values below the first; a value too long for the screen goes on below itself."""
    label = " " * indent + name.ljust(width - indent) + " "
    for value in values:
        for line in _wrapped(value, WIDTH - len(label)):
            yield label + line
            label = " " * len(label)


def _wrapped(value: str, width: int) -> Iterator[str]:
    while len(value) > width:
        cut = value.rfind(" ", 0, width + 1)
        if cut <= 0:
            break
        yield value[:cut]
        value = "  " + value[cut + 1 :]
    yield value


# --- assumptions -----------------------------------------------------------------------------------------------------


def _assumed(query: Query, statistics: Statistics) -> Iterator[str]:
    s = statistics.selectivities
    rates = ", ".join(
        f"{relation.name} {number(known.rate)}/s and {number(known.rows)} rows stored"
        + (f", {number(s.distinct[n])} keys" if s.distinct and s.distinct[n] else "")
        for n, (relation, known) in enumerate(zip(query.relations, statistics.relations, strict=True))
    )
    yield from _field("assumed", [rates], LABEL, 0)
    shares = (
        f"share of pairs that pass: equality {s.equality:g}, band {s.band:g}, range {s.range:g}, "
        f"inequality {s.inequality:.2g}, other {s.other:g}"
    )
    yield from _field("", [shares], LABEL, 0)
    if statistics.given:
        yield from _field("given", [", ".join(statistics.given)], LABEL, 0)
