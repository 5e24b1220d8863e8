"""The cost model against what the biclique paper reports: ratios that follow from its equations."""

from __future__ import annotations

import pytest

from biclique.plan.cost import (
    Grid,
    Load,
    growth_ratio_matrix,
    memory_biclique,
    memory_matrix,
    square,
    traffic_biclique,
    traffic_matrix,
)

SIDE = Load(rows=1e6, rate=1e3, row_bytes=100)  # both sides at equal bytes a second, as in the paper's runs
JB8, JB16, JB36, JB64 = (Grid((units // 2, units // 2)) for units in (8, 16, 36, 64))
JM16, JM36, JM64 = (Grid(square(units)) for units in (16, 36, 64))
JB8_CR2, JB8_CR4 = Grid((4, 4), (2, 2)), Grid((4, 4), (4, 4))


def stored(grid: Grid) -> float:
    return memory_biclique(SIDE, SIDE, grid, delay_s=0.0)


def test_a_matrix_of_16_units_stores_four_times_what_a_biclique_stores() -> None:
    assert memory_matrix(SIDE, SIDE, JM16) / stored(JB16) == 4.0


@pytest.mark.parametrize(
    ("biclique", "matrix", "ratio"),
    [((JB16, 16), (JM16, 16), 4), ((JB36, 36), (JM36, 36), 6), ((JB8, 8), (JM16, 16), 2)],
)
def test_how_much_greater_a_window_a_biclique_holds(
    biclique: tuple[Grid, int], matrix: tuple[Grid, int], ratio: float
) -> None:
    """Units of equal memory: the window is what a unit holds, divided by what a second of input takes of it."""
    per_unit_biclique = stored(biclique[0]) / biclique[1]
    per_unit_matrix = memory_matrix(SIDE, SIDE, matrix[0]) / matrix[1]
    assert per_unit_matrix / per_unit_biclique == pytest.approx(ratio)


def test_what_four_times_the_units_can_hold() -> None:
    assert (stored(JB16) / 16) / (stored(JB64) / 64) == 4
    assert (memory_matrix(SIDE, SIDE, JM16) / 16) / (memory_matrix(SIDE, SIDE, JM64) / 64) == 2


def test_routed_bytes_fall_from_random_over_matrix_to_more_subgroups() -> None:
    """JB8 : JM16 : JB8-CR2 : JB8-CR4 as 5 : 4 : 3 : 2."""
    routed = [
        traffic_biclique(SIDE, SIDE, JB8),
        traffic_matrix(SIDE, SIDE, JM16),
        traffic_biclique(SIDE, SIDE, JB8_CR2),
        traffic_biclique(SIDE, SIDE, JB8_CR4),
    ]
    assert [bytes_ / SIDE.bytes_per_s for bytes_ in routed] == [10, 8, 6, 4]


def test_probes_on_their_way_take_memory_too() -> None:
    """Equation 1: n probes of each tuple of R for as long as they travel, fewer with more subgroups."""
    in_flight = memory_biclique(SIDE, SIDE, JB8, delay_s=0.5) - stored(JB8)
    assert in_flight == 2 * SIDE.row_bytes * 4 * SIDE.rate * 0.5
    assert memory_biclique(SIDE, SIDE, JB8_CR4, delay_s=0.5) - stored(JB8_CR4) == in_flight / 4


def test_a_new_row_of_a_matrix_is_partly_full_of_copies() -> None:
    left, right = Load(1e6, 1e3, 100), Load(2e6, 1e3, 100)
    capacity = 1e8  # a unit
    assert growth_ratio_matrix(left, right, Grid((4, 4)), capacity) == (1 - 2e8 / (1e8 * 4), 1 - 1e8 / (1e8 * 4))


def test_the_squarest_matrix_of_any_number_of_units() -> None:
    assert [square(units) for units in (1, 2, 3, 4, 6, 8, 12, 16)] == [
        *((1, 1), (1, 2), (1, 3), (2, 2), (2, 3), (2, 4), (3, 4), (4, 4))
    ]
    for units in range(1, 200):
        rows, columns = square(units)
        assert rows * columns <= units < (rows + 1) * (columns + 1)
