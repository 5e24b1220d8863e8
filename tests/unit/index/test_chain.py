"""The chain: references, archiving, expiry, bounded chunks, bulk loading, and what the state weighs."""

from __future__ import annotations

import numpy as np
import pytest

from biclique.core.rows import Vector
from biclique.index.build import new_store
from biclique.index.protocol import (
    KEY_MAX,
    PAIRS_PER_CHUNK,
    IndexKind,
    ProbeKeys,
    ProbeOrder,
    StoredKeys,
    StoreLayout,
)
from biclique.query.types import BIGINT, INT, Type
from tests.model.store import plain_rows
from tests.unit.index.stores import answer, band, order_for, ordered_store, put, rows_at


def test_references_follow_on_over_appends_and_segments() -> None:
    store = ordered_store(period=10)
    assert [put(store, range(25)), put(store, range(25, 30)), store.end] == [0, 25, 30]
    assert store.segments > 2
    everything = np.arange(30)
    assert store.gather(everything).ids[0].tolist() == everything.tolist()
    assert store.rows_from(27, 1 << 30, 1 << 40)[0].ids[0].tolist() == [27, 28, 29]
    shuffled = np.random.default_rng(1).permutation(30)
    assert store.gather(shuffled).columns[1].values.tolist() == (2 * shuffled).tolist()
    assert store.column(1, shuffled).values.tolist() == (2 * shuffled).tolist()


def test_an_empty_append_changes_nothing() -> None:
    store = ordered_store()
    put(store, [1, 2])
    assert put(store, []) == 2 == store.end == store.rows


def test_a_segment_is_archived_when_time_has_moved_on_by_the_period() -> None:
    store = ordered_store(period=10)
    for time in range(100):
        put(store, [time])
    assert 8 <= store.segments <= 10
    assert store.runs <= store.segments + 3


def test_rows_out_of_order_do_not_break_the_chain_into_single_rows() -> None:
    store = ordered_store(period=10)
    rng = np.random.default_rng(1)
    for time in range(1000):
        put(store, [time - int(rng.integers(0, 300))])
    assert store.segments <= 1000 // 10 + 2


def test_a_bulk_append_is_archived_as_single_appends_would_be() -> None:
    bulk, single = ordered_store(period=10), ordered_store(period=10)
    times = np.arange(500) + np.random.default_rng(1).integers(0, 5, 500)
    put(bulk, times)
    for time in times:
        put(single, [time])
    assert bulk.segments == single.segments
    for bound in range(0, 510, 30):
        assert bulk.expire(bound) == single.expire(bound)


def test_times_at_the_end_of_int64_archive_nothing_wrongly() -> None:
    store = ordered_store(period=10)
    put(store, [KEY_MAX - 3, KEY_MAX - 2, KEY_MAX], [1, 2, 3])
    assert store.segments == 1
    assert answer(store, band([0], [9]), order_for(1, KEY_MAX, window=2)) == {(0, 1), (0, 2)}


def test_expiry_drops_whole_segments_in_time() -> None:
    """A row lives at most one period longer than it must, and never shorter."""
    store = ordered_store(period=10)
    for now in range(300):
        put(store, [now])
        bound = now - 50
        before = store.rows
        assert store.expire(bound) == before - store.rows
        oldest = store.rows_from(0, 1 << 30, 1 << 40)[0].newest.min()
        assert oldest <= max(bound, 0) and oldest >= bound - 11


def test_expiry_of_everything_leaves_a_store_that_goes_on() -> None:
    store = ordered_store(period=10)
    put(store, range(5))
    assert store.expire(100) == 5
    assert (store.rows, store.end, store.bytes) == (0, 5, 0)
    assert put(store, [200]) == 5
    assert answer(store, band([200], [200]), order_for(1)) == {(0, 5)}


def test_a_reference_to_a_dropped_row_is_refused() -> None:
    store = ordered_store(period=10)
    put(store, range(40))
    store.expire(25)
    with pytest.raises(AssertionError, match="not stored"):
        store.gather(np.array([0]))
    with pytest.raises(AssertionError, match="not stored"):
        store.gather(np.array([40]))


