"""The nested loop: every combination of tuples, tested with plain Python, in full. What a query's output must be.

A result of a plain query is (the ids of its tuples in FROM order, its values); of DISTINCT and of aggregates ((), its
values). `expected` gives all of them as a multiset of `normal` rows; `normal` also takes an engine's rows, so that
the two compare with ==: there is one NaN and no -0.0, and of sums and averages of DOUBLE nine digits count, as their
last ones depend on the order of addition.

Only accepted tuples go in: what is late or dead is another judge's business (tests/model/accounting.py). For a query
without a single result there is no row, even for COUNT without GROUP BY: a running aggregate is written when it
changes.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from biclique.query.expression import Column, Expression, Scalar, relations_of
from biclique.query.model import Aggregate, AggregateFunction, GroupKey, Item, Query
from biclique.query.types import Kind, Type
from tests.model.evaluate import FAILED, Value, evaluate, holds, rank

SUM_DIGITS = 9
Row = tuple[tuple[int, ...], tuple[object, ...]]


class SumOverflows(Exception):
    """The run must stop: (item's name, key of the group)."""


@dataclass(frozen=True, slots=True)
class Tuple:
    """`values`: of all fields of the relation's source. `stamp`: what a window of so many tuples goes by."""

    id: int
    time: int
    values: tuple[Scalar, ...]
    stamp: int = 0


@dataclass(frozen=True, slots=True)
class Match:
    """One tuple of each relation, in FROM order."""

    tuples: tuple[Tuple, ...]
    row: Mapping[Column, Value]

    @property
    def time(self) -> int:
        return max(t.time for t in self.tuples)


def expected(query: Query, relations: Sequence[Sequence[Tuple]]) -> Counter[Row]:
    found = matches(query, relations)
    if query.aggregating:
        rows: Iterable[Row] = (((), values) for values in aggregated(query, found))
    elif query.distinct:
        rows = (((), values) for values in distinct(query, found))
    else:
        rows = ((tuple(t.id for t in match.tuples), selected(query, match)) for match in found)
    return Counter(normal(query, row) for row in rows)


# --- matches ---------------------------------------------------------------------------------------------------------


def matches(query: Query, relations: Sequence[Sequence[Tuple]]) -> Iterator[Match]:
    """A conjunct is tested as soon as its relations are there: for conjuncts that cuts the loops and nothing else."""
    columns = [
        [Column(n, field, query.type_of(n, field)) for field in range(len(query.sources[relation.source].fields))]
        for n, relation in enumerate(query.relations)
    ]
    due: dict[int, list[Expression]] = defaultdict(list)
    for predicate in query.predicates:
        due[max(relations_of(predicate), default=0)].append(predicate)

    def extend(chosen: tuple[Tuple, ...], row: Mapping[Column, Value]) -> Iterator[Match]:
        n = len(chosen)
        if n == len(query.relations):
            if within_window(query, chosen) if not query.counted else among_the_last(query, relations, chosen):
                yield Match(chosen, row)
            return
        for candidate in relations[n]:
            longer = {**row, **dict(zip(columns[n], candidate.values, strict=True))}
            if all(holds(p, longer) for p in (*query.filters[n], *due[n])):
                yield from extend((*chosen, candidate), longer)

    return extend((), {})


def within_window(query: Query, tuples: Sequence[Tuple]) -> bool:
    """Greatest minus least time, against the window of the relation with the least one (of several: the widest)."""
    times = [t.time for t in tuples]
    earliest = [query.relations[n].window for n, time in enumerate(times) if time == min(times)]
    return any(window.time_us is None or max(times) - min(times) <= window.time_us for window in earliest)


def among_the_last(query: Query, relations: Sequence[Sequence[Tuple]], pair: Sequence[Tuple]) -> bool:
    """Whether the older tuple is among the last so many of its relation before the newer one, by stamp. Only tuples
    that pass the relation's filter count."""
    older, newer = sorted(range(2), key=lambda n: pair[n].stamp)
    tuples = query.relations[older].window.tuples
    fields = query.sources[query.relations[older].source].fields
    columns = [Column(older, n, field.type) for n, field in enumerate(fields)]
    between = sum(
        pair[older].stamp <= other.stamp < pair[newer].stamp
        and all(holds(p, dict(zip(columns, other.values, strict=True))) for p in query.filters[older])
        for other in relations[older]
    )
    return tuples is None or between <= tuples


def selected(query: Query, match: Match) -> tuple[Value, ...]:
    return tuple(value_of(item.value, match.row) for item in query.items)


def value_of(expression: Expression | Aggregate | GroupKey, row: Mapping[Column, Value]) -> Value:
    """In a select list, a key or an argument, failed is null."""
    assert not isinstance(expression, Aggregate | GroupKey)
    value = evaluate(expression, row)
    return None if value is FAILED else value


# --- distinct --------------------------------------------------------------------------------------------------------


def distinct(query: Query, found: Iterable[Match]) -> Iterator[tuple[Value, ...]]:
    """Full history: once. Windowed: not while an equal row was written less than one window before, by result times."""
    windows = [relation.window.time_us for relation in query.relations]
    window = None if None in windows else max(windows)
    written: dict[tuple[object, ...], int] = {}
    for match in sorted(found, key=lambda match: match.time):
        values = selected(query, match)
        key = tuple(rank(value) for value in values)
        if key in written and (window is None or match.time - written[key] < window):
            continue
        written[key] = match.time
        yield values


# --- aggregates ------------------------------------------------------------------------------------------------------


def aggregated(query: Query, found: Iterable[Match]) -> Iterator[tuple[Value, ...]]:
    groups: dict[tuple[object, ...], list[Match]] = defaultdict(list)
    for match in found:
        key = tuple(rank(value_of(expression, match.row)) for expression in query.group_by)
        tumble = () if query.tumble_us is None else (match.time // query.tumble_us,)
        groups[(key, tumble)].append(match)
    for members in groups.values():
        yield tuple(result(query, item, members) for item in query.items)


def result(query: Query, item: Item, members: Sequence[Match]) -> Value:
    value = item.value
    if isinstance(value, GroupKey) and value.position == len(query.group_by):
        assert query.tumble_us is not None
        return members[0].time // query.tumble_us * query.tumble_us
    if isinstance(value, GroupKey):
        return value_of(query.group_by[value.position], members[0].row)
    assert isinstance(value, Aggregate)
    if value.argument is None:
        return len(members)
    values = [v for match in members if (v := value_of(value.argument, match.row)) is not None]
    match value.function:
        case AggregateFunction.COUNT:
            return len(values)
        case AggregateFunction.COUNT_DISTINCT:
            return len({rank(v) for v in values})
        case AggregateFunction.MIN:
            return min(values, key=rank, default=None)
        case AggregateFunction.MAX:
            return max(values, key=rank, default=None)
        case _ if not values:
            return None
        case AggregateFunction.SUM:
            return total(item, values, value.argument.type)
        case AggregateFunction.AVG:
            if value.argument.type.kind is Kind.DOUBLE:
                return total(item, values, value.argument.type) / len(values)
            return float(Fraction(sum(values), len(values) * 10**value.argument.type.scale))


def total(item: Item, values: Sequence[Value], argument: Type) -> Value:
    if argument.kind is not Kind.DOUBLE:
        limit = 10**item.type.precision if item.type.kind is Kind.DECIMAL else 2**63
        if not -limit <= sum(values) < limit or sum(values) == -limit != -(2**63):
            raise SumOverflows(item.name)
        return sum(values)
    special = [v for v in values if not math.isfinite(v)]
    if special:
        return sum(special)
    try:
        return float(sum(Fraction(v) for v in values))
    except OverflowError:
        raise SumOverflows(item.name) from None


# --- comparing -------------------------------------------------------------------------------------------------------


def normal(query: Query, row: Row) -> Row:
    """The row in the form in which equal rows are == and hash alike."""
    ids, values = row
    return ids, tuple(normal_value(item, value) for item, value in zip(query.items, values, strict=True))


def normal_value(item: Item, value: Value) -> object:
    if not isinstance(value, float):
        return value
    if math.isnan(value):
        return "NaN"
    summed = isinstance(item.value, Aggregate) and item.value.function in (AggregateFunction.SUM, AggregateFunction.AVG)
    return float(f"{value:.{SUM_DIGITS - 1}e}") + 0.0 if summed and math.isfinite(value) else value + 0.0


def differences(expected: Counter[Row], found: Counter[Row], most: int = 5) -> list[str]:
    """What is missing and what is too many, in words; empty: the two are equal."""
    missing, surplus = expected - found, found - expected
    return [f"missing {n} x {row}" for row, n in missing.most_common(most)] + [
        f"surplus {n} x {row}" for row, n in surplus.most_common(most)
    ]
