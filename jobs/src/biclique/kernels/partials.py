"""Partial aggregates: what a joiner makes of a step's matches, and what mergers add up. Exact, in any order.

`Shares` is a batch of rows. A row is a share of one group: its key, for each select item the columns of a partial
state, and the greatest result time in the share. A group may stand in several rows, of one batch or of many; merging
them all, in any order, gives the aggregate over all matches. The states of an item, by what the item is:

| item                          | columns of its state                                                             |
|-------------------------------|----------------------------------------------------------------------------------|
| GROUP BY expression           | none: the value is in the key                                                    |
| COUNT(*), COUNT(x)            | count                                                                            |
| SUM, AVG of integers, DECIMAL | count of values, high, low: the sum is high * 2**32 + low, 0 <= low < 2**32      |
| SUM, AVG of DOUBLEs           | count of values, sum, error: sum + error of the finite ones; special: the sum of |
|                               | the others (NaN, an infinity, or 0.0 for none)                                   |
| MIN, MAX                      | value, null for none                                                             |
| COUNT(DISTINCT x)             | value, null for none: the values of a group are spread over as many rows         |

In a tumbling query the key ends with the start of the window (`window_starts`). `kernels/groups.py` merges and
finishes. A sum of finite doubles is held as two doubles (the second gathers what rounding of the first loses); one
whose running total leaves the range of doubles shows as an infinite `sum`, which the merger reports as an overflow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numba import njit
from numpy.typing import NDArray

from biclique.core.rows import Indexes, Mask, Vector
from biclique.kernels.grouping import Grouping, best_rows, grouped
from biclique.kernels.lanes import Lane, to_vector
from biclique.query.model import Aggregate, AggregateFunction, GroupKey
from biclique.query.types import BIGINT, DOUBLE, Kind, Type

Int64s = NDArray[np.int64]
Doubles = NDArray[np.float64]
State = tuple[Vector, ...]
Value = Aggregate | GroupKey

LOW_BITS = 32
LOW_MASK = (1 << LOW_BITS) - 1
SPLIT_MAX = 2.0**960  # above it Veltkamp's split overflows
SPLITTER = 134_217_729.0  # 2**27 + 1


@dataclass(frozen=True, slots=True)
class Shares:
    keys: tuple[Vector, ...]
    states: tuple[State, ...]
    newest: Int64s

    def __len__(self) -> int:
        return len(self.newest)


@dataclass(frozen=True, slots=True)
class StoredTotals:
    """What a range of stored rows adds up to, for each probing row: `valid` and `sums` of RangeTotals."""

    valid: Int64s
    first: NDArray[np.generic]
    second: NDArray[np.generic]


def state_types(value: Value) -> tuple[Type, ...]:
    """The types of the columns of an item's state."""
    if isinstance(value, GroupKey):
        return ()
    argument = None if value.argument is None else value.argument.type
    match value.function:
        case AggregateFunction.COUNT:
            return (BIGINT,)
        case AggregateFunction.SUM | AggregateFunction.AVG:
            assert argument is not None
            return (BIGINT, DOUBLE, DOUBLE, DOUBLE) if argument.kind is Kind.DOUBLE else (BIGINT, BIGINT, BIGINT)
        case _:
            assert argument is not None
            return (argument,)


def window_starts(times: Int64s, size_us: int) -> Vector:
    """The start of the tumbling window of each result time, as the last key (a TIMESTAMP)."""
    return Vector(times - times % size_us)


def shares_of(
    values: Sequence[Value], keys: Sequence[Vector], arguments: Sequence[Vector | None], newest: Int64s
) -> Shares:
    """Shares of matches. `arguments[i]`: the argument of item i for each match; None for COUNT(*) and group keys."""
    grouping = grouped(keys, len(newest))
    ones = np.ones(len(newest), np.int64)
    states: list[State] = []
    distinct: dict[int, Vector] = {}
    for i, (value, argument) in enumerate(zip(values, arguments, strict=True)):
        if isinstance(value, Aggregate) and value.function is AggregateFunction.COUNT_DISTINCT:
            assert argument is not None
            distinct[i] = argument
            states.append(())
        else:
            states.append(_state(value, grouping, argument, ones))
    return _with_distinct(values, keys, grouping, states, distinct, newest)


def from_totals(
    values: Sequence[Value],
    keys: Sequence[Vector],
    newest: Int64s,
    counts: Int64s,
    sources: Sequence[Vector | StoredTotals | None],
) -> Shares:
    """Shares of all matches of some probing rows without looking at one: `counts` says how many each has.

    `keys` are over the probing side. `sources[i]`: the probing side's argument of item i, or the totals of a column of
    the stored side (then item i is a COUNT, SUM or AVG of it), or None for COUNT(*) and group keys.
    """
    assert len(counts) == 0 or counts.max() < 1 << 31, "a count times a low word must stay inside 64 bits"
    matched = np.flatnonzero(counts > 0)
    keys, newest, counts = [key.take(matched) for key in keys], newest[matched], counts[matched]
    grouping = grouped(keys, len(matched))
    states: list[State] = []
    distinct: dict[int, Vector] = {}
    for i, (value, source) in enumerate(zip(values, sources, strict=True)):
        state: State = ()
        if isinstance(source, StoredTotals):
            state = _stored_state(value, grouping, source, matched)
        else:
            argument = None if source is None else source.take(matched)
            if isinstance(value, Aggregate) and value.function is AggregateFunction.COUNT_DISTINCT:
                assert argument is not None
                distinct[i] = argument
            else:
                state = _state(value, grouping, argument, counts)
        states.append(state)
    return _with_distinct(values, keys, grouping, states, distinct, newest)


