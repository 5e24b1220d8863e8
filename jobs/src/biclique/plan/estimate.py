"""What a plan will need and do, in numbers that a run counts too: shown by `explain`, held against the counters by
tests.

Everything holds for the state at its largest: a window's worth of tuples, or all of them at the end of a full
history. All units of a side are taken as equally loaded. `row_bytes` are the tuple's own (columns, id, time, stamp),
as the paper counts; keys and places of the index come on top, and so does the slack of growing buffers, which is not
estimated.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from biclique.index.protocol import IndexKind
from biclique.plan.cost import (
    Grid,
    Load,
    Probing,
    Sums,
    chain,
    comparisons,
    growth_ratio_matrix,
    index_bytes,
    memory_biclique,
    memory_matrix,
    square,
    traffic_biclique,
    traffic_matrix,
)
from biclique.plan.draft import StageDraft
from biclique.plan.load import results, stage_loads
from biclique.plan.model import LEFT, RIGHT, Access, Plan, Side, Stage
from biclique.plan.range_totals import SideTotals, range_totals
from biclique.plan.recognise import recognised
from biclique.plan.rules.normalise import normalised
from biclique.plan.rules.place_predicates import cascade
from biclique.plan.selectivity import first_share, key_share, of_stage
from biclique.plan.statistics import Statistics
from biclique.query.types import Kind
from biclique.routing.protocol import Strategy


@dataclass(frozen=True, slots=True)
class SideEstimate:
    """A tuple of this side, and what is stored of it. `candidates` and `comparisons` are of a probe *of* this side."""

    rate: float  # tuples a second
    rows: float  # stored, each tuple once
    row_bytes: float
    index_bytes: float  # of a stored row
    units: int  # that store this side
    rows_per_unit: float
    stores_per_tuple: float  # units that store it
    probes_per_tuple: float  # units of the other side that it probes
    messages_per_tuple: float  # shares of blocks that it is sent in
    candidates_per_probe: float  # in one unit
    comparisons_per_probe: float


@dataclass(frozen=True, slots=True)
class Alternative:
    """Another routing with as many units: bytes of all units, bytes a second into all units."""

    name: str
    memory_bytes: float
    traffic_bytes_per_s: float


@dataclass(frozen=True, slots=True)
class StageEstimate:
    sides: tuple[SideEstimate, SideEstimate]
    memory_bytes: float  # all units, by equation 1 or 2
    unit_bytes: float  # of the fullest unit, its index included
    traffic_bytes_per_s: float  # by equation 5 or 6
    growth_ratio: tuple[float, float]  # of the left and the right side, by equations 3 and 4
    share: float  # of all pairs that match
    results_per_s: float
    results_rows: float  # that are stored at a time, should a next stage store them
    alternatives: tuple[Alternative, ...]


def estimate(plan: Plan, statistics: Statistics) -> tuple[StageEstimate, ...]:
    """One entry for each stage."""
    drafts = [
        replace(
            recognised(draft),
            columns=(stage.sides[LEFT].columns, stage.sides[RIGHT].columns),
            count_windows=(stage.sides[LEFT].count_window, stage.sides[RIGHT].count_window),
        )
        for draft, stage in zip(cascade(plan.order, normalised(plan.query.predicates)), plan.stages, strict=True)
    ]
    loads = stage_loads(drafts, statistics)
    capacity = float(plan.query.hints.memory_bytes)
    totals = range_totals(plan.query, plan.stages[-1])
    return tuple(
        _stage(stage, draft, load, statistics, capacity, totals if stage is plan.stages[-1] else (None, None))
        for stage, draft, load in zip(plan.stages, drafts, loads, strict=True)
    )


def _stage(
    stage: Stage,
    draft: StageDraft,
    load: tuple[Load, Load],
    statistics: Statistics,
    capacity: float,
    totals: tuple[SideTotals | None, SideTotals | None],
) -> StageEstimate:
    grid = grid_of(stage)
    left, right = (
        _side(stage, draft, side, load, statistics, sums_of(stage.sides[side], totals[side])) for side in (LEFT, RIGHT)
    )
    share = of_stage(draft, statistics.selectivities)
    rows, per_second = results(load, share)
    is_matrix = stage.strategy is Strategy.MATRIX
    stored = [side.rows_per_unit * (side.row_bytes + side.index_bytes) for side in (left, right)]
    return StageEstimate(
        (left, right),
        memory_matrix(*load, grid) if is_matrix else memory_biclique(*load, grid, statistics.delay_s),
        sum(stored) if is_matrix else max(stored),
        traffic_matrix(*load, grid) if is_matrix else traffic_biclique(*load, grid),
        growth_ratio_matrix(*load, grid, capacity) if is_matrix else (1.0, 1.0),
        share,
        per_second,
        rows,
        _alternatives(stage, load, statistics),
    )


def grid_of(stage: Stage) -> Grid:
    """The m, n, d, e of the equations: all units of a side; a matrix: its rows and columns. Where content cannot pick a
    subgroup a probe visits them all, and they count as one."""
    left, right = stage.sides
    if stage.strategy is Strategy.MATRIX:
        return Grid((left.units, right.units))
    by_content = bool(left.route)
    return Grid(
        (left.units * left.subgroups, right.units * right.subgroups),
        (left.subgroups, right.subgroups) if by_content else (1, 1),
    )


def sums_of(side: Side, totals: SideTotals | None) -> Sums | None:
    if totals is None:
        return None
    doubles = sum(side.columns[place].type.kind is Kind.DOUBLE for place in totals.summed)
    return Sums(len(totals.summed) - doubles, doubles)


def _side(
    stage: Stage, draft: StageDraft, side: int, load: tuple[Load, Load], statistics: Statistics, sums: Sums | None
) -> SideEstimate:
    own, other, access, grid = load[side], load[1 - side], stage.sides[side].access, grid_of(stage)
    is_matrix = stage.strategy is Strategy.MATRIX
    units = grid.units[LEFT] * grid.units[RIGHT] if is_matrix else grid.units[side]
    copies = float(grid.units[1 - side]) if is_matrix else 1.0
    visits, visited = visits_of(stage, side), visits_of(stage, 1 - side)
    rows_per_unit = own.rows * copies / units
    windowed = stage.sides[side].windowed
    fits = own.rows / (visited * max(rows_per_unit, 1.0))  # content brings together what fits: a unit has more of it
    share = key_share(draft, side, access, statistics.selectivities)
    narrowed = first_share(draft, side, access, statistics.selectivities)
    step_s = statistics.delay_s  # what arrives meanwhile is handled at once
    probing = Probing(
        access.kind,
        other.rate * step_s * visited / units,
        ends_of(access),
        min(narrowed * fits, 1.0),
        min(share * fits, 1.0),
        sums,
    )
    stored = chain(rows_per_unit, own.rate * step_s * copies / units, windowed)
    return SideEstimate(
        own.rate,
        own.rows,
        own.row_bytes,
        index_bytes(access.kind, bool(access.equal), windowed) + (0.0 if sums is None else sums.row_bytes),
        units,
        rows_per_unit,
        copies,
        visits,
        visits if is_matrix else copies + visits,
        own.rows * share / visited if sums is None else sum(stored.tested()) * probing.found,
        # Blocks are every row; within a window, by time, every row of the window.
        rows_per_unit if access.kind is IndexKind.SCAN else comparisons(probing, stored),
    )


def visits_of(stage: Stage, side: int) -> float:
    """Units that a tuple of the side probes."""
    grid = grid_of(stage)
    return grid.units[1 - side] / grid.subgroups[1 - side]


def ends_of(access: Access) -> int:
    first = access.first
    return 2 if first is None else (first.low is not None) + (first.high is not None)


def _alternatives(stage: Stage, load: tuple[Load, Load], statistics: Statistics) -> tuple[Alternative, ...]:
    """The same number of units in the other ways: by chance, by hash where content can decide, as a matrix."""
    grid = grid_of(stage)
    if stage.strategy is Strategy.MATRIX:
        total = grid.units[LEFT] * grid.units[RIGHT]
        grid = Grid((max(1, total // 2), max(1, total - total // 2)))
    m, n = grid.units
    ways = {Strategy.RANDOM: Grid((m, n))}
    if stage.sides[LEFT].route:
        ways[Strategy.HASH] = Grid((m, n), (m, n))
    found = [
        Alternative(way.value, memory_biclique(*load, other, statistics.delay_s), traffic_biclique(*load, other))
        for way, other in ways.items()
    ]
    cells = Grid(square(m + n))
    found.append(Alternative(Strategy.MATRIX.value, memory_matrix(*load, cells), traffic_matrix(*load, cells)))
    return tuple(found)
