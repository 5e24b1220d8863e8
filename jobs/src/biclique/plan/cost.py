"""The cost model of the biclique paper (section 4, equations 1 to 6), and what a probe costs by kind of index.

m and n units hold the sides R and S, in d and e subgroups; |R| and |S| are the tuples stored, chi the bytes of one,
phi the tuples a second, Sigma = chi phi, D the greatest delay of the network. All are frozen values made from
Statistics, shown by `explain`, and held against the counters of a run by the tests.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import log, log2

from biclique.index.protocol import IndexKind

KEY_BYTES, PLACE_BYTES = 8, 4


@dataclass(frozen=True, slots=True)
class Load:
    """One side of a join: `rows` stored (all units together), `rate` in tuples a second, `row_bytes` of a tuple."""

    rows: float
    rate: float
    row_bytes: float

    @property
    def stored_bytes(self) -> float:
        return self.rows * self.row_bytes

    @property
    def bytes_per_s(self) -> float:
        return self.rate * self.row_bytes


@dataclass(frozen=True, slots=True)
class Grid:
    """Units and subgroups of the two sides. For a matrix: rows and columns, one subgroup each."""

    units: tuple[int, int]
    subgroups: tuple[int, int] = (1, 1)


def memory_biclique(r: Load, s: Load, grid: Grid, delay_s: float) -> float:
    """Equation 1, bytes of all units: what is stored, and the probes on their way."""
    (m, n), (d, e) = grid.units, grid.subgroups
    return r.row_bytes * (r.rows + n * r.rate * delay_s / e) + s.row_bytes * (s.rows + m * s.rate * delay_s / d)


def memory_matrix(r: Load, s: Load, grid: Grid) -> float:
    """Equation 2: a row of m keeps R on each of its n cells, a column of n keeps S on each of its m."""
    m, n = grid.units
    return n * r.stored_bytes + m * s.stored_bytes


def growth_ratio_matrix(r: Load, s: Load, grid: Grid, capacity: float) -> tuple[float, float]:
    """Equations 3 and 4: the share of a new row's (a new column's) memory that is not filled by copies of the other
    side. A biclique's is 1: a new unit starts empty."""
    m, n = grid.units
    return 1 - s.stored_bytes / (capacity * n), 1 - r.stored_bytes / (capacity * m)


def traffic_biclique(r: Load, s: Load, grid: Grid) -> float:
    """Equation 5, bytes a second into all units: each tuple once to be stored, and to every unit it probes."""
    (m, n), (d, e) = grid.units, grid.subgroups
    return (n / e + 1) * r.bytes_per_s + (m / d + 1) * s.bytes_per_s


def traffic_matrix(r: Load, s: Load, grid: Grid) -> float:
    """Equation 6."""
    m, n = grid.units
    return n * r.bytes_per_s + m * s.bytes_per_s