def _state(value: Value, grouping: Grouping, argument: Vector | None, counts: Int64s) -> State:
    """The state of one item, one row for each group; row i stands for counts[i] matches."""
    if isinstance(value, GroupKey):
        return ()
    if argument is not None and argument.valid is not None:
        counts = np.where(argument.valid, counts, 0)
    if value.function in (AggregateFunction.MIN, AggregateFunction.MAX):
        assert argument is not None
        best = best_rows(grouping, argument, value.function is AggregateFunction.MAX)
        return (_or_null(argument, best),)
    count = _added(grouping, counts)
    if value.function is AggregateFunction.COUNT:
        return (Vector(count),)
    assert argument is not None
    numbers: Any = argument.values
    if numbers.dtype == np.float64:
        if argument.valid is not None:
            numbers = np.where(argument.valid, numbers, 0.0)
        return (Vector(count), *_double_sums(grouping, numbers, counts))
    return (Vector(count), *_integer_sums(grouping, numbers.astype(np.int64, copy=False), counts))


def _stored_state(value: Value, grouping: Grouping, totals: StoredTotals, matched: Indexes) -> State:
    assert isinstance(value, Aggregate)
    count = Vector(_added(grouping, totals.valid[matched]))
    if value.function is AggregateFunction.COUNT:
        return (count,)
    assert value.function in (AggregateFunction.SUM, AggregateFunction.AVG), value.function
    first: Any = totals.first[matched]
    second: Any = totals.second[matched]
    groups = len(grouping.first)
    if first.dtype == np.float64:
        sums, errors, special = (np.zeros(groups) for _ in range(3))
        _add_pairs(grouping.group_of, first, second, sums, errors, special)
        return (count, Vector(sums), Vector(errors), Vector(special))
    high, low = np.zeros(groups, np.int64), np.zeros(groups, np.int64)
    _add_words(grouping.group_of, first, second, high, low)
    return (count, Vector(high), Vector(low))


def _or_null(vector: Vector, rows: Indexes) -> Vector:
    """The rows, null where the row is -1, with nothing under the nulls."""
    there = rows >= 0
    if there.all():
        return Vector(vector.take(rows).values)
    if len(vector) == 0 or not there.any():
        return _nulls(vector, len(rows))
    from_first = np.where(there, rows, 0)
    return _emptied(vector.take(from_first), there)


def _nulls(vector: Vector, count: int) -> Vector:
    valid = np.zeros(count, np.bool_)
    if isinstance(vector.values, pa.Array):
        return Vector(pa.array([""] * count, pa.string()), valid)
    return Vector(np.zeros(count, vector.values.dtype), valid)


def _emptied(vector: Vector, valid: Mask) -> Vector:
    return to_vector(Lane(vector.values, valid), len(vector))


@njit(cache=True, nogil=True)
def _add_counts(group_of: Indexes, counts: Int64s, total: Int64s) -> None:
    for i in range(len(group_of)):
        total[group_of[i]] += counts[i]


@njit(cache=True, nogil=True)
def _raise_to(group_of: Indexes, times: Int64s, latest: Int64s) -> None:
    for i in range(len(group_of)):
        latest[group_of[i]] = max(latest[group_of[i]], times[i])


def _added(grouping: Grouping, counts: Int64s) -> Int64s:
    total = np.zeros(len(grouping.first), np.int64)
    _add_counts(grouping.group_of, counts, total)
    return total


@njit(cache=True, nogil=True)
def _add_integers(group_of: Indexes, numbers: Int64s, counts: Int64s, high: Int64s, low: Int64s) -> None:
    for i in range(len(group_of)):
        group = group_of[i]
        part = low[group] + (numbers[i] & LOW_MASK) * counts[i]
        high[group] += (numbers[i] >> LOW_BITS) * counts[i] + (part >> LOW_BITS)
        low[group] = part & LOW_MASK


@njit(cache=True, nogil=True)
def _add_words(group_of: Indexes, highs: Int64s, lows: Int64s, high: Int64s, low: Int64s) -> None:
    for i in range(len(group_of)):
        group = group_of[i]
        part = low[group] + (lows[i] & LOW_MASK)
        high[group] += highs[i] + (lows[i] >> LOW_BITS) + (part >> LOW_BITS)
        low[group] = part & LOW_MASK


def _integer_sums(grouping: Grouping, numbers: Int64s, counts: Int64s) -> State:
    groups = len(grouping.first)
    high, low = np.zeros(groups, np.int64), np.zeros(groups, np.int64)
    _add_integers(grouping.group_of, numbers, counts, high, low)
    return (Vector(high), Vector(low))


