"""The cell rule, for every strategy and for tables in the middle of a join or a leave: for every pair old < new that
can match, exactly one unit both stores the old tuple and is probed by the new one."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from biclique.routing.choose import router
from biclique.routing.protocol import Role, Router, Share, Strategy
from biclique.routing.table import BOTH_SIDES, RoutingTable, Subgroup, UnitId

IDS = st.lists(st.integers(0, 2**63 - 1) | st.integers(0, 40), min_size=1, max_size=12, unique=True)
COUNTS = st.integers(1, 4) | st.just(17)
CONTRAND = st.sampled_from([Strategy.BICLIQUE, Strategy.HASH, Strategy.RANDOM])


@st.composite
def members(draw: st.DrawFn, subgroup: Subgroup) -> tuple[tuple[UnitId, ...], tuple[UnitId, ...]]:
    """(stores, probes) of one subgroup: some units have joined and take no stores yet, or take none any more."""
    count, generation = draw(st.integers(1, 4) | st.just(40)), draw(st.integers(0, 2))
    probes = tuple(UnitId(subgroup, number, generation) for number in range(count))
    first, storing = draw(st.integers(0, count - 1)), draw(st.integers(1, count))
    return (probes + probes)[first : first + storing], probes


@st.composite
def biclique_tables(draw: st.DrawFn) -> RoutingTable:
    stores: dict[Subgroup, tuple[UnitId, ...]] = {}
    probes: dict[Subgroup, tuple[UnitId, ...]] = {}
    for stage, side in ((0, 0), (0, 1), (1, 0)):
        for number in range(draw(COUNTS)):
            subgroup = Subgroup(stage, side, number)
            stores[subgroup], probes[subgroup] = draw(members(subgroup))
    return RoutingTable(3, stores, probes, {})


@st.composite
def matrix_tables(draw: st.DrawFn) -> RoutingTable:
    """Cells that are probed and take no stores: whole rows and whole columns that join or leave."""
    rows, columns = draw(COUNTS), draw(COUNTS)
    storing_rows, storing_columns = draw(st.integers(1, rows)), draw(st.integers(1, columns))
    first_row, first_column = draw(st.integers(0, rows - storing_rows)), draw(st.integers(0, columns - storing_columns))
    stores: dict[Subgroup, tuple[UnitId, ...]] = {}
    probes: dict[Subgroup, tuple[UnitId, ...]] = {}
    for row in range(rows):
        subgroup = Subgroup(0, BOTH_SIDES, row)
        probes[subgroup] = tuple(UnitId(subgroup, column) for column in range(columns))
        takes = range(first_column, first_column + storing_columns)
        stores[subgroup] = (
            tuple(UnitId(subgroup, column) for column in takes) if first_row <= row < first_row + storing_rows else ()
        )
    return RoutingTable(1, stores, probes, {})


def placed(shares: tuple[Share, ...], count: int, roles: set[Role]) -> list[list[UnitId]]:
    found: list[list[UnitId]] = [[] for _ in range(count)]
    for share in shares:
        if share.role in roles:
            for row in range(count) if share.rows is None else share.rows.tolist():
                found[row].append(share.unit)
    return found


def assert_cell_rule(
    route: Router,
    tables: tuple[RoutingTable, RoutingTable],
    ids: list[list[int]],
    hashes: list[list[int]] | None,
) -> None:
    """Both ways round: the older tuple is routed by the first table, the newer one by the second."""
    arrays = [np.array(side, np.int64) for side in ids]
    routing: list[NDArray[np.uint64] | None] = [
        None if hashes is None else np.array(hashes[side], np.uint64) for side in (0, 1)
    ]
    for older, newer in ((0, 1), (1, 0)):
        old_shares = route(tables[0], older, arrays[older], routing[older])
        new_shares = route(tables[1], newer, arrays[newer], routing[newer])
        stored = placed(old_shares, len(ids[older]), {Role.STORE, Role.BOTH})
        probed = placed(new_shares, len(ids[newer]), {Role.PROBE, Role.BOTH})
        for i, units in enumerate(stored):
            assert units
            for j, visited in enumerate(probed):
                if hashes is None or hashes[older][i] == hashes[newer][j]:
                    both = Counter(units) & Counter(visited)
                    assert both.total() == 1, (older, ids[older][i], ids[newer][j], units, visited)


def hashes_for(ids: list[list[int]], data: st.DataObject) -> list[list[int]] | None:
    if not data.draw(st.booleans()):
        return None
    domain = st.sampled_from([0, 1, 2, 5, 2**64 - 1])
    return [data.draw(st.lists(domain, min_size=len(side), max_size=len(side))) for side in ids]


@given(table=biclique_tables(), strategy=CONTRAND, ids=st.lists(IDS, min_size=2, max_size=2), data=st.data())
@settings(max_examples=150, deadline=None)
def test_biclique_keeps_the_cell_rule(
    table: RoutingTable, strategy: Strategy, ids: list[list[int]], data: st.DataObject
) -> None:
    assert_cell_rule(router(strategy, 0), (table, table), ids, hashes_for(ids, data))


@given(table=biclique_tables(), ids=st.lists(IDS, min_size=2, max_size=2), data=st.data())
@settings(max_examples=100, deadline=None)
def test_biclique_keeps_it_between_a_version_and_the_next(
    table: RoutingTable, ids: list[list[int]], data: st.DataObject
) -> None:
    """The next version stores elsewhere, and probes at least where this one stores."""
    cut = data.draw(st.integers(0, 3))
    later = RoutingTable(4, {s: units[cut:] or units[-1:] for s, units in table.probes.items()}, table.probes, {3: 17})
    for tables in ((table, later), (later, table)):
        assert_cell_rule(router(Strategy.BICLIQUE, 0), tables, ids, hashes_for(ids, data))


@given(table=matrix_tables(), ids=st.lists(IDS, min_size=2, max_size=2), data=st.data())
@settings(max_examples=150, deadline=None)
def test_matrix_keeps_the_cell_rule(table: RoutingTable, ids: list[list[int]], data: st.DataObject) -> None:
    assert_cell_rule(router(Strategy.MATRIX, 0), (table, table), ids, hashes_for(ids, data))


@given(table=biclique_tables() | matrix_tables(), ids=IDS, cut=st.integers(0, 12), data=st.data())
@settings(max_examples=150, deadline=None)
def test_a_decision_depends_on_the_row_and_the_table_alone(
    table: RoutingTable, ids: list[int], cut: int, data: st.DataObject
) -> None:
    """Routed in one block or in two, alone or among others, a tuple goes to the same units."""
    strategy = Strategy.MATRIX if any(s.side == BOTH_SIDES for s in table.probes) else Strategy.BICLIQUE
    hashes = np.array(data.draw(st.lists(st.integers(0, 9), min_size=len(ids), max_size=len(ids))), np.uint64)
    rows, route = np.array(ids, np.int64), router(strategy, 0)
    for roles in ({Role.STORE}, {Role.PROBE}, {Role.BOTH}):
        whole = placed(route(table, 1, rows, hashes), len(ids), roles)
        head = placed(route(table, 1, rows[:cut], hashes[:cut]), len(rows[:cut]), roles)
        tail = placed(route(table, 1, rows[cut:], hashes[cut:]), len(rows[cut:]), roles)
        assert whole == head + tail


@given(table=biclique_tables() | matrix_tables(), ids=IDS)
@settings(max_examples=50, deadline=None)
def test_rows_of_a_share_stay_in_order_and_no_share_is_empty(table: RoutingTable, ids: list[int]) -> None:
    strategy = Strategy.MATRIX if any(s.side == BOTH_SIDES for s in table.probes) else Strategy.BICLIQUE
    for share in router(strategy, 0)(table, 0, np.array(ids, np.int64), None):
        if share.rows is not None:
            assert len(share.rows) > 0
            assert np.all(np.diff(share.rows) > 0)
