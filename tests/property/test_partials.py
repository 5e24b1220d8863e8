"""Partial aggregates, merged in any cut and any order, against sums in plain Python over all rows."""

from __future__ import annotations

import math
import random
from collections import defaultdict
from fractions import Fraction

import numpy as np
import pytest

from biclique.kernels.groups import Groups
from biclique.kernels.partials import Shares, StoredTotals, from_totals, shares_of
from biclique.query.expression import Column
from biclique.query.model import Aggregate, AggregateFunction, GroupKey, Item
from biclique.query.types import BIGINT, DOUBLE, INT, STRING, TIMESTAMP, Kind, Type, decimal
from tests.model.domains import column, plain, vector
from tests.model.evaluate import rank

F = AggregateFunction
TYPES = (BIGINT, INT, DOUBLE, STRING, TIMESTAMP, decimal(7, 2))
KEY_TYPES = (INT, DOUBLE, STRING)


def items(rng: random.Random, keys: list[Type]) -> list[Item]:
    made: list[Aggregate | GroupKey] = [GroupKey(i, type_) for i, type_ in enumerate(keys)]
    made.append(Aggregate(F.COUNT, None, BIGINT))
    for _ in range(rng.randint(0, 6)):
        argument = rng.choice(TYPES)
        functions = [F.COUNT, F.MIN, F.MAX, F.COUNT_DISTINCT]
        if argument.kind in (Kind.INTEGER, Kind.DOUBLE, Kind.DECIMAL):
            functions += [F.SUM, F.AVG, F.SUM, F.AVG]
        function = rng.choice(functions)
        made.append(Aggregate(function, Column(0, TYPES.index(argument), argument), result_type(function, argument)))
    rng.shuffle(made)
    return [Item(f"c{i}", value, value.type) for i, value in enumerate(made)]


def result_type(function: AggregateFunction, argument: Type) -> Type:
    if function in (F.MIN, F.MAX):
        return argument
    if function is F.AVG:
        return DOUBLE
    if function is F.SUM:
        return {Kind.DOUBLE: DOUBLE, Kind.DECIMAL: decimal(18, argument.scale)}.get(argument.kind, BIGINT)
    return BIGINT


def total(values: list, type_: Type) -> float | int:
    if type_.kind is not Kind.DOUBLE:
        return sum(values)
    special = [v for v in values if not math.isfinite(v)]
    return sum(special) if special else float(sum(Fraction(v) for v in values))


def expected(item: Item, key: tuple, rows: list[tuple]) -> object:
    value = item.value
    if isinstance(value, GroupKey):
        return key[value.position]
    if value.argument is None:
        return len(rows)
    values = [v for row in rows if (v := row[value.argument.field]) is not None]
    match value.function:
        case F.COUNT:
            return len(values)
        case F.COUNT_DISTINCT:
            return len({rank(v) for v in values})
        case F.MIN:
            return min(values, key=rank, default=None)
        case F.MAX:
            return max(values, key=rank, default=None)
        case F.SUM:
            return total(values, value.argument.type) if values else None
        case _:
            scale = 10**value.argument.type.scale
            return total(values, value.argument.type) / (len(values) * scale) if values else None


def close(left: object, right: object) -> bool:
    if isinstance(left, float) and isinstance(right, float):
        return rank(left) == rank(right) or math.isclose(left, right, rel_tol=1e-12)
    return left == right and type(left) is type(right)


def random_rows(rng: random.Random, types: tuple[Type, ...], count: int, extreme: float) -> list[tuple]:
    extremes = [extreme if type_.kind is not Kind.STRING else 0.0 for type_ in types]
    columns = [column(rng, type_, count, 0.2, chance) for type_, chance in zip(types, extremes, strict=True)]
    tame = [[v if not isinstance(v, float) or not 1e300 < abs(v) < math.inf else 1e300 for v in c] for c in columns]
    return list(zip(*tame, strict=True)) if count else []


def vectors(types: list[Type] | tuple[Type, ...], rows: list[tuple]) -> list:
    return [vector(type_, [row[i] for row in rows]) for i, type_ in enumerate(types)]


def arguments(query: list[Item], columns: list) -> list:
    return [
        columns[i.value.argument.field] if isinstance(i.value, Aggregate) and i.value.argument else None for i in query
    ]


def check(query: list[Item], groups: Groups, members: dict[tuple, list[tuple]], newest: dict[tuple, int]) -> None:
    found = {tuple(map(rank, key)): key for key in groups.keys}
    assert set(found) == set(members)
    for normal, rows in members.items():
        key = found[normal]
        result = [plain(c)[0] for c in groups.rows([key])]
        for item, value in zip(query, result, strict=True):
            want = expected(item, key, rows)
            assert close(value, want), f"{item}: {value!r}, not {want!r}, of {rows}"
        assert groups.newest(key) == newest[normal]