@njit(cache=True, nogil=True)
def _add_pairs(
    group_of: Indexes, first: Doubles, second: Doubles, sums: Doubles, errors: Doubles, special: Doubles
) -> None:
    """Two-sum: what the rounding of each addition loses is exact, and is gathered in `errors`."""
    for i in range(len(group_of)):
        group = group_of[i]
        if not np.isfinite(first[i]):
            special[group] += first[i]
            continue
        old, value = sums[group], first[i]
        new = old + value
        back = new - old
        sums[group] = new
        if np.isfinite(new):
            errors[group] += ((old - (new - back)) + (value - back)) + second[i]


@njit(cache=True, nogil=True)
def _scaled(numbers: Doubles, counts: Int64s, first: Doubles, second: Doubles) -> None:
    """numbers * counts as pairs, exact: both factors are split into halves whose products have no rounding."""
    for i in range(len(numbers)):
        a, b = numbers[i], float(counts[i])
        product = a * b
        first[i], second[i] = product, 0.0
        if b == 0.0:
            first[i] = 0.0
        elif abs(a) < SPLIT_MAX and np.isfinite(product):
            t = SPLITTER * a
            a_high = t - (t - a)
            a_low = a - a_high
            t = SPLITTER * b
            b_high = t - (t - b)
            b_low = b - b_high
            second[i] = ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


def _double_sums(grouping: Grouping, numbers: Doubles, counts: Int64s) -> State:
    groups = len(grouping.first)
    sums, errors, special = (np.zeros(groups) for _ in range(3))
    if counts.max(initial=1) <= 1:
        first, second = np.where(counts == 1, numbers, 0.0), np.zeros(len(numbers))
    else:
        first, second = np.empty(len(numbers)), np.empty(len(numbers))
        _scaled(numbers, counts, first, second)
        overflow = np.isinf(first) & np.isfinite(numbers)
        if overflow.any():
            # Two halves on the way to infinity: the sum, not the special, must show it.
            most = np.finfo(np.float64).max
            sums[grouping.group_of[overflow]] = np.inf
            first[overflow] = np.copysign(most, first[overflow])
    _add_pairs(grouping.group_of, first, second, sums, errors, special)
    return (Vector(sums), Vector(errors), Vector(special))


def _with_distinct(
    values: Sequence[Value],
    keys: Sequence[Vector],
    grouping: Grouping,
    states: list[State],
    distinct: dict[int, Vector],
    newest: Int64s,
) -> Shares:
    """One row for each group, and more rows for the groups with several distinct values."""
    groups = len(grouping.first)
    latest = np.full(groups, np.iinfo(np.int64).min, np.int64)
    _raise_to(grouping.group_of, newest, latest)
    heads = tuple(key.take(grouping.first) for key in keys)
    if not distinct:
        return Shares(heads, tuple(states), latest)
    found = {i: _distinct_rows(grouping, argument) for i, argument in distinct.items()}
    rows_of_group = np.ones(groups, np.int64)
    for row_of in found.values():
        rows_of_group = np.maximum(rows_of_group, np.bincount(grouping.group_of[row_of], minlength=groups))
    start = np.cumsum(rows_of_group) - rows_of_group
    total = int(rows_of_group.sum())
    group_of_row = np.repeat(np.arange(groups), rows_of_group)
    is_first = np.zeros(total, np.bool_)
    is_first[start] = True
    spread: list[State] = []
    for i, state in enumerate(states):
        if i not in found:
            spread.append(_only_first(values[i], state, group_of_row, is_first))
            continue
        values_of = found[i][np.argsort(grouping.group_of[found[i]], kind="stable")]
        owner = grouping.group_of[values_of]
        place = np.arange(len(owner)) - np.searchsorted(owner, owner) + start[owner]
        rows = np.full(total, -1, np.int64)
        rows[place] = values_of
        spread.append((_or_null(distinct[i], rows),))
    return Shares(tuple(head.take(group_of_row) for head in heads), tuple(spread), latest[group_of_row])


def _distinct_rows(grouping: Grouping, argument: Vector) -> Indexes:
    """The first row of each distinct value of each group, nulls left out."""
    there = np.arange(len(argument)) if argument.valid is None else np.flatnonzero(argument.valid)
    pairs = [Vector(grouping.group_of[there]), Vector(argument.take(there).values)]
    return there[grouped(pairs, len(there)).first]


def _only_first(value: Value, state: State, group_of_row: Indexes, is_first: Mask) -> State:
    """A state that counts once: in the other rows of its group it is that of no match, zero or null."""
    columns = [column.take(group_of_row) for column in state]
    if isinstance(value, Aggregate) and value.function in (AggregateFunction.MIN, AggregateFunction.MAX):
        return tuple(_emptied(c, is_first if c.valid is None else c.valid & is_first) for c in columns)
    return tuple(Vector(np.where(is_first, c.values, np.zeros(1, c.values.dtype))) for c in columns)
