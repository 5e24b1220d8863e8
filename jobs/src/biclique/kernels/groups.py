"""The merger's groups: for each key the state of every select item, in unbounded integers and pairs of doubles.

Merging shares (kernels/partials.py) is associative and commutative but for the last digit of sums of DOUBLE, so that
neither the order in which units report nor a restart in between shows in a result. `snapshots` gives groups back as
shares: a checkpoint is batches that, merged into no groups, make these groups again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from biclique.core.rows import Vector
from biclique.kernels.grouping import NAN, Key, key_rows, scalars
from biclique.kernels.lanes import dtype_of
from biclique.kernels.partials import LOW_BITS, LOW_MASK, Shares, State, state_types
from biclique.query.model import Aggregate, AggregateFunction, GroupKey, Item
from biclique.query.types import Kind, Type

GROUP_BYTES = 300  # a key, its dictionary entry and its list of states
STATE_BYTES = 120
CELL_BYTES = 9  # of a column: a number or where a text begins, and whether it is null
VALUE_BYTES = 80  # a distinct value in a set
TEXT_BYTES = 56  # a text's object, without its characters

Accumulator = list[Any]


class Snapshot(NamedTuple):
    """Part of one. `goes_on`: its first row is of the same group as the last one of the part before; `whole`: the
    groups that are complete with it."""

    shares: Shares
    goes_on: bool
    whole: tuple[Key, ...]


_Row = tuple[Key, list[tuple[Any, ...]]]  # of a snapshot: its group, and a share of each item


class SumOverflow(Exception):
    """A SUM that its type cannot hold stops the run: a wrong number must not be written, and a null would be one."""

    def __init__(self, item: str, key: Key, type_: Type) -> None:
        self.item, self.key, self.type = item, key, type_
        group = f"the group ({', '.join(str(part) for part in key)})" if key else "the result"
        super().__init__(f"SUM in column {item} of {group} does not fit into {type_}; CAST its argument AS DOUBLE")


class Groups:
    """`key_types`: of the GROUP BY expressions, and TIMESTAMP at the end for the window's start in a tumbling query."""

    def __init__(self, items: Sequence[Item], key_types: Sequence[Type]) -> None:
        self._items, self._key_types = tuple(items), tuple(key_types)
        self._rules = tuple(_rule(item) for item in items)
        self._groups: dict[Key, list[Accumulator]] = {}
        self._newest: dict[Key, int] = {}
        self._textual_keys = any(type_.kind is Kind.STRING for type_ in self._key_types)
        self._varying = 0  # bytes of texts and of distinct values, over all groups

    def __len__(self) -> int:
        return len(self._groups)

    def __contains__(self, key: Key) -> bool:
        return key in self._groups

    @property
    def keys(self) -> list[Key]:
        return list(self._groups)

    @property
    def bytes(self) -> int:
        """An estimate from above."""
        return len(self._groups) * self._group_bytes + self._varying

    @property
    def _group_bytes(self) -> int:
        return GROUP_BYTES + STATE_BYTES * len(self._rules)

    def growth(self, shares: Shares, size: int) -> int:
        """By how many bytes merging these may make all greater, about; `size`: of their columns. Groups that are there
        take nothing more, unless they keep values apart."""
        count = len(shares)
        if any(isinstance(rule, Distinct) for rule in self._rules):
            return size + count * (self._group_bytes + VALUE_BYTES)
        new = len({key for key in key_rows(shares.keys, count) if key not in self._groups})
        return new * self._group_bytes + size * new // max(1, count)

    def newest(self, key: Key) -> int:
        """The greatest time of a result in the group."""
        return self._newest[key]

    def merge(self, shares: Shares) -> list[Key]:
        """The keys of the groups that changed, each once, in the order of their first share."""
        changed: dict[Key, None] = {}
        states = [[scalars(column) for column in state] for state in shares.states]
        for row, (key, newest) in enumerate(
            zip(key_rows(shares.keys, len(shares)), shares.newest.tolist(), strict=True)
        ):
            changed[key] = None
            group = self._groups.get(key)
            if group is None:
                group = self._groups[key] = [rule.empty() for rule in self._rules]
                self._newest[key] = newest
                self._varying += text_bytes(key) if self._textual_keys else 0
            self._newest[key] = max(self._newest[key], newest)
            for rule, held, columns in zip(self._rules, group, states, strict=True):
                self._varying += rule.add(held, [column[row] for column in columns])
        return list(changed)

    def rows(self, keys: Iterable[Key]) -> tuple[Vector, ...]:
        """The select list's columns for these groups, as they stand. Raises SumOverflow."""
        keys = list(keys)
        columns: list[list[Any]] = [[] for _ in self._items]
        for key in keys:
            for i, (rule, held) in enumerate(zip(self._rules, self._groups[key], strict=True)):
                columns[i].append(rule.result(held, key))
        return tuple(column_of(item.type, values) for item, values in zip(self._items, columns, strict=True))

    def key_columns(self, keys: Iterable[Key]) -> tuple[Vector, ...]:
        """The keys themselves, as columns: `value_ids` of them name the rows."""
        parts: list[list[Any]] = [[] for _ in self._key_types]
        for key in keys:
            for part, value in zip(parts, key, strict=True):
                part.append(value)
        return tuple(column_of(type_, values) for type_, values in zip(self._key_types, parts, strict=True))

    def begin(self, key: Key) -> None:
        """A group that no match has reached: a COUNT of it is 0, the rest null."""
        assert key not in self._groups
        self._groups[key] = [rule.empty() for rule in self._rules]
        self._newest[key] = 0

    def drop(self, keys: Iterable[Key]) -> None:
        """Forget groups that are closed: a tumbling window that was written."""
        for key in keys:
            self._varying -= text_bytes(key) if self._textual_keys else 0
            self._varying -= sum(rule.bytes(held) for rule, held in zip(self._rules, self._groups[key], strict=True))
            del self._groups[key], self._newest[key]

    def row_bytes(self, key: Key) -> int:
        """Of the group's row and of its name, from above. Without items they are one, and nothing need be held."""
        if not self._rules:
            return _bytes(key)
        return _bytes(key) + sum(
            _bytes((rule.result(held, key),)) if rule.textual else CELL_BYTES
            for rule, held in zip(self._rules, self._groups[key], strict=True)
        )

    def stretches(self, keys: list[Key], groups_max: int, bytes_max: int) -> Iterator[list[Key]]:
        """As many at a time, and of rows and names with no more bytes, or one group only."""
        textual = any(type_.kind is Kind.STRING for type_ in self._key_types)
        if not textual and not any(rule.textual for rule in self._rules):
            # Without texts all are of one size.
            most = bytes_max // max(1, CELL_BYTES * (len(self._key_types) + len(self._rules)))
            most = max(1, min(groups_max, most))
            yield from (keys[start : start + most] for start in range(0, len(keys), most))
            return
        start = size = 0
        for at, key in enumerate(keys):
            more = self.row_bytes(key)
            if at > start and (at - start == groups_max or size + more > bytes_max):
                yield keys[start:at]
                start, size = at, 0
            size += more
        if start < len(keys):
            yield keys[start:]

    def snapshots(self, keys: Iterable[Key], rows_max: int, bytes_max: int) -> Iterator[Snapshot]:
        """Groups as shares: what a checkpoint keeps, and what `merge` takes back, part by part. None has more rows, or
        more bytes if it has more rows than one: the distinct values of a group may be in several."""
        textual = any(
            type_.kind is Kind.STRING for types in (self._key_types, *(r.types for r in self._rules)) for type_ in types
        )
        fixed = CELL_BYTES * (1 + len(self._key_types) + sum(len(rule.types) for rule in self._rules))
        rows: list[_Row] = []
        whole: list[Key] = []
        size, goes_on = 0, False
        for key in keys:
            held = self._groups[key]
            states = [rule.shares(state) for rule, state in zip(self._rules, held, strict=True)]
            name = _bytes(key) if textual else 0
            # Lists as long as the group has rows; a state that has run out adds nothing in the rows that follow.
            for row in range(max(1, *(len(state) for state in states)) if states else 1):
                made = [
                    state[row] if row < len(state) else rule.nothing
                    for rule, state in zip(self._rules, states, strict=True)
                ]
                more = fixed + name + sum(_bytes(part) for part in made) if textual else fixed
                if rows and (len(rows) == rows_max or size + more > bytes_max):
                    yield Snapshot(self._shares(rows), goes_on, tuple(whole))
                    rows, whole, size, goes_on = [], [], 0, row > 0
                rows.append((key, made))
                size += more
            whole.append(key)
        if rows:
            yield Snapshot(self._shares(rows), goes_on, tuple(whole))

    def _shares(self, rows: list[_Row]) -> Shares:
        states: list[State] = []
        for place, rule in enumerate(self._rules):
            parts = [[made[place][i] for _, made in rows] for i in range(len(rule.types))]
            states.append(tuple(column_of(type_, part) for type_, part in zip(rule.types, parts, strict=True)))
        newest: NDArray[np.int64] = np.array([self._newest[key] for key, _ in rows], np.int64)
        return Shares(self.key_columns(key for key, _ in rows), tuple(states), newest)


