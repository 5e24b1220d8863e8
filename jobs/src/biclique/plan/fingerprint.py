"""What the state of a running query depends on, key by key: written down when it begins, compared at every start.

State, blocks under way and progress are read by what is here: names of relations by their place, columns by theirs,
owners by the plan. A manifest that differs in one of these would be answered from state that means something else, or
lacks what the new query asks for; so it is refused. All other keys may change under a query that has begun
(docs/data-plane.md has the table).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from biclique.core.places import row_bits
from biclique.plan.model import Plan
from biclique.plan.render import text
from biclique.query.expression import Call, Expression, Literal
from biclique.query.model import Aggregate, GroupKey, Kafka, Query, Window
from biclique.query.used import used_fields

SHOWN = 120  # characters of a value
PLAN = "the plan"  # made of what is above it, and of how this version of Biclique plans


def fingerprint(plan: Plan) -> dict[str, str]:
    """Key of the manifest -> what it comes to. What is asked comes first: it explains what follows from it."""
    query, by_place = plan.query, _by_place(plan.query)
    found = {
        "spec.sources": ", ".join(source.name for source in query.sources),
        "spec.sql": "; ".join(_sql(query)),
        "WITHIN in spec.sql, or spec.sources[].window": ", ".join(_window(r.window) for r in query.relations),
    }
    for number, source in enumerate(query.sources):
        place = f"spec.sources[{source.name}]"
        fields = [source.fields[field] for field in used_fields(query, number)]
        found[f"{place}.schema"] = ", ".join(f"{field.name} {field.type}" for field in fields)
        time = source.event_time.column
        found[f"{place}.eventTime.column"] = "(the record's own time)" if time is None else source.fields[time].name
        if isinstance(source.input, Kafka):
            found[f"{place}.kafka.topic"] = source.input.topic
            found[f"{place}.kafka.format"] = "many rows a message" if row_bits(source) else "one row a message"
    found["spec.topics.partitions"] = str(plan.dispatchers)
    sides = [(f"stage {stage.number}", side) for stage in plan.stages for side in stage.sides]
    found["spec.plan.strategy"] = ", ".join(stage.strategy.value for stage in plan.stages)
    found["spec.plan.subgroups"] = ", ".join(f"{where}: {side.subgroups}" for where, side in sides)
    behind = [", ".join(text(side.columns[at], by_place) for at in side.payload) or "nothing" for _, side in sides]
    found["spec.plan.transport"] = ", ".join(
        f"{where}: {what} stays behind" for (where, _), what in zip(sides, behind, strict=True)
    )
    found["spec.joiners.replicas"] = ", ".join(f"{where}: {side.units}" for where, side in sides)
    found[PLAN] = "; ".join(_stages(plan, by_place))
    return found


def changed(then: Mapping[str, str], now: Mapping[str, str]) -> str | None:
    """The first key that the state cannot follow, as a sentence; None: it can follow all of them."""
    for key in (*now, *(key for key in then if key not in now)):
        before, after = then.get(key, "(nothing)"), now.get(key, "(nothing)")
        if before != after:
            start = _first_difference(before, after)
            was, is_now = _from(before, start), _from(after, start)
            return (
                f"{key}: it was {was} when this query began and is {is_now} now, which the state it has cannot follow; "
                "restore it, or give the query a new name to begin anew"
            )
    return None


def _first_difference(before: str, after: str) -> int:
    """Where to begin to show two texts: long ones shortly before they differ."""
    if max(len(before), len(after)) <= SHOWN:
        return 0
    pairs = enumerate(zip(before, after, strict=False))
    return max(0, next((n for n, (a, b) in pairs if a != b), min(len(before), len(after))) - SHOWN // 4)


def _from(value: str, start: int) -> str:
    shown = value[start : start + SHOWN]
    return f"`{'…' if start else ''}{shown}{'…' if start + len(shown) < len(value) else ''}`"


def _sql(query: Query) -> Iterator[str]:
    """Canonical: aliases and names of result columns may change, and so may spelling."""
    named = _by_place(query)
    yield "FROM " + ", ".join(query.sources[relation.source].name for relation in query.relations)
    for conjunct in (*(one for filters in query.filters for one in filters), *query.predicates):
        yield _exact(conjunct, named)
    kind = "SELECT DISTINCT" if query.distinct else "SELECT"
    yield f"{kind} " + ", ".join(_item(item.value, named) for item in query.items)
    if query.group_by:
        yield "GROUP BY " + ", ".join(_exact(key, named) for key in query.group_by)
    if query.tumble_us is not None:
        yield f"TUMBLE {query.tumble_us} us"


def _item(value: Expression | Aggregate | GroupKey, query: Query) -> str:
    match value:
        case Aggregate(function, argument, _):
            return f"{function.value}({'*' if argument is None else _exact(argument, query)})"
        case GroupKey(position, _):
            return f"key {position}"
        case _:
            return _exact(value, query)


def _exact(expression: Expression, query: Query) -> str:
    """As `explain` writes it, and, where that rounds, each literal to its last digit."""
    rounded = [repr(value) for value in _doubles(expression)]
    return text(expression, query) + (f" [{', '.join(rounded)}]" if rounded else "")


def _doubles(expression: Expression) -> Iterator[float]:
    match expression:
        case Literal(value, _) if isinstance(value, float):
            yield value
        case Call(_, args, _):
            for arg in args:
                yield from _doubles(arg)


def _window(window: Window) -> str:
    if window.tuples is not None:
        return f"{window.tuples} tuples"
    return "full history" if window.time_us is None else f"{window.time_us} us"


def _stages(plan: Plan, query: Query) -> Iterator[str]:
    for stage in plan.stages:
        for side in stage.sides:
            held = ", ".join(f"{text(column, query)} {column.type}" for column in side.columns) or "nothing"
            route = ", ".join(text(expression, query) for expression in side.route) or "chance"
            yield f"stage {stage.number} holds relations {side.relations} with {held}, by {route}"
    yield f"{plan.mergers} mergers"


def _by_place(query: Query) -> Query:
    """Whatever its aliases are."""
    return replace(query, relations=tuple(replace(r, name=f"${n}") for n, r in enumerate(query.relations)))