def square(units: int) -> tuple[int, int]:
    """Rows and columns of the squarest matrix of at most so many units: both memory and traffic are least there."""
    rows = max(1, int(units**0.5))
    return rows, max(1, units // rows)


# --- what a probe touches --------------------------------------------------------------------------------------------

# As in index/ and kernels/ and tiers/state.py, of which the plan may not know: tests/unit/plan/test_cost.py compares.
DOMINANCE_FANOUT = 8
ARCHIVES_PER_WINDOW, SEGMENT_ROWS_MIN = 10, 4_096
SEARCHED_TOGETHER, STRIDE_FIRST = 32, 16
DIRECTED_ROWS_MIN, DIRECTED = 1 << 17, 4.0  # measured: what is left to search of the fullest of so many buckets

SUM_BYTES, BLOCK, SUM_FANOUT = 8, 8, 8

OPEN_RUNS, RUNS_SHRINK = 1.3, 10  # measured: a growing segment has so many runs, and one more for each tenfold rows


@dataclass(frozen=True, slots=True)
class Chain:
    """The sorted runs of a store: `archived` of equal size, and those of the segment that still grows, of which each
    is a tenth of the one before."""

    archived: float
    archived_rows: float
    growing: float
    growing_rows: float
    step_rows: float = 0.0

    def runs(self) -> Iterator[tuple[float, float]]:
        """(how many, of so many rows)."""
        if self.archived:
            yield self.archived, self.archived_rows
        left, rows = self.growing, self.growing_rows
        while left > 0:
            yield min(left, 1.0), max(rows, 1.0)
            left, rows = left - 1, rows / RUNS_SHRINK

    def tested(self) -> tuple[float, float]:
        """Rows that range totals test one by one: of the step, and of the segment where the probes' windows begin."""
        return self.step_rows, min(self.archived, 1.0) * self.archived_rows


def chain(rows: float, step_rows: float, windowed: bool) -> Chain:
    """Of a store with so many rows that got `step_rows` at a time."""
    if windowed:
        segment_rows = max(rows / ARCHIVES_PER_WINDOW, SEGMENT_ROWS_MIN)
        archived = rows / segment_rows
        growing_rows = segment_rows / 2
    else:
        archived, segment_rows, growing_rows = 0.0, 0.0, rows
    growing = OPEN_RUNS + log(max(growing_rows / max(step_rows, 1.0), 1.0), RUNS_SHRINK)
    return Chain(archived, segment_rows, growing, growing_rows, step_rows)


@dataclass(frozen=True, slots=True)
class Sums:
    """Of how many columns range sums are kept. Without nulls: counts of what is there come on top, a byte a row."""

    integers: int
    doubles: int

    @property
    def row_bytes(self) -> float:
        return self.integers * 2 * SUM_BYTES / BLOCK + self.doubles * 2 * SUM_BYTES / (SUM_FANOUT - 1)

    def touched(self, found: float) -> float:
        """Of a range of so many rows: for integers two sums at both ends, and rows up to the nearest ends of blocks;
        for doubles seven nodes a level."""
        integer = found if found < BLOCK else 4 + BLOCK / 2
        double, level = 0.0, found
        while level >= 2 * SUM_FANOUT:
            double, level = double + SUM_FANOUT - 1, level / SUM_FANOUT
        return self.integers * integer + self.doubles * (double + level)


@dataclass(frozen=True, slots=True)
class Probing:
    """`together`: probes that are searched side by side, a step's. `ends`: of the first range that are bounded.
    `narrowed`: the share of rows in the first range; `found`: of rows that fit all keys. `sums`: where matches are
    counted and added up by range, and not found."""

    kind: IndexKind
    together: float = 1.0
    ends: int = 2
    narrowed: float = 1.0
    found: float = 1.0
    sums: Sums | None = None


def comparisons(probing: Probing, stored: Chain) -> float:
    """Keys, summary nodes, sums and candidate rows that one probe touches in all runs of a store."""
    touched = sum(number * _in_run(probing, rows) for number, rows in stored.runs())
    if probing.sums is not None:  # where rows are tested, sums are not asked
        touched += sum(rows * probing.found - probing.sums.touched(rows * probing.found) for rows in stored.tested())
    return touched


def _in_run(probing: Probing, rows: float) -> float:
    found = rows * probing.found
    expanded = found if probing.sums is None else probing.sums.touched(found)
    searched = search(rows, probing.together)
    if rows >= DIRECTED_ROWS_MIN and probing.kind is not IndexKind.EQUALITY_ORDERED:
        searched = min(searched, DIRECTED)
    match probing.kind:
        case IndexKind.EQUALITY | IndexKind.EQUALITY_ORDERED:
            return searched + 1 + 2 * log2(found + 1) + expanded  # from the first on, by strides
        case IndexKind.ORDERED:
            return probing.ends * searched + expanded
        case IndexKind.DOMINANCE:
            return probing.ends * searched + walked(rows, probing.narrowed, probing.found)
        case IndexKind.SCAN:
            return rows


def search(rows: float, together: float) -> float:
    """Of one key: those that are searched side by side halve the stretch that holds all their answers."""
    stretch = max(rows * SEARCHED_TOGETHER / max(together, SEARCHED_TOGETHER), STRIDE_FIRST)
    return log2(min(1.5 * stretch, rows) + 1) + 0.5


def walked(rows: float, narrowed: float, found: float) -> float:
    """Nodes of a hierarchy over a range: at each level the children of what may hold a match, and the range's edges.
    Second keys are taken as spread evenly, so a node over n rows holds one with probability 1 - (1 - p)^n."""
    inside = rows * narrowed
    passing = min(found / narrowed, 1.0) if narrowed else 0.0
    nodes, size, covered = 0.0, 1.0, DOMINANCE_FANOUT
    while True:
        is_top = rows / size <= DOMINANCE_FANOUT
        entered = 1.0 if is_top else 1 - (1 - passing) ** covered
        nodes += 1 + inside / size * entered
        if is_top:
            return nodes
        size, covered = size * DOMINANCE_FANOUT, covered * DOMINANCE_FANOUT


def index_bytes(kind: IndexKind, has_equality: bool, windowed: bool) -> float:
    """Of one stored row, beside its columns: the keys of its sorted run and its place. Within a window, rows that no
    condition can order are ordered by time (index/by_time.py)."""
    match kind:
        case IndexKind.EQUALITY | IndexKind.ORDERED:
            return KEY_BYTES + PLACE_BYTES
        case IndexKind.EQUALITY_ORDERED:
            return 2 * KEY_BYTES + PLACE_BYTES
        case IndexKind.DOMINANCE:
            summaries = 2 * KEY_BYTES / (DOMINANCE_FANOUT - 1)  # greatest and least of eight, 64, ... neighbours
            return (3 if has_equality else 2) * KEY_BYTES + PLACE_BYTES + summaries
        case IndexKind.SCAN:
            return KEY_BYTES + PLACE_BYTES if windowed else 0.0


# --- the merger ------------------------------------------------------------------------------------------------------

GROUP_BYTES, STATE_BYTES, VALUE_BYTES = 300, 120, 80  # as in kernels/groups.py
CHECKPOINTED_BYTES = 100  # of a group, in the book of what checkpoints hold: as in tiers/sealed_groups.py


def groups_bytes(groups: float, items: int, distinct_values: float) -> float:
    """What a merger holds: a group and its entry in that book, the state of each of its items, and what COUNT(DISTINCT)
    has seen."""
    return groups * (GROUP_BYTES + STATE_BYTES * items + CHECKPOINTED_BYTES) + distinct_values * VALUE_BYTES
