"""Every kind of index answers as the obvious store does, whatever is appended, probed and expired in between.

Goal: no pair lost, doubled or invented. Method: random histories from tiny domains (ties, duplicates, extremes, nulls,
rows that are not indexed, probes that are not active, crossed bounds) with small chunks and small merges, so that every
resumption happens. After an expiry the store may still hold, and answer with, rows that are older than the bound; it
must hold all the others.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from biclique.core.rows import Rows, Vector
from biclique.index import runs
from biclique.index.build import new_store
from biclique.index.protocol import (
    KEY_MAX,
    KEY_MIN,
    IndexKind,
    ProbeKeys,
    ProbeOrder,
    Store,
    StoredKeys,
    StoreLayout,
)
from biclique.query.types import BIGINT, DOUBLE, INT, STRING
from tests.model.store import ListedStore, plain_rows, rows_of

STEPS = 14
COLUMN_TYPES = (BIGINT, INT, STRING, DOUBLE)
SUMMED = (0, 1, 3)
DOUBLES = np.array([0.0, 1.5, -2.25, 1e300, -1e300, 1e-9, np.nan, np.inf])


@dataclass(frozen=True)
class Case:
    kind: IndexKind
    equal: bool = False
    first: bool = False
    second: bool = False


CASES = (
    Case(IndexKind.EQUALITY, equal=True),
    Case(IndexKind.ORDERED, first=True),
    Case(IndexKind.EQUALITY_ORDERED, equal=True, first=True),
    Case(IndexKind.DOMINANCE, first=True, second=True),
    Case(IndexKind.DOMINANCE, equal=True, first=True, second=True),
    Case(IndexKind.SCAN),
)


def keys_from(rng: np.random.Generator, count: int) -> np.ndarray:
    """A few close numbers, or now and then the ends of the range."""
    keys = rng.integers(-6, 7, count)
    extremes = rng.choice(np.array([KEY_MIN, KEY_MIN + 1, KEY_MAX - 1, KEY_MAX]), count)
    return np.where(rng.random(count) < 0.1, extremes, keys)


class History:
    """Makes rows in stamp order and probes between them, as a unit's step does."""

    def __init__(self, case: Case, windowed: bool, rng: np.random.Generator) -> None:
        self.case, self.windowed, self.rng = case, windowed, rng
        self.stamp = 1
        self.now = 0
        self.parts = int(rng.integers(1, 3))
        self.nulls = bool(rng.integers(2))
        self.period = int(rng.integers(3, 20)) if windowed else None
        fewest = int(rng.integers(1, 8))
        self.layout = StoreLayout(case.kind, COLUMN_TYPES, self.parts, self.period, SUMMED, fewest)

    def maybe_mask(self, count: int) -> np.ndarray | None:
        return self.rng.random(count) < 0.8 if self.nulls and self.rng.random() < 0.5 else None

    def times(self, count: int) -> tuple[np.ndarray, np.ndarray]:
        newest = self.now + self.rng.integers(-8, 9, count)
        self.now += int(self.rng.integers(0, 12))
        return newest, newest if self.parts == 1 else newest - self.rng.integers(0, 6, count)

    def columns(self, count: int) -> tuple[Vector, ...]:
        rng = self.rng
        big = rng.choice(np.array([KEY_MIN, KEY_MAX, -1, 0, 1, 7, 1 << 40]), count)
        small = rng.integers(-5, 6, count).astype(np.int32)
        texts = [["", "a", "bé", "xyz" * 5][k] for k in rng.integers(0, 4, count)]
        doubles = rng.choice(DOUBLES if rng.random() < 0.3 else DOUBLES[:6], count)
        vectors = []
        for values in (big, small, texts, doubles):
            mask = self.maybe_mask(count)
            if isinstance(values, list):
                if mask is not None:
                    values = [value if valid else "" for value, valid in zip(values, mask, strict=True)]
                vectors.append(Vector(pa.array(values, pa.string()), mask))
            else:
                vectors.append(Vector(values if mask is None else np.where(mask, values, 0).astype(values.dtype), mask))
        return tuple(vectors)

    def rows(self, count: int) -> Rows:
        steps = self.rng.integers(1, 4, count)
        stamps = self.stamp + np.cumsum(steps)
        self.stamp = int(stamps[-1]) if count else self.stamp
        newest, oldest = self.times(count)
        ids = tuple(self.rng.integers(0, 1 << 40, count) for _ in range(self.parts))
        return rows_of(stamps, ids, newest, None if oldest is newest else oldest, self.columns(count))

    def stored_keys(self, count: int) -> StoredKeys:
        made = [keys_from(self.rng, count) if wanted else None for wanted in self.wanted]
        return StoredKeys(*made, indexed=self.maybe_mask(count) if any(self.wanted) else None)

    @property
    def wanted(self) -> tuple[bool, bool, bool]:
        return self.case.equal, self.case.first, self.case.second

    def bounds(self, count: int, wanted: bool) -> tuple[np.ndarray | None, np.ndarray | None]:
        if not wanted:
            return None, None
        low, high = keys_from(self.rng, count), keys_from(self.rng, count)
        match int(self.rng.integers(5)):
            case 0:
                return low, None
            case 1:
                return None, high
            case 2:  # a band of fixed width: both ends ascend together
                low = np.clip(low, KEY_MIN, KEY_MAX - 3)
                return low, low + 3
            case 3:
                return np.minimum(low, high), np.maximum(low, high)
            case _:
                return low, high

    def probe_keys(self, count: int) -> ProbeKeys:
        equal, first, second = self.wanted
        return ProbeKeys(
            count,
            keys_from(self.rng, count) if equal else None,
            *self.bounds(count, first),
            *self.bounds(count, second),
            active=self.maybe_mask(count),
        )

    def order(self, count: int, fresh_from: int, fresh_stamp: int) -> ProbeOrder:
        """Probes of this step: above all rows of earlier steps, among those of this one."""
        stamps = self.rng.integers(fresh_stamp + 1, self.stamp + 3, count).astype(np.uint64)
        newest, oldest = self.times(count)
        windows = [int(self.rng.integers(0, 60)) if self.windowed and self.rng.random() < 0.9 else None for _ in (0, 1)]
        return ProbeOrder(stamps, newest, oldest, fresh_from, *windows)


