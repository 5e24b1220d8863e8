"""Groups: what overflows, what a collision of hashes does, what a checkpoint holds."""

from __future__ import annotations

import math

import numpy as np
import pytest

from biclique.kernels.grouping import grouped_by
from biclique.kernels.groups import Groups, SumOverflow
from biclique.kernels.partials import Shares, shares_of, window_starts
from biclique.query.expression import Column
from biclique.query.model import Aggregate, AggregateFunction, GroupKey, Item
from biclique.query.types import BIGINT, DOUBLE, STRING, Type, decimal
from tests.model.domains import plain, vector

MAX = 2**63 - 1


def item(function: AggregateFunction, argument: Type, result: Type) -> Item:
    return Item("total", Aggregate(function, Column(0, 0, argument), result), result)


def shares(items: list[Item], key: list, values: list, type_: Type, key_type: Type = STRING) -> Shares:
    arguments = [None if isinstance(i.value, GroupKey) else vector(type_, values) for i in items]
    newest = np.arange(len(key), dtype=np.int64)
    return shares_of([i.value for i in items], [vector(key_type, key)], arguments, newest)


def test_a_sum_may_leave_64_bits_and_come_back() -> None:
    items = [item(AggregateFunction.SUM, BIGINT, BIGINT)]
    groups = Groups(items, [STRING])
    groups.merge(shares(items, ["a"] * 3, [MAX, MAX, MAX], BIGINT))
    with pytest.raises(SumOverflow) as stop:
        groups.rows(groups.keys)
    assert str(stop.value) == (
        "SUM in column total of the group (a) does not fit into BIGINT; CAST its argument AS DOUBLE"
    )
    groups.merge(shares(items, ["a"] * 2, [-MAX, -MAX], BIGINT))
    assert plain(groups.rows(groups.keys)[0]) == [MAX]


def test_a_decimal_sum_has_the_digits_of_its_type() -> None:
    money, sum_type = decimal(18, 2), decimal(18, 2)
    items = [item(AggregateFunction.SUM, money, sum_type)]
    groups = Groups(items, [STRING])
    groups.merge(shares(items, ["a"], [10**18 - 1], money))
    assert plain(groups.rows(groups.keys)[0]) == [10**18 - 1]
    groups.merge(shares(items, ["a"], [1], money))
    with pytest.raises(SumOverflow):
        groups.rows(groups.keys)


def test_a_sum_of_doubles_keeps_what_rounding_loses_and_knows_infinities() -> None:
    items = [item(AggregateFunction.SUM, DOUBLE, DOUBLE)]
    groups = Groups(items, [STRING])
    values = [1e16, 1.0, -1e16, 1.0] * 100
    groups.merge(shares(items, ["a"] * 400, values, DOUBLE))
    assert plain(groups.rows([("a",)])[0]) == [200.0]
    groups.merge(shares(items, ["b"] * 2, [math.inf, 1.0], DOUBLE))
    groups.merge(shares(items, ["c"] * 2, [math.inf, -math.inf], DOUBLE))
    found = plain(groups.rows([("b",), ("c",)])[0])
    assert found[0] == math.inf and math.isnan(found[1])
    groups.merge(shares(items, ["d"] * 2, [1.7e308, 1.7e308], DOUBLE))
    with pytest.raises(SumOverflow, match=r"the group \(d\)"):
        groups.rows([("d",)])


def test_changed_groups_come_once_in_the_order_of_their_shares() -> None:
    items = [Item("k", GroupKey(0, STRING), STRING), item(AggregateFunction.COUNT_DISTINCT, BIGINT, BIGINT)]
    groups = Groups(items, [STRING])
    assert groups.merge(shares(items, ["b", "a", "b", "b"], [1, 2, 3, 1], BIGINT)) == [("b",), ("a",)]
    assert [plain(c) for c in groups.rows([("a",), ("b",)])] == [["a", "b"], [1, 2]]
    assert groups.newest(("b",)) == 3
    assert plain(groups.key_columns([("b",)])[0]) == ["b"]
    before = groups.bytes
    assert groups.merge(shares(items, ["b"], [1], BIGINT)) == [("b",)] and groups.bytes == before
    groups.merge(shares(items, ["b"], [9], BIGINT))
    assert groups.bytes > before


def test_bytes_come_and_go_with_texts_and_values() -> None:
    """What is counted as it comes and goes is what the same groups count when they are made at once."""
    items = [
        Item("k", GroupKey(0, STRING), STRING),
        item(AggregateFunction.COUNT_DISTINCT, STRING, BIGINT),
        item(AggregateFunction.MAX, STRING, STRING),
        item(AggregateFunction.MIN, STRING, STRING),
    ]
    rng = np.random.default_rng(5)
    texts = [None, "", "é" * 50, "ab", "x" * 1000, "b" * 300, "a" * 7]
    groups = Groups(items, [STRING])
    for _ in range(60):
        keys, values = ([texts[i] for i in rng.integers(0, len(texts), 3)] for _ in range(2))
        groups.merge(shares(items, keys, values, STRING))
        if rng.random() < 0.4:
            groups.drop(groups.keys[: int(rng.integers(0, 3))])
        again = Groups(items, [STRING])
        for part in groups.snapshots(groups.keys, 100, 1 << 20):
            again.merge(part.shares)
        assert again.bytes == groups.bytes
        assert groups.bytes >= sum(len((text or "").encode()) for key in groups.keys for text in held(groups, key))
    groups.drop(groups.keys)
    assert groups.bytes == 0