def text_bytes(values: Iterable[Any]) -> int:
    """Of the texts among them as Python objects, from above."""
    return sum(TEXT_BYTES + (len(v) if v.isascii() else 4 * len(v)) for v in values if isinstance(v, str))


def _bytes(values: tuple[Any, ...]) -> int:
    """As columns hold them, from above and without encoding a text."""
    texts = (len(v) if v.isascii() else 4 * len(v) for v in values if isinstance(v, str))
    return CELL_BYTES * len(values) + sum(texts)


def column_of(type_: Type, values: list[Any]) -> Vector:
    """Plain values (None: null) in the memory form of their type."""
    valid = None
    if any(value is None for value in values):
        valid = np.array([value is not None for value in values], np.bool_)
    if type_.kind is Kind.STRING:
        return Vector(pa.array([value or "" for value in values], pa.string()), valid)
    return Vector(np.array([0 if value is None else value for value in values], dtype_of(type_)), valid)


# --- one rule for each kind of item ----------------------------------------------------------------------------------


class Rule:
    """How the state of an item is held, grows and ends. A group key, as the start of a TUMBLE's span, has no state: its
    value is in the key."""

    nothing: tuple[Any, ...] = ()  # the state of no match

    def __init__(self, item: Item) -> None:
        assert isinstance(item.value, Aggregate | GroupKey), "the items of an aggregating query are aggregates and keys"
        self.item, self.types = item, state_types(item.value)
        self.textual = item.type.kind is Kind.STRING

    def empty(self) -> Accumulator:
        return []

    def add(self, held: Accumulator, share: list[Any]) -> int:
        """Returns by how many bytes the state grew, beyond what any state has."""
        return 0

    def result(self, held: Accumulator, key: Key) -> Any:
        assert isinstance(self.item.value, GroupKey)
        return key[self.item.value.position]

    def shares(self, held: Accumulator) -> list[tuple[Any, ...]]:
        return []

    def bytes(self, held: Accumulator) -> int:
        """All that `add` has returned."""
        return 0


