"""What every index keeps and answers: the contract between a joiner's logic and the stores.

All kernels work on *keys*: int64 numbers that keep the order of the values they stand for (index/keys.py). A condition
between a stored tuple and a probe is, after planning, a conjunction of

    equal:   key(stored) == key(probe)
    first:   low <= key(stored) <= high         both bounds inclusive, from the probe
    second:  low <= key(stored) <= high

of which any part may be missing. Where keys lose something (strings, composite or hashed equality) the plan keeps the
original predicate in the residual, so an index may answer too much and never too little.

A `Store` holds one side's tuples of one unit, as a chain of segments: rows are appended in stamp order and never
move, so a *reference* (int64) names a row for as long as it is stored. References number the rows ever appended: those
of one append follow on. Expiry drops whole segments and frees their references.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from biclique.core.rows import Rows, Vector
from biclique.core.stamps import Ids, Stamps
from biclique.query.types import Type

PAIRS_PER_CHUNK = 1 << 16  # matches are found, tested and handed on this many at a time, whatever their number

Keys = NDArray[np.int64]
KEY_MIN, KEY_MAX = np.iinfo(np.int64).min, np.iinfo(np.int64).max


class IndexKind(Enum):
    EQUALITY = "equality"
    ORDERED = "ordered"  # band, one inequality
    EQUALITY_ORDERED = "equality and order"
    DOMINANCE = "two inequalities"  # first and second both given, with or without equal
    SCAN = "blocks"  # no key at all: every stored row is a candidate


@dataclass(frozen=True, slots=True)
class StoreLayout:
    """Which keys a side keeps, which columns, and how long.

    `archive_period_us`: a segment is archived once the greatest time has moved on by more than this since it was opened
    (window / 10; for rows in time order: once newest - oldest exceeds it); None: full history, one growing segment.
    `sums`: positions of columns of which range sums are asked (aggregates without pairs). `segment_rows_min`: a segment
    with fewer rows is not archived yet. `by_rank`: the window counts tuples (index/by_rank.py), so what is called time
    here is the rank.
    """

    kind: IndexKind
    column_types: tuple[Type, ...]
    id_parts: int = 1
    archive_period_us: int | None = None
    sums: tuple[int, ...] = ()
    segment_rows_min: int = 1
    by_rank: bool = False


@dataclass(frozen=True, slots=True)
class StoredKeys:
    """Keys of appended rows. A row of which some key is null or failed is not in `indexed`: it matches nothing.

    `indexed` None: all rows. Arrays have one entry per row (any value where not indexed).
    """

    equal: Keys | None = None
    first: Keys | None = None
    second: Keys | None = None
    indexed: NDArray[np.bool_] | None = None


@dataclass(frozen=True, slots=True)
class ProbeKeys:
    """One entry per probing row; a probe that can match nothing is given low > high or left out through `active`."""

    count: int
    equal: Keys | None = None
    first_low: Keys | None = None
    first_high: Keys | None = None
    second_low: Keys | None = None
    second_high: Keys | None = None
    active: NDArray[np.bool_] | None = None


@dataclass(frozen=True, slots=True)
class ProbeOrder:
    """What the pair rule and the window test need of the probing rows.

    `stamps`: a stored row qualifies only if its stamp is smaller. Only rows at or after `fresh_from` (a reference:
    the first row appended in this step) need the test. `newest`, `oldest`: event times. `window_us`: a pair qualifies
    when max(newest) - min(oldest) <= window_us; with two windows (stored side's, probe side's) the one of the side
    that holds the earlier time counts. None: no test.
    """

    stamps: Stamps
    newest: NDArray[np.int64]
    oldest: NDArray[np.int64]
    fresh_from: int
    stored_window_us: int | None
    probe_window_us: int | None


@dataclass(frozen=True, slots=True)
class Matches:
    """At most PAIRS_PER_CHUNK pairs: position in the probing rows, reference of the stored row. Arrays may be reused
    buffers: valid until the next chunk is asked for."""

    probe: NDArray[np.int32]
    stored: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class RangeTotals:
    """Per probing row, over all stored rows that qualify: how many, and for each of `StoreLayout.sums` the exact sum.

    Sums are given as pairs (high, low) with sum = high * 2**32 + low for integer columns, and as (double, error) for
    DOUBLE; nulls are left out and `valid` counts the others; one entry per summed column.
    """

    count: NDArray[np.int64]
    valid: tuple[NDArray[np.int64], ...]
    sums: tuple[tuple[NDArray[np.generic], NDArray[np.generic]], ...]


@dataclass(slots=True)
class ProbeCounters:
    """What the cost model predicts and `explain` promises; asserted against each other."""

    probes: int = 0
    lookups: int = 0  # probe x run
    comparisons: int = 0  # keys, summary nodes and candidates touched
    candidates: int = 0
    matches: int = 0


class Store(Protocol):
    counters: ProbeCounters

    def append(self, rows: Rows, keys: StoredKeys) -> int:
        """Rows in stamp order, above all stored ones; in any order where none will ever be fresh to a probe. Returns
        the reference of the first; the others follow on."""

    def probe(self, keys: ProbeKeys, order: ProbeOrder) -> Iterator[Matches]:
        """Every stored row that fits keys, stamp and window, once for each probe, in chunks, in no promised order."""

    def totals(self, keys: ProbeKeys, order: ProbeOrder) -> RangeTotals | None:
        """Counts and sums in O(log n) a probe wherever no row-wise test is needed; None if this index cannot."""

    def gather(self, stored: NDArray[np.int64]) -> Rows: ...

    def column(self, position: int, stored: NDArray[np.int64]) -> Vector:
        """One column of the referenced rows: a residual reads the columns it needs, before anything else is
        gathered."""

    def names(self, stored: NDArray[np.int64]) -> tuple[Stamps, tuple[Ids, ...]]:
        """Stamps and ids of the referenced rows: what matches are ordered by, before anything else is gathered."""

    def text_bytes(self, stored: NDArray[np.int64]) -> NDArray[np.int64] | None:
        """Of all texts of each referenced row; None: this store has no column of texts."""

    def expire(self, oldest_needed: int) -> int:
        """Drop every segment whose greatest `oldest` time is below the bound (Theorem 1); returns the rows dropped."""

    def rows_from(self, position: int, rows_max: int, bytes_max: int) -> tuple[Rows, int]:
        """The first stored rows at or after the given reference, and the reference behind them: no more of them than
        either bound allows, but one at least; none, and `end`, behind the last. What a checkpoint seals."""

    @property
    def end(self) -> int:
        """The reference that the next appended row will get."""

    @property
    def rows(self) -> int: ...

    @property
    def bytes(self) -> int: ...

    @property
    def bytes_reserved(self) -> int:
        """With room for every merge of runs that may be under way: what `bytes` may come to with these rows."""

    def bytes_below(self, oldest_needed: int) -> int:
        """Of the rows that `expire` would drop now; their index goes with them."""
