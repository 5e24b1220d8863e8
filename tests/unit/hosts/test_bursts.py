"""When a source's bad records are a burst."""

from __future__ import annotations

import pytest

from biclique.hosts.shuffle.bursts import WINDOW_MS, Bursts, counted_names
from biclique.hosts.shuffle.heartbeats import OBSERVED
from biclique.query.compile import compile_manifest
from tests.unit.tiers.on_topics import on_topics

SOURCES = compile_manifest(on_topics(of_r="badRecordBurst: {count: 10, share: 0.5}")).sources


def report(batch: int, *counts: tuple[int, int]) -> dict[str, object]:
    """(records, bad) of each source; Spark leaves a sum of nothing at null."""
    observed: dict[str, object] = {}
    for source, (records, bad) in enumerate(counts):
        first = f"place {batch}: reason" if bad else None
        observed |= dict(zip(counted_names(source), (records or None, bad, first), strict=True))
    rows = sum(records for records, _ in counts)
    return {"batchId": batch, "numInputRows": rows, "observedMetrics": {OBSERVED: observed} if rows else {}}


@pytest.mark.parametrize(
    ("batches", "burst"),
    [
        ([(10, 10)], True),
        ([(9, 9)], False),  # too few
        ([(9, 9), (1, 1)], True),
        ([(20, 10)], True),
        ([(21, 10)], False),  # too small a share
        ([(1000, 0), (30, 30)], False),
        ([(1, 1), (0, 0), (18, 9)], True),
    ],
)
def test_so_many_and_so_large_a_share(batches: list[tuple[int, int]], burst: bool) -> None:
    bursts = Bursts(SOURCES)
    found = [bursts.batch_ended(report(n, counts, (5, 0)), 100 * n) for n, counts in enumerate(batches)]
    assert not any(found[:-1])
    assert set(found[-1]) == ({0} if burst else set())


def test_the_sentence_has_the_numbers_and_an_example() -> None:
    bursts = Bursts(SOURCES)
    bursts.batch_ended(report(0, (6, 6), (0, 0)), 0)
    assert bursts.batch_ended(report(1, (6, 5), (0, 0)), 1) == {
        0: "11 of its last 12 records are bad, one of them place 0: reason"
    }


def test_a_minute_and_no_longer() -> None:
    for later, burst in ((WINDOW_MS - 1, True), (WINDOW_MS, False)):
        bursts = Bursts(SOURCES)
        bursts.batch_ended(report(0, (6, 6), (0, 0)), 0)
        assert bool(bursts.batch_ended(report(1, (6, 6), (0, 0)), later)) is burst


def test_a_batch_counts_once_however_often_it_is_reported() -> None:
    bursts = Bursts(SOURCES)
    assert not any(bursts.batch_ended(report(0, (6, 6), (0, 0)), n) for n in range(5))
    assert not bursts.batch_ended(report(1, (0, 0), (0, 0)), 9), "the batch that Spark waits for"
    assert bursts.batch_ended(report(1, (6, 6), (0, 0)), 10)


def test_each_source_has_its_own_limits() -> None:
    bursts = Bursts(SOURCES)
    assert set(bursts.batch_ended(report(0, (900, 899), (900, 899)), 0)) == {0}
    assert set(bursts.batch_ended(report(1, (0, 0), (900, 899)), 1)) == {0, 1}