class Count(Rule):
    nothing = (0,)

    def empty(self) -> Accumulator:
        return [0]

    def add(self, held: Accumulator, share: list[Any]) -> int:
        held[0] += share[0]
        return 0

    def result(self, held: Accumulator, key: Key) -> Any:
        return held[0]

    def shares(self, held: Accumulator) -> list[tuple[Any, ...]]:
        return [(held[0],)]


class IntegerSum(Rule):
    """[count, sum]; SUM and AVG of integers, intervals and DECIMALs."""

    nothing = (0, 0, 0)

    def empty(self) -> Accumulator:
        return [0, 0]

    def add(self, held: Accumulator, share: list[Any]) -> int:
        held[0] += share[0]
        held[1] += (share[1] << LOW_BITS) + share[2]
        return 0

    def result(self, held: Accumulator, key: Key) -> Any:
        count, total = held
        if count == 0:
            return None
        aggregate = self.item.value
        assert isinstance(aggregate, Aggregate) and aggregate.argument is not None
        if aggregate.function is AggregateFunction.AVG:
            return total / (count * 10**aggregate.argument.type.scale)
        type_ = self.item.type
        limit = 10**type_.precision if type_.kind is Kind.DECIMAL else 1 << 63
        if total >= limit or total < (-limit if type_.kind is not Kind.DECIMAL else 1 - limit):
            raise SumOverflow(self.item.name, key, type_)
        return total

    def shares(self, held: Accumulator) -> list[tuple[Any, ...]]:
        return [(held[0], held[1] >> LOW_BITS, held[1] & LOW_MASK)]