def pairs_of(store: Store, keys: ProbeKeys, order: ProbeOrder, chunk_pairs: int) -> list[tuple[int, int]]:
    found = []
    for matches in store.probe(keys, order):
        assert 0 < len(matches.probe) == len(matches.stored) <= chunk_pairs
        found += zip(matches.probe.tolist(), matches.stored.tolist(), strict=True)
    return found


def check_totals(store: Store, twin: ListedStore, keys: ProbeKeys, order: ProbeOrder) -> None:
    totals = store.totals(keys, order)
    if totals is None:
        return
    for i in range(keys.count):
        assert totals.count[i] == len(twin.matching(keys, order, i))
        for column, place in enumerate(SUMMED):
            valid, expected = twin.total(keys, order, i, place)
            assert totals.valid[column][i] == valid
            high, low = (part[i] for part in totals.sums[column])
            if COLUMN_TYPES[place] is not DOUBLE:
                assert int(high) * 2**32 + int(low) == expected
            elif isinstance(expected, float):
                assert float(high + low) == expected or (np.isnan(high + low) and np.isnan(expected))
            else:
                # 1e300 and 1e-9 together exceed double-double: the error is relative to the greatest value.
                assert abs(Fraction(float(high)) + Fraction(float(low)) - expected) <= Fraction(1e300) / 2**100 or (
                    abs(expected) >= Fraction(1e300)
                )


@pytest.mark.parametrize("windowed", [False, True], ids=["full", "windowed"])
@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c.kind.name}{'_EQUAL' if c.equal and c.second else ''}")
@pytest.mark.parametrize("seed", range(6))
def test_every_index_answers_as_the_obvious_store(
    case: Case, windowed: bool, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng([seed, list(IndexKind).index(case.kind), windowed, case.equal])
    if seed % 2:
        monkeypatch.setattr(runs, "SMALL_ROWS", 2)
        monkeypatch.setattr(runs, "MERGE_ROWS_AT_ONCE", 16)
        monkeypatch.setattr(runs, "MERGE_PACE", 1)
        monkeypatch.setattr(runs, "DIRECTED_ROWS_MIN", 24)
        monkeypatch.setattr(runs, "BIG_ROWS_MIN", 48)
    chunk_pairs = int(rng.choice([1, 7, 1000]))
    history = History(case, windowed, rng)
    store, twin = new_store(history.layout, chunk_pairs), ListedStore()
    expired_below = KEY_MIN
    for _ in range(STEPS):
        fresh_from, fresh_stamp = store.end, history.stamp
        for _ in range(int(rng.integers(0, 3))):
            count = int(rng.choice([0, 1, 2, 9, 60]))
            rows, keys = history.rows(count), history.stored_keys(count)
            assert store.append(rows, keys) == twin.append(rows, keys)
        assert store.end == len(twin.listed)
        count = int(rng.choice([0, 1, 5, 40]))
        keys, order = history.probe_keys(count), history.order(count, fresh_from, fresh_stamp)
        if count:
            found = pairs_of(store, keys, order, chunk_pairs)
            expected = twin.pairs(keys, order)
            needed = {pair for pair in expected if twin.listed[pair[1]].oldest >= expired_below}
            assert len(set(found)) == len(found)
            assert needed <= set(found) <= expected
            references = np.array([stored for _, stored in found], np.int64)
            listed = [twin.listed[r] for r in references.tolist()]
            assert repr(plain_rows(store.gather(references))) == repr(
                [(r.stamp, r.ids, r.newest, r.oldest, r.values) for r in listed]
            )
            if needed == expected == set(found):
                check_totals(store, twin, keys, order)
        if windowed and rng.random() < 0.4:
            bound = history.now - int(rng.integers(0, 40))
            expired_below = max(expired_below, bound)
            before = store.rows
            dropped = store.expire(bound)
            assert store.rows == before - dropped
        from_here = int(rng.integers(0, store.end + 1))
        kept = []
        at, rows_max, bytes_max = from_here, int(rng.integers(1, 30)), int(rng.integers(1, 3000))
        while at < store.end:
            part, behind = store.rows_from(at, rows_max, bytes_max)
            assert at < behind and len(part) <= min(rows_max, behind - at)
            assert len(part) <= 1 or part.nbytes <= bytes_max
            kept += plain_rows(part)
            at = behind
        listed_from = [(r.stamp, r.ids, r.newest, r.oldest, r.values) for r in twin.listed[from_here:]]
        needed_rows = [row for row in listed_from if row[3] >= expired_below]
        assert [row for row in map(repr, kept) if row in set(map(repr, needed_rows))] == list(map(repr, needed_rows))
        assert set(map(repr, kept)) <= set(map(repr, listed_from))
