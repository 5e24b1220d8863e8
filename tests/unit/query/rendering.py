"""A checked query as text for golden files: every conversion visible, one line for each thing to compare."""

from __future__ import annotations

from collections.abc import Iterator

from biclique.query.expression import Call, Column, Expression, Literal, Op
from biclique.query.model import Aggregate, Files, GroupKey, Kafka, Query, Window

INFIX = {
    *(Op.EQ, Op.NE, Op.LT, Op.LE, Op.GT, Op.GE, Op.AND, Op.OR, Op.ADD, Op.SUB, Op.MUL, Op.DIV, Op.MOD),
}


def rendered(expression: Expression, names: tuple[tuple[str, tuple[str, ...]], ...]) -> str:
    """`names`: of each relation, its alias and its columns. A literal carries its type, a CAST says to what."""
    if isinstance(expression, Column):
        alias, columns = names[expression.relation]
        return f"{alias}.{columns[expression.field]}"
    if isinstance(expression, Literal):
        value = "null" if expression.value is None else repr(expression.value)
        return f"{value}:{expression.type}"
    assert isinstance(expression, Call)
    args = [rendered(argument, names) for argument in expression.args]
    if expression.op in INFIX:
        return f"({f' {expression.op.value} '.join(args)})"
    name = f"cast[{expression.type}]" if expression.op is Op.CAST else expression.op.value
    return f"{name}({', '.join(args)})"


def rendered_query(query: Query) -> str:
    return "\n".join(_lines(query)) + "\n"


def _lines(query: Query) -> Iterator[str]:
    names = tuple(
        (relation.name, tuple(field.name for field in query.sources[relation.source].fields))
        for relation in query.relations
    )
    yield f"query {query.name}, {query.delivery.value}"
    for source in query.sources:
        fields = ", ".join(f"{f.name} {f.type}{'' if f.nullable else ' NOT NULL'}" for f in source.fields)
        yield f"source {source.name}: {fields}"
        time = source.event_time
        column = "record's own" if time.column is None else source.fields[time.column].name
        yield f"  time: {column}, late after {time.lateness_us} us, ahead by {time.future_skew_max_us} us at most"
        burst = source.bad_record_burst
        yield f"  {_endpoint(source.input)}, bad records: {source.on_bad_record.value}, {burst.count} and {burst.share}"
    for relation, filters in zip(query.relations, query.filters, strict=True):
        source_name = query.sources[relation.source].name
        yield f"relation {relation.name}: {source_name}, {_window(relation.window)}"
        for conjunct in filters:
            yield f"  filter {rendered(conjunct, names)}"
    for conjunct in query.predicates:
        yield f"predicate {rendered(conjunct, names)}"
    for key in query.group_by:
        yield f"group by {rendered(key, names)}:{key.type}"
    if query.tumble_us is not None:
        yield f"tumble {query.tumble_us} us"
    for item in query.items:
        value = item.value
        if isinstance(value, GroupKey):
            text = f"group key {value.position}"
        elif isinstance(value, Aggregate):
            argument = "*" if value.argument is None else rendered(value.argument, names)
            text = f"{value.function.value} of {argument}"
        else:
            text = rendered(value, names)
        yield f"item {item.name} {item.type}: {text}"
    yield f"distinct: {query.distinct}, aggregating: {query.aggregating}"
    yield f"output: {_endpoint(query.output)}"
    yield f"hints: {query.hints}"
    if query.redis is not None:
        yield f"checkpoints: {query.redis}"
    if query.durable is not None:
        yield f"durable: {query.durable}"


def _window(window: Window) -> str:
    if window.tuples is not None:
        return f"the last {window.tuples} tuples"
    return "full history" if window == Window() else f"within {window.time_us} us"


def _endpoint(endpoint: Files | Kafka) -> str:
    if isinstance(endpoint, Files):
        return f"files {endpoint.path} as {endpoint.format.value}"
    secret = f", secret {endpoint.secret}" if endpoint.secret else ""
    return (
        f"topic {endpoint.topic} at {endpoint.bootstrap_servers} as {endpoint.format.value} "
        f"from {endpoint.starting_offsets}{secret}"
    )