def held(groups: Groups, key: tuple) -> list:
    """The texts that the group of the key holds: its distinct ones, its greatest and its least."""
    _, distinct, greatest, least = groups._groups[key]
    return [*key, *distinct[0], greatest[0], least[0]]


def test_a_snapshot_does_not_depend_on_the_order_of_arrival() -> None:
    items = [item(AggregateFunction.COUNT_DISTINCT, STRING, BIGINT)]
    first, second = Groups(items, [STRING]), Groups(items, [STRING])
    first.merge(shares(items, ["k"] * 4, ["x", "é", "", "y"], STRING))
    second.merge(shares(items, ["k"] * 4, ["y", "", "é", "x"], STRING))
    for groups in (first, second):
        (snapshot,) = groups.snapshots(groups.keys, 4, 1 << 20)
        assert plain(snapshot.shares.states[0][0]) == ["", "x", "y", "é"]


@pytest.mark.parametrize(("rows_max", "bytes_max"), [(1, 1 << 20), (7, 1 << 20), (1 << 20, 1), (1 << 20, 200)])
def test_the_parts_of_a_snapshot_are_bounded_also_within_a_group(rows_max: int, bytes_max: int) -> None:
    items = [
        Item("k", GroupKey(0, STRING), STRING),
        item(AggregateFunction.COUNT_DISTINCT, STRING, BIGINT),
        item(AggregateFunction.MAX, STRING, STRING),
    ]
    groups = Groups(items, [STRING])
    groups.merge(shares(items, ["k", "long" * 20, "k"] * 10, ["x" * (i % 19) for i in range(30)], STRING))
    again, parts = Groups(items, [STRING]), list(groups.snapshots(groups.keys, rows_max, bytes_max))
    assert [key for part in parts for key in part.whole] == groups.keys, "each is whole once"
    begun = 0
    for part, goes_on in [(part.shares, part.goes_on) for part in parts]:
        begun += len(set(plain(part.keys[0]))) - goes_on
        size = sum(column.nbytes for column in (*part.keys, *(c for state in part.states for c in state)))
        assert len(part) <= rows_max and (size <= bytes_max or len(part) == 1)
        again.merge(part)
    assert len(parts) > 2 and again.bytes == groups.bytes
    assert begun == len(groups), "a part says whether its first group began before"
    assert [plain(c) for c in again.rows(groups.keys)] == [plain(c) for c in groups.rows(groups.keys)]
    assert [again.newest(key) for key in groups.keys] == [groups.newest(key) for key in groups.keys]


@pytest.mark.parametrize(("groups_max", "bytes_max"), [(3, 1 << 20), (1 << 20, 300), (5, 300), (1 << 20, 1)])
@pytest.mark.parametrize("key_type", [STRING, BIGINT])
def test_groups_are_cut_by_the_bytes_of_their_rows(groups_max: int, bytes_max: int, key_type: Type) -> None:
    items = [Item("k", GroupKey(0, key_type), key_type), item(AggregateFunction.MIN, BIGINT, BIGINT)]
    groups = Groups(items, [key_type])
    names = [i if key_type == BIGINT else "é" * (i % 7) + str(i) for i in range(50)]
    groups.merge(shares(items, names, list(range(50)), BIGINT, key_type))
    cut = list(groups.stretches(groups.keys, groups_max, bytes_max))
    assert [key for some in cut for key in some] == groups.keys and len(cut) > 4
    for some in cut:
        size = sum(column.nbytes for column in (*groups.rows(some), *groups.key_columns(some)))
        assert len(some) <= groups_max and (size <= bytes_max or len(some) == 1)


def test_equal_hashes_do_not_make_equal_rows() -> None:
    """Hashes that know two values only: what they say must be proved."""
    weak = np.array([1, 0, 1, 1], np.uint64)
    for type_, values in (
        (STRING, ["a", "b", "c", "a"]),
        (BIGINT, [1, None, 0, 1]),
        (DOUBLE, [0.0, math.nan, 1.0, -0.0]),
    ):
        found = grouped_by(weak, [vector(type_, values)])
        assert found.group_of.tolist() == [0, 1, 2, 0] and found.first.tolist() == [0, 1, 2]


def test_windows_start_at_multiples_also_before_1970() -> None:
    assert plain(window_starts(np.array([-1, 0, 9, 10, -10, -11]), 10)) == [-10, 0, 0, 10, -10, -20]