@pytest.mark.parametrize("seed", range(120))
def test_merged_shares_are_the_aggregate_of_all_rows(seed: int) -> None:
    rng = random.Random(seed)
    key_types = rng.sample(KEY_TYPES, rng.randint(0, 2))
    query = items(rng, key_types)
    extreme = rng.choice((0.0, 0.0, 0.2))
    if any(isinstance(i.value, Aggregate) and i.value.function is F.SUM for i in query):
        query = [
            i
            for i in query
            if extreme == 0.0 or i.type not in (BIGINT,) or getattr(i.value, "function", 0) is not F.SUM
        ]
    count = rng.choice((0, 1, 7, 60))
    rows = random_rows(rng, TYPES, count, extreme)
    keys = random_rows(rng, tuple(key_types), count, 0.1) if key_types else [()] * count
    times = [rng.randint(-5, 5) for _ in range(count)]
    members: dict[tuple, list[tuple]] = defaultdict(list)
    newest: dict[tuple, int] = {}
    for key, row, time in zip(keys, rows, times, strict=True):
        normal = tuple(map(rank, key))
        members[normal].append(row)
        newest[normal] = max(newest.get(normal, -99), time)
    cuts = sorted(rng.randint(0, count) for _ in range(rng.randint(0, 4)))
    batches: list[Shares] = []
    for low, high in zip([0, *cuts], [*cuts, count], strict=True):
        columns = vectors(TYPES, rows[low:high])
        batches.append(
            shares_of(
                [i.value for i in query],
                vectors(key_types, keys[low:high]),
                arguments(query, columns),
                np.array(times[low:high], np.int64),
            )
        )
    rng.shuffle(batches)
    groups = Groups(query, key_types)
    for batch in batches:
        changed = groups.merge(batch)
        assert len(changed) == len(set(changed)) and set(changed) <= set(groups.keys)
    check(query, groups, members, newest)
    again = Groups(query, key_types)
    for part in groups.snapshots(groups.keys, rng.choice((1, 3, 1 << 20)), rng.choice((1, 200, 1 << 20))):
        again.merge(part.shares)
    check(query, again, members, newest)
    assert again.bytes == groups.bytes
    groups.drop(groups.keys)
    assert len(groups) == 0 and groups.bytes == 0


@pytest.mark.parametrize("seed", range(60))
def test_totals_of_ranges_are_the_aggregate_of_the_pairs_they_stand_for(seed: int) -> None:
    """Row i of the probing side matches the first counts[i] rows of the stored side."""
    rng = random.Random(seed)
    key_types = rng.sample(KEY_TYPES, rng.randint(0, 1))
    probes = random_rows(rng, TYPES, rng.choice((0, 5, 30)), 0.0)
    stored = random_rows(rng, TYPES, 9, 0.0)
    keys = random_rows(rng, tuple(key_types), len(probes), 0.0) if key_types else [()] * len(probes)
    counts = [rng.randint(0, 9) for _ in probes]
    query, sides = items(rng, key_types), []
    for item in query:
        summed = getattr(item.value, "function", None) in (F.SUM, F.AVG, F.COUNT) and item.value.argument is not None
        numeric = summed and item.value.argument.type.kind is not Kind.STRING
        sides.append("stored" if numeric and rng.random() < 0.5 else "probe")
    columns = vectors(TYPES, probes)
    sources = [
        totals(stored, counts, item.value.argument) if side == "stored" else argument
        for item, side, argument in zip(query, sides, arguments(query, columns), strict=True)
    ]
    shares = from_totals(
        [i.value for i in query],
        vectors(key_types, keys),
        np.zeros(len(probes), np.int64),
        np.array(counts, np.int64),
        sources,
    )
    groups = Groups(query, key_types)
    groups.merge(shares)
    members: dict[tuple, list[tuple]] = defaultdict(list)
    for key, probe, count in zip(keys, probes, counts, strict=True):
        for other in stored[:count]:
            members[tuple(map(rank, key))].append((probe, other))
    assert {tuple(map(rank, key)) for key in groups.keys} == set(members)
    for key in groups.keys:
        pairs = members[tuple(map(rank, key))]
        result = [plain(c)[0] for c in groups.rows([key])]
        for item, side, value in zip(query, sides, result, strict=True):
            want = expected(item, key, [pair[side == "stored"] for pair in pairs])
            assert close(value, want), f"{item} {side}: {value!r}, not {want!r}"


def totals(stored: list[tuple], counts: list[int], argument: Column) -> StoredTotals:
    there = [[v for row in stored[:n] if (v := row[argument.field]) is not None] for n in counts]
    valid = np.array([len(values) for values in there], np.int64)
    if argument.type.kind is Kind.DOUBLE:
        return StoredTotals(valid, np.array([math.fsum(v) for v in there], np.float64), np.zeros(len(counts)))
    sums = [sum(values) for values in there]
    return StoredTotals(
        valid, np.array([s >> 32 for s in sums], np.int64), np.array([s & 0xFFFFFFFF for s in sums], np.int64)
    )