class DoubleSum(Rule):
    """[count, sum, error, special]."""

    nothing = (0, 0.0, 0.0, 0.0)

    def empty(self) -> Accumulator:
        return [0, 0.0, 0.0, 0.0]

    def add(self, held: Accumulator, share: list[Any]) -> int:
        old, value = held[1], share[1]
        new = old + value
        back = new - old
        held[0] += share[0]
        held[1] = new
        if math.isfinite(new):
            held[2] += ((old - (new - back)) + (value - back)) + share[2]
        held[3] += share[3]
        return 0

    def result(self, held: Accumulator, key: Key) -> Any:
        count, total, error, special = held
        if count == 0:
            return None
        if special != 0.0:  # NaN too
            return special
        total += error
        if not math.isfinite(total):
            raise SumOverflow(self.item.name, key, self.item.type)
        aggregate = self.item.value
        assert isinstance(aggregate, Aggregate)
        return total / count if aggregate.function is AggregateFunction.AVG else total

    def shares(self, held: Accumulator) -> list[tuple[Any, ...]]:
        return [tuple(held)]


class Extreme(Rule):
    """[value], None for none; NaN is the greatest."""

    nothing = (None,)

    def empty(self) -> Accumulator:
        return [None]

    def add(self, held: Accumulator, share: list[Any]) -> int:
        value = share[0]
        if value is None:
            return 0
        aggregate = self.item.value
        assert isinstance(aggregate, Aggregate)
        later = held[0] is None or (
            _above(value, held[0]) if aggregate.function is AggregateFunction.MAX else _above(held[0], value)
        )
        if not later:
            return 0
        before, held[0] = self.bytes(held), value
        return self.bytes(held) - before

    def result(self, held: Accumulator, key: Key) -> Any:
        return held[0]

    def shares(self, held: Accumulator) -> list[tuple[Any, ...]]:
        return [(held[0],)]

    def bytes(self, held: Accumulator) -> int:
        return text_bytes(held) if self.textual else 0


def _above(value: Any, other: Any) -> bool:
    return other is not NAN and (value is NAN or value > other)


class Distinct(Rule):
    """[the set of values], each as `scalars` gives it, so that equal ones are one."""

    nothing = (None,)

    def empty(self) -> Accumulator:
        return [set()]

    def add(self, held: Accumulator, share: list[Any]) -> int:
        value = share[0]
        if value is None or value in held[0]:
            return 0
        held[0].add(value)
        return VALUE_BYTES + text_bytes((value,))

    def result(self, held: Accumulator, key: Key) -> Any:
        return len(held[0])

    def shares(self, held: Accumulator) -> list[tuple[Any, ...]]:
        # In an order that does not depend on the process, so that equal groups have equal checkpoints.
        return [(value,) for value in sorted(held[0], key=lambda value: (value is NAN, 0 if value is NAN else value))]

    def bytes(self, held: Accumulator) -> int:
        return VALUE_BYTES * len(held[0]) + text_bytes(held[0])


def _rule(item: Item) -> Rule:
    value = item.value
    if isinstance(value, GroupKey):
        return Rule(item)
    assert isinstance(value, Aggregate)
    of_double = value.argument is not None and value.argument.type.kind is Kind.DOUBLE
    rules: dict[AggregateFunction, Callable[[Item], Rule]] = {
        AggregateFunction.COUNT: Count,
        AggregateFunction.SUM: DoubleSum if of_double else IntegerSum,
        AggregateFunction.AVG: DoubleSum if of_double else IntegerSum,
        AggregateFunction.MIN: Extreme,
        AggregateFunction.MAX: Extreme,
        AggregateFunction.COUNT_DISTINCT: Distinct,
    }
    return rules[value.function](item)
