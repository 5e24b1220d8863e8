"""A rank is the number of tuples of its relation with a smaller stamp, whatever part of the log it is told from.

Method: dispatchers stamp random tuples of two relations in transactions of their own, several in one epoch and several
epochs in one; their signals come in any order between dispatchers. The twin counts stamps one by one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from biclique.core.ranks import EpochTotals, Totals
from biclique.core.rows import Rows
from biclique.core.stamps import stamp_base

DISPATCHERS, RELATIONS = 3, 2


@dataclass(frozen=True)
class Told:
    """A signal: who, at which offset, and what it tells."""

    dispatcher: int
    offset: int
    totals: tuple[EpochTotals, ...]


@dataclass(frozen=True)
class Log:
    rows: list[tuple[int, int, tuple[int, ...]]]  # stamp, relation, ordinals
    signals: list[Told]

    def rank(self, stamp: int, relation: int) -> int:
        return sum(other < stamp and of == relation for other, of, _ in self.rows)

    def rows_above(self, epoch: int) -> Rows:
        bound = stamp_base(epoch + 1, 0)
        kept = sorted(row for row in self.rows if row[0] >= bound)
        stamps = np.array([stamp for stamp, _, _ in kept], np.uint64)
        times = np.zeros(len(kept), np.int64)
        ordinals = tuple(np.array([of[n] for _, _, of in kept], np.int64) for n in range(RELATIONS))
        return Rows(stamps, (times,), times, times, (), ordinals)


def random_log(rng: np.random.Generator) -> Log:
    rows: list[tuple[int, int, tuple[int, ...]]] = []
    by_dispatcher: list[list[tuple[EpochTotals, ...]]] = []
    for dispatcher in range(DISPATCHERS):
        epoch, counted, told = 0, [0] * RELATIONS, []
        for _ in range(int(rng.integers(1, 8))):
            totals = [EpochTotals(epoch, tuple(counted))]
            epoch += int(rng.integers(1, 4))
            for _ in range(int(rng.choice((1, 1, 3)))):  # an overflow of positions goes on in the next epoch
                for position in range(int(rng.integers(0, 4))):
                    relation = int(rng.integers(RELATIONS))
                    rows.append((stamp_base(epoch, dispatcher) + position, relation, tuple(counted)))
                    counted[relation] += 1
                totals.append(EpochTotals(epoch, tuple(counted)))
                epoch += 1
            epoch -= 1
            told.append(tuple(totals))
        by_dispatcher.append(told)
    signals: list[Told] = []
    while any(by_dispatcher):
        dispatcher = int(rng.choice([n for n, left in enumerate(by_dispatcher) if left]))
        signals.append(Told(dispatcher, 10 * len(signals), by_dispatcher[dispatcher].pop(0)))
    return Log(rows, signals)


def taken(signals: list[Told], totals: Totals) -> Totals:
    for signal in signals:
        totals.take(signal.dispatcher, signal.totals, signal.offset)
    return totals


def ranks(totals: Totals, rows: Rows, relation: int) -> list[int]:
    (found,) = totals.ranked(rows, relation).ordinals
    return found.tolist()


@pytest.mark.parametrize("seed", range(60))
def test_a_rank_counts_the_smaller_stamps(seed: int) -> None:
    log = random_log(np.random.default_rng(seed))
    totals, rows = taken(log.signals, Totals(DISPATCHERS, RELATIONS)), log.rows_above(-1)
    for relation in range(RELATIONS):
        due = [log.rank(stamp, relation) for stamp in rows.stamps.tolist()]
        assert ranks(totals, rows, relation) == due
    last = max(epoch for signal in log.signals for epoch, _ in signal.totals)
    assert totals.sum_at(last) == tuple(sum(of == n for _, of, _ in log.rows) for n in range(RELATIONS))


@pytest.mark.parametrize("seed", range(60))
def test_what_is_told_from_a_frontier_on_is_enough_for_what_is_above_it(seed: int) -> None:
    """A manifest's totals and the signals at or behind the offset that its progress keeps; and the same signals alone,
    as a replay of a trimmed log reads them."""
    rng = np.random.default_rng(seed)
    log = random_log(rng)
    whole = taken(log.signals, Totals(DISPATCHERS, RELATIONS))
    frontier = int(rng.integers(0, 12))
    keep = whole.earliest_above(frontier)
    behind = [] if keep is None else [signal for signal in log.signals if signal.offset >= keep]
    rows = log.rows_above(frontier)
    based = taken(behind, Totals(DISPATCHERS, RELATIONS, frontier, whole.at(frontier)))
    alone = taken(behind, Totals(DISPATCHERS, RELATIONS))
    silent = {n for n in range(DISPATCHERS) if all(signal.dispatcher != n for signal in behind)}
    for relation in range(RELATIONS):
        due = [log.rank(stamp, relation) for stamp in rows.stamps.tolist()]
        assert ranks(based, rows, relation) == due
        if not silent:  # a dispatcher that the frontier waits for signals again
            assert ranks(alone, rows, relation) == due
    whole.forget(frontier)
    assert ranks(whole, rows, 0) == [log.rank(stamp, 0) for stamp in rows.stamps.tolist()]


@pytest.mark.parametrize("seed", range(60))
def test_where_the_log_does_not_tell_a_rank_is_never_too_high(seed: int) -> None:
    rng = np.random.default_rng(seed)
    log = random_log(rng)
    known = taken(log.signals[int(rng.integers(len(log.signals))) :], Totals(DISPATCHERS, RELATIONS))
    rows = log.rows_above(-1)
    for relation in range(RELATIONS):
        due = [log.rank(stamp, relation) for stamp in rows.stamps.tolist()]
        assert all(found <= right for found, right in zip(ranks(known, rows, relation), due, strict=True))
