"""What a merger must have written: aggregates, TUMBLE and DISTINCT, computed in plain Python from all results at once.

* Running aggregates: the newest row of a group stands; it is what all results give. Its time is that of one of its
  tuples (counts that come from the index alone do not say which of them is the newest).
* TUMBLE: a group is there once if the watermark has passed the end of its window, and not otherwise.
* DISTINCT in full history: each row once. With a window, in the order of result times: a row is there unless an equal
  one was written less than a window before; what the watermark has not passed yet is not. Its key is of its values.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from biclique.kernels.groups import SumOverflow
from biclique.query.expression import Column, Expression, Scalar
from biclique.query.model import Aggregate, AggregateFunction, GroupKey, Query
from biclique.query.types import Kind
from biclique.tiers.messages import TIME_NEVER, Address, Producer, Results, Topic
from biclique.tiers.progress import MergerProgress
from tests.model.evaluate import Outcome, evaluate, rank
from tests.model.evidence import Evidence, Violation
from tests.model.pieces import Piece, scalars

Key = tuple[object, ...]
PROMISE = "exactly once"
BEYOND_ALL_TIMES = 1 << 62


@dataclass(frozen=True)
class Result:
    """One joined tuple, as all its columns."""

    values: Mapping[Column, Scalar]
    time: int

    def value(self, expression: Expression) -> Scalar:
        found = evaluate(expression, self.values)
        return None if isinstance(found, Outcome) else found


@dataclass(frozen=True)
class Written:
    identity: tuple[int, int]
    row: tuple[Scalar, ...]
    time: int


def standing_violations(evidence: Evidence, found: Sequence[tuple[Piece, ...]]) -> Iterator[Violation]:
    query = evidence.plan.query
    results = results_of(found)
    written = [row for number in range(evidence.plan.mergers) for row in _written(evidence, number)]
    if not query.aggregating:
        yield from _distinct(evidence, results, written)
        yield from _keys_of_rows(written)
        return
    standing: dict[tuple[int, int], Written] = {}
    for row in written:
        if query.tumble_us is not None and row.identity in standing:
            yield Violation(PROMISE, f"group {row.row} is written again, after its window was closed")
        standing[row.identity] = row
    yield from _groups(evidence, results, list(standing.values()))


def results_of(found: Sequence[tuple[Piece, ...]]) -> list[Result]:
    return [
        Result(
            {column: value for piece in pieces for column, value in piece.values.items()},
            max(piece.newest for piece in pieces),
        )
        for pieces in found
    ]


def unfounded_overflow(
    evidence: Evidence, found: Sequence[tuple[Piece, ...]], overflow: SumOverflow
) -> Iterator[Violation]:
    """A run that stopped because a SUM does not fit into its type, and all results are known: it must be so. (A sum of
    whole numbers that are not negative; others may have been too great on the way.)"""
    query = evidence.plan.query
    members: dict[Key, list[Result]] = {}
    for result in results_of(found):
        members.setdefault(_group_key(query, result), []).append(result)
    at, item = next((n, item) for n, item in enumerate(query.items) if item.name == overflow.item)
    sums = [_group_row(query, of)[at] for of in members.values()]
    most = 10**item.type.precision - 1 if item.type.kind is Kind.DECIMAL else (1 << 63) - 1
    if not any(isinstance(total, int) and total > most for total in sums):
        yield Violation("a run stops for a reason", f"{overflow}; the sums are {sums[:8]}")


def _written(evidence: Evidence, number: int) -> Iterator[Written]:
    for _, record in evidence.logs.get(Address(Topic.OUTPUT, f"merger-{number}"), ()):
        assert isinstance(record, Results)
        rows = zip(*map(scalars, record.columns), strict=True) if record.columns else iter([()] * len(record.times))
        identities = zip(record.ids_high.tolist(), record.ids_low.tolist(), strict=True)
        for identity, row, time in zip(identities, rows, record.times.tolist(), strict=True):
            yield Written(identity, row, time)


def _watermark(evidence: Evidence) -> int:
    """Of a merger; there is one for whatever closes windows. When the input has ended, nothing is waited for."""
    if evidence.finished:
        return BEYOND_ALL_TIMES
    progress = evidence.progress.get(Producer("merger", "0"))
    return progress.watermark if isinstance(progress, MergerProgress) else TIME_NEVER


# --- groups ----------------------------------------------------------------------------------------------------------


def _groups(evidence: Evidence, results: Sequence[Result], standing: Sequence[Written]) -> Iterator[Violation]:
    query = evidence.plan.query
    members: dict[Key, list[Result]] = {}
    for result in results:
        members.setdefault(_group_key(query, result), []).append(result)
    if query.tumble_us is not None:
        watermark, size = _watermark(evidence), query.tumble_us
        members = {key: of for key, of in members.items() if _start(of[0].time, size) + size <= watermark}
    due = [(_group_row(query, of), max(result.time for result in of)) for of in members.values()]
    if evidence.finished and not (due or query.group_by or query.tumble_us is not None):
        due = [(_group_row(query, ()), standing[0].time if standing else 0)]  # without GROUP BY there is one row
    left = [(row.row, row.time) for row in standing]
    exact = query.tumble_us is not None
    for row, time in sorted(due, key=lambda group: group[1]):
        alike = [other for other in left if _alike_rows(row, other[0])]
        same = [other for other in alike if other[1] == time or (other[1] < time and not exact)]
        if same:
            left.remove(same[0])
        else:
            yield Violation(PROMISE, f"no row stands for the group {row} of time {time}; there are {left[:4]}")
    for row, time in left:
        yield Violation(PROMISE, f"row {row} of time {time} stands, and no group gives it")


def _group_key(query: Query, result: Result) -> Key:
    values: list[object] = [_identity(result.value(expression)) for expression in query.group_by]
    if query.tumble_us is not None:
        values.append(_start(result.time, query.tumble_us))
    return tuple(values)


def _start(time: int, size: int) -> int:
    return time - time % size


def _group_row(query: Query, members: Sequence[Result]) -> tuple[Scalar, ...]:
    row: list[Scalar] = []
    for item in query.items:
        if isinstance(item.value, GroupKey) and item.value.position == len(query.group_by):
            assert query.tumble_us is not None
            row.append(_start(members[0].time, query.tumble_us))
        elif isinstance(item.value, GroupKey):
            row.append(members[0].value(query.group_by[item.value.position]))
        else:
            assert isinstance(item.value, Aggregate)
            row.append(aggregate(item.value, members))
    return tuple(row)


def aggregate(what: Aggregate, members: Sequence[Result]) -> Scalar:
    if what.argument is None:
        return len(members)
    values = [value for result in members if (value := result.value(what.argument)) is not None]
    match what.function:
        case AggregateFunction.COUNT:
            return len(values)
        case AggregateFunction.COUNT_DISTINCT:
            return len({_identity(value) for value in values})
    if not values:
        return None
    match what.function:
        case AggregateFunction.MIN:
            return min(values, key=rank)
        case AggregateFunction.MAX:
            return max(values, key=rank)
        case AggregateFunction.SUM:
            return _sum(values)
        case _:
            total = _sum(values)
            scale = what.argument.type.scale
            return total / 10**scale / len(values)


def _sum(values: Sequence[Scalar]) -> int | float:
    numbers = [value for value in values if isinstance(value, int | float)]
    if not isinstance(numbers[0], float):
        return sum(numbers)
    if any(math.isnan(number) for number in numbers) or {math.inf, -math.inf} <= set(numbers):
        return math.nan
    return math.fsum(numbers)


def _identity(value: Scalar) -> object:
    """Equal for values that SQL calls equal, nulls and NaN among them."""
    if isinstance(value, float) and math.isnan(value):
        return "NaN", None
    return value


def _alike_rows(one: Sequence[Scalar], other: Sequence[Scalar]) -> bool:
    return len(one) == len(other) and all(map(_alike, one, other))


def _alike(a: Scalar, b: Scalar) -> bool:
    """Sums of DOUBLE may differ in the last digit."""
    if isinstance(a, float) and isinstance(b, float):
        return (math.isnan(a) and math.isnan(b)) or math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9)
    return type(a) is type(b) and a == b


# --- DISTINCT --------------------------------------------------------------------------------------------------------


def _distinct(evidence: Evidence, results: Sequence[Result], written: Sequence[Written]) -> Iterator[Violation]:
    query = evidence.plan.query
    due: Counter[Key] = Counter()
    windows = [relation.window.time_us for relation in query.relations]
    window = None if None in windows else max(window for window in windows if window is not None)
    last: dict[Key, int] = {}
    watermark = _watermark(evidence)
    for result in sorted(results, key=lambda result: result.time):
        row = tuple(_identity(result.value(item.value)) for item in query.items if not _aggregates(item.value))
        if window is None:
            due[row] = 1
        elif result.time < watermark and (row not in last or result.time - last[row] >= window):
            last[row] = result.time
            due[*row, result.time] += 1
    got: Counter[Key] = Counter()
    for line in written:
        key = tuple(_identity(value) for value in line.row)
        got[key if window is None else (*key, line.time)] += 1
    for row in sorted(set(due) | set(got), key=str):
        if due[row] != got[row]:
            yield Violation(PROMISE, f"the row {row} was written {got[row]} times and not {due[row]}")


def _keys_of_rows(written: Sequence[Written]) -> Iterator[Violation]:
    """A row's key is a hash of its values: a reader of the output knows equal rows by it, and no others."""
    rows = {row.identity: tuple(_identity(value) for value in row.row) for row in written}
    keys: dict[Key, tuple[int, int]] = {}
    for row in written:
        values = tuple(_identity(value) for value in row.row)
        if rows[row.identity] != values or keys.setdefault(values, row.identity) != row.identity:
            yield Violation("result ids are unique", f"the row {row.row} has the key {row.identity}, as others have")


def _aggregates(value: object) -> bool:
    return isinstance(value, Aggregate | GroupKey)
