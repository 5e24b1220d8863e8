"""Where tuples go, by hand: counts, roles, and that chance is even."""

from __future__ import annotations

import numpy as np
import pytest

from biclique.core.stamps import tuple_ids
from biclique.routing.choose import router
from biclique.routing.mix import Salt, draw
from biclique.routing.protocol import Role, Strategy
from biclique.routing.table import BOTH_SIDES, RoutingTable, Subgroup, UnitId


def biclique(left: tuple[int, ...], right: tuple[int, ...]) -> RoutingTable:
    """Units of each subgroup, a side at a time."""
    groups = {
        Subgroup(0, side, number): tuple(UnitId(Subgroup(0, side, number), n) for n in range(units))
        for side, counts in enumerate((left, right))
        for number, units in enumerate(counts)
    }
    return RoutingTable(0, groups, groups, {})


def matrix(rows: int, columns: int) -> RoutingTable:
    groups = {
        Subgroup(0, BOTH_SIDES, row): tuple(UnitId(Subgroup(0, BOTH_SIDES, row), n) for n in range(columns))
        for row in range(rows)
    }
    return RoutingTable(0, groups, groups, {})


IDS = tuple_ids(1, 3, np.arange(10_000, dtype=np.int64))


def sent(table: RoutingTable, strategy: Strategy, side: int, hashes: bool) -> dict[Role, dict[UnitId, int]]:
    content = np.arange(len(IDS), dtype=np.uint64) if hashes else None
    counts: dict[Role, dict[UnitId, int]] = {role: {} for role in Role}
    for share in router(strategy, 0)(table, side, IDS, content):
        counts[share.role][share.unit] = len(IDS) if share.rows is None else len(share.rows)
    return counts


def test_random_stores_once_and_probes_everywhere() -> None:
    counts = sent(biclique((4,), (3,)), Strategy.RANDOM, 0, hashes=False)
    assert sum(counts[Role.STORE].values()) == len(IDS)
    assert all(2_300 < share < 2_700 for share in counts[Role.STORE].values())
    assert list(counts[Role.PROBE].values()) == [len(IDS)] * 3
    assert counts[Role.BOTH] == {}


def test_hash_stores_once_and_probes_one() -> None:
    counts = sent(biclique((1,) * 4, (1,) * 3), Strategy.HASH, 0, hashes=True)
    assert sum(counts[Role.STORE].values()) == len(IDS)
    assert sum(counts[Role.PROBE].values()) == len(IDS)
    assert len(counts[Role.PROBE]) == 3


@pytest.mark.parametrize("units", [(2, 2), (2, 4, 2)])
def test_contrand_probes_the_units_of_one_subgroup(units: tuple[int, ...]) -> None:
    counts = sent(biclique((1,), units), Strategy.BICLIQUE, 0, hashes=True)
    expected = len(IDS) * sum(units) / len(units)
    assert sum(counts[Role.PROBE].values()) == pytest.approx(expected, rel=0.05)


def test_the_unit_does_not_follow_from_the_subgroup() -> None:
    """Without content both are drawn from the id; with one salt for both, half of these units would stay empty."""
    counts = sent(biclique((2, 2, 2, 2), (1,)), Strategy.BICLIQUE, 0, hashes=False)
    assert len(counts[Role.STORE]) == 8
    assert all(1_100 < share < 1_400 for share in counts[Role.STORE].values())


def test_matrix_sends_a_left_tuple_to_a_row_and_a_right_one_to_a_column() -> None:
    left, right = (sent(matrix(2, 5), Strategy.MATRIX, side, hashes=False)[Role.BOTH] for side in (0, 1))
    assert sum(left.values()) == 5 * len(IDS) and sum(right.values()) == 2 * len(IDS)
    assert all(4_700 < share < 5_300 for share in left.values())
    assert all(1_800 < share < 2_200 for share in right.values())


def test_a_single_unit_gets_all_rows_without_a_copy_of_their_positions() -> None:
    shares = router(Strategy.BICLIQUE, 0)(biclique((1,), (1,)), 1, IDS, None)
    assert [(share.role, share.rows) for share in shares] == [(Role.STORE, None), (Role.PROBE, None)]


def test_nothing_is_sent_for_no_rows() -> None:
    for table, strategy in ((biclique((2,), (2,)), Strategy.RANDOM), (matrix(2, 2), Strategy.MATRIX)):
        assert router(strategy, 0)(table, 0, IDS[:0], None) == ()


def test_draws_are_even_over_any_number_of_units() -> None:
    for count in (2, 3, 5, 7, 64):
        drawn = np.bincount(draw(IDS, count, Salt.UNIT), minlength=count)
        expected = len(IDS) / count
        assert np.abs(drawn - expected).max() < 5 * np.sqrt(expected)


def test_a_draw_never_changes() -> None:
    """Replays of a log written by an older version must route as it did."""
    assert draw(IDS[:12], 5, Salt.UNIT).tolist() == DRAWN
    assert draw(IDS[:12], 5, Salt.SUBGROUP).tolist() == DRAWN_SUBGROUPS


DRAWN = [4, 4, 2, 4, 1, 0, 1, 0, 2, 3, 2, 0]
DRAWN_SUBGROUPS = [1, 4, 1, 1, 0, 4, 3, 3, 1, 1, 2, 1]
