"""The cost model against what the biclique paper reports: ratios that follow from its equations."""

from __future__ import annotations

import math

import numpy as np
import pytest

from biclique.index import build, runs
from biclique.index.protocol import IndexKind
from biclique.kernels import dominance, groups, prefix_sums, sorted_runs
from biclique.plan import cost, range_totals
from biclique.plan.cost import (
    Chain,
    Grid,
    Load,
    Probing,
    chain,
    comparisons,
    growth_ratio_matrix,
    memory_biclique,
    memory_matrix,
    square,
    traffic_biclique,
    traffic_matrix,
)
from biclique.tiers import sealed_groups, state

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


# --- what a probe touches --------------------------------------------------------------------------------------------


def test_the_constants_are_those_of_the_code_that_the_plan_may_not_know() -> None:
    assert cost.DOMINANCE_FANOUT == dominance.FANOUT
    assert (cost.ARCHIVES_PER_WINDOW, cost.SEGMENT_ROWS_MIN) == (state.ARCHIVES_PER_WINDOW, state.SEGMENT_ROWS_MIN)
    assert (cost.GROUP_BYTES, cost.STATE_BYTES) == (groups.GROUP_BYTES, groups.STATE_BYTES)
    assert (cost.VALUE_BYTES, cost.CHECKPOINTED_BYTES) == (groups.VALUE_BYTES, sealed_groups.GROUP_BYTES)
    assert (cost.BLOCK, cost.SUM_FANOUT) == (prefix_sums.BLOCK, prefix_sums.FANOUT)
    assert range_totals.SUMMABLE_INDEXES == build.SUMMABLE
    assert cost.DIRECTED_ROWS_MIN == runs.DIRECTED_ROWS_MIN
    assert (cost.SEARCHED_TOGETHER, cost.STRIDE_FIRST) == (sorted_runs.GROUP, sorted_runs.STRIDE_FIRST)


@pytest.mark.parametrize("blocks", [4, 8, 20, 60, 200])
def test_a_growing_segment_has_about_as_many_runs_as_said(blocks: int) -> None:
    """Averaged over the second half of its growth, by the very merging of the index; within a fifth."""
    growing, counted, step = runs.Runs(), [], 512
    for number in range(blocks):
        rows = np.arange(number * step, (number + 1) * step, dtype=np.int32)
        growing.add(runs.sorted_run(runs.SortKeys(rows.astype(np.int64)), rows))
        counted.append(len(growing.all))
    late = counted[blocks // 2 :]
    expected = [sum(n for n, _ in chain(step * (n + 1), step, False).runs()) for n in range(blocks // 2, blocks)]
    assert sum(late) / len(late) == pytest.approx(sum(expected) / len(expected), rel=0.2)


@pytest.mark.parametrize("windowed", [False, True])
def test_runs_hold_about_the_rows_of_the_store(windowed: bool) -> None:
    for rows in (1e5, 1e6, 1e8):
        held = sum(number * size for number, size in chain(rows, 1_000, windowed).runs())
        assert held == pytest.approx(rows, rel=0.2)


def test_a_probe_of_two_inequalities_costs_the_matches_and_a_logarithm_and_never_more_than_a_scan_and_its_nodes() -> (
    None
):
    rows = 1e6
    one = Chain(1.0, rows, 0.0, 0.0)

    def touched(narrowed: float, found: float) -> float:
        return comparisons(Probing(IndexKind.DOMINANCE, narrowed=narrowed, found=found), one)

    assert touched(0.5, 0.0) < 3 * math.log2(rows) + 8 * math.log(rows, 8)
    assert touched(1.0, 1.0) < rows * 8 / 7 + 100
    assert touched(0.5, 1e-4) < 100 * 8 * math.log(0.5 / 1e-4, 8) * 2
    assert touched(0.5, 1e-4) < touched(0.5, 1e-3) < touched(0.5, 1e-2)
