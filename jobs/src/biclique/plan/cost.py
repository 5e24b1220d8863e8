"""The cost model of the biclique paper (section 4, equations 1 to 6), and what a probe costs by kind of index.

m and n units hold the sides R and S, in d and e subgroups; |R| and |S| are the tuples stored, chi the bytes of one,
phi the tuples a second, Sigma = chi phi, D the greatest delay of the network. All are frozen values made from
Statistics, shown by `explain`, and held against the counters of a run by the tests.
"""

from __future__ import annotations

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


DOMINANCE_FANOUT = 8
DOMINANCE_STEPS = 3.4  # measured: nodes touched per match and level between the match and its nearest neighbour's path


def comparisons(kind: IndexKind, rows: float, candidates: float) -> float:
    """Keys, summary nodes and candidate rows that one probe touches in one sorted run of so many rows."""
    levels = log2(rows + 2)
    match kind:
        case IndexKind.EQUALITY | IndexKind.EQUALITY_ORDERED:
            return levels + candidates
        case IndexKind.ORDERED:
            return 2 * levels + candidates
        case IndexKind.DOMINANCE:
            apart = max(rows / max(candidates, 1.0), 1.0)
            return 2 * levels + candidates * (1 + DOMINANCE_STEPS * log(apart, DOMINANCE_FANOUT))
        case IndexKind.SCAN:
            return rows


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