def test_what_was_handed_out_stays_as_it_was() -> None:
    """Arrays over a buffer must survive its growth, over many remappings."""
    store = ordered_store()
    put(store, range(200_000))
    before, _ = store.rows_from(0, 1 << 30, 1 << 40)
    kept = plain_rows(before.slice(0, 100))
    for _ in range(3):
        put(store, range(500_000))
    assert plain_rows(before.slice(0, 100)) == kept
    assert (before.stamps == np.arange(200_000)).all()
    assert (store.rows_from(0, 1 << 30, 1 << 40)[0].ids[0] == np.arange(1_700_000)).all()


def test_chunks_are_bounded_whatever_the_number_of_matches() -> None:
    store = ordered_store()
    put(store, np.zeros(3000))
    sizes = [len(matches.probe) for matches in store.probe(band([0] * 100, [0] * 100), order_for(100))]
    assert sum(sizes) == 300_000 and max(sizes) <= PAIRS_PER_CHUNK
    assert len(sizes) == -(-300_000 // PAIRS_PER_CHUNK)


def test_a_full_chunk_is_the_last_one_when_nothing_follows() -> None:
    store = ordered_store(pairs_per_chunk=4)
    put(store, np.zeros(4))
    assert [len(matches.probe) for matches in store.probe(band([0], [0]), order_for(1))] == [4]


def test_a_probe_that_is_let_go_halfway_leaves_the_store_usable() -> None:
    store = ordered_store(pairs_per_chunk=4)
    put(store, np.zeros(10))
    next(iter(store.probe(band([0], [0]), order_for(1))))
    assert len(answer(store, band([0], [0]), order_for(1))) == 10


def test_with_two_windows_that_of_the_earlier_side_counts() -> None:
    store = ordered_store()
    put(store, [0, 100, 200], [1, 1, 1])
    order = order_for(1, 100)
    times = np.full(1, 100)
    for stored_window, probe_window, expected in ((100, 50, {0, 1}), (50, 100, {1, 2}), (None, 0, {0, 1}), (0, 0, {1})):
        order = ProbeOrder(np.full(1, 1 << 62, np.uint64), times, times, 1 << 40, stored_window, probe_window)
        assert {stored for _, stored in answer(store, band([1], [1]), order)} == expected


def test_only_rows_of_this_step_are_held_against_the_stamp() -> None:
    """Stamps of adopted rows interleave with the store's own: rows before fresh_from match whatever their stamp."""
    store = ordered_store()
    put(store, [1, 1, 1])
    times = np.ones(1, np.int64)
    for fresh_from, expected in ((3, {0, 1, 2}), (0, {0}), (2, {0, 1})):
        order = ProbeOrder(np.ones(1, np.uint64), times, times, fresh_from, None, None)
        assert {stored for _, stored in answer(store, band([1], [1]), order)} == expected


# --- what it weighs --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("column", [BIGINT, INT], ids=str)
@pytest.mark.parametrize("period", [None, 100_000], ids=["full", "windowed"])
@pytest.mark.parametrize("kind", [IndexKind.EQUALITY, IndexKind.ORDERED, IndexKind.DOMINANCE], ids=lambda k: k.name)
def test_state_is_at_most_twice_what_is_kept(kind: IndexKind, period: int | None, column: Type) -> None:
    store = new_store(StoreLayout(kind, (column, column), archive_period_us=period))
    rng = np.random.default_rng(1)
    width = column.bits // 8
    for number in range(100):
        rows = rows_at(number * 10_000, range(number * 10_000, (number + 1) * 10_000))
        key = rng.integers(0, 1 << 40, 10_000)
        values = Vector(key.astype(f"int{column.bits}"))
        rows = type(rows)(rows.stamps, rows.ids, rows.newest, rows.oldest, (values, values))
        store.append(rows, StoredKeys(None if kind is IndexKind.DOMINANCE else key, key, key))
        one = key[:1]
        two = kind is IndexKind.DOMINANCE
        asked = ProbeKeys(1, None, one, one, one, one) if two else ProbeKeys(1, one, one, one)
        for _ in store.probe(asked, order_for(1)):  # what is made at the first probe counts too
            pass
    raw = store.rows * (3 * 8 + 2 * width)
    assert raw <= store.bytes <= 2 * raw
