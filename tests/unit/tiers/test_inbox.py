"""Frontier, senders and pending rows: what a unit may handle, and what it must keep."""

from __future__ import annotations

import numpy as np
import pytest

from biclique.core.rows import Rows
from biclique.routing.protocol import Role
from biclique.routing.table import RoutingTable, Subgroup, UnitId
from biclique.tiers.dispatcher import dispatcher_producer
from biclique.tiers.inbox import INFINITE, HeldMax, Inbox, in_stamp_order, joiner_producer
from biclique.tiers.messages import Block
from tests.unit.tiers.building import rows, signal

ONE, TWO = dispatcher_producer(0), dispatcher_producer(1)
TABLE = RoutingTable(0, {}, {}, {})
SENDER = UnitId(Subgroup(0, 0, 0), 0)


def block(given: Rows, epoch: int, role: Role = Role.STORE) -> Block:
    return Block(0, 0, role, ONE, epoch, given)


def inbox(rows_max: int = 1000, stage: int = 0, senders: tuple[UnitId, ...] = ()) -> Inbox:
    return Inbox(stage, (ONE, TWO), senders, -1, HeldMax(rows_max))


def test_the_frontier_is_the_least_last_signalled_epoch() -> None:
    box = inbox()
    assert box.frontier(TABLE) is None
    box.take_signal(0, signal(ONE, 7))
    assert box.frontier(TABLE) is None, "one has not been heard"
    box.take_signal(0, signal(TWO, 5))
    assert box.frontier(TABLE) == 5
    box.take_signal(0, signal(TWO, 9))
    assert box.frontier(TABLE) == 7


def test_the_watermark_uses_signals_at_or_below_the_frontier_only() -> None:
    box = inbox()
    for said in (signal(ONE, 5, watermark=50), signal(ONE, 9, watermark=90), signal(TWO, 6, watermark=60)):
        box.take_signal(0, said)
    assert box.watermark_at(6) == 50
    box.advance(6)
    assert box.watermark_at(6) == 50, "what is forgotten is not needed"
    assert box.watermark_at(9) == 60


@pytest.mark.parametrize("seed", range(5))
def test_signals_that_say_nothing_new_are_not_kept(seed: int) -> None:
    """One sender is silent for long; the other's watermark rises five times meanwhile."""
    rng = np.random.default_rng(seed)
    rises, box = sorted(rng.integers(1, 1000, 5).tolist()), inbox()
    said = [signal(ONE, epoch, watermark=sum(rise <= epoch for rise in rises)) for epoch in range(1, 1000)]
    box.take_signal(0, signal(TWO, 1, watermark=99))
    for one in said:
        box.take_signal(0, one)
    assert len(box._signals[ONE]) <= 2 * len(rises) + 2
    box.take_signal(0, signal(TWO, 1000, watermark=99))
    assert box.frontier(TABLE) == 999
    for frontier in sorted(rng.integers(1, 1000, 50).tolist()):
        assert box.watermark_at(frontier) == max(one.watermark for one in said if one.epoch <= frontier)
        if rng.random() < 0.5:
            box.advance(frontier)


def test_rows_of_one_block_are_handed_on_epoch_by_epoch() -> None:
    box = inbox()
    given = rows([1, 2, 2, 5], [0, 0, 0, 0], [1, 2, 3, 4])
    box.take_block(0, block(given, 1), given)
    assert [len(part) for part in box.ready(2)[0, Role.STORE]] == [3]
    box.advance(2)
    assert box.earliest(1, 2) == 0, "its last row is still to be handled"
    ((left,),) = box.ready(5).values()
    assert left.columns[0].values.tolist() == [4]  # type: ignore[union-attr]
    box.advance(5)
    assert box.earliest(1, 5) == 1


@pytest.mark.parametrize("handled", [0, 1])
def test_over_its_budget_it_keeps_offsets_and_reads_the_blocks_again(handled: int) -> None:
    box = inbox(rows_max=4)
    early, late = rows([1, 1], [0, 0], [1, 2]), rows([2, 3, 3], [0, 0, 0], [3, 4, 5])
    box.take_block(0, block(late, 2), late)
    box.take_block(1, block(early, 1), early)
    assert box.missing(1) == (), "what is needed last goes first"
    box.advance(1)
    assert box.missing(2) == (0,)
    box.restore(0, block(late, 2))
    assert [part.columns[0].values.tolist() for part in box.ready(3)[0, Role.STORE]] == [[3, 4, 5]]  # type: ignore[union-attr]
    if handled:
        box.advance(2)
        assert [part.columns[0].values.tolist() for part in box.ready(3)[0, Role.STORE]] == [[4, 5]]  # type: ignore[union-attr]


def test_a_unit_of_the_stage_before_counts_until_its_last_signal() -> None:
    box = inbox(stage=1, senders=(SENDER,))
    for sender in (ONE, TWO):
        box.take_signal(0, signal(sender, 9))
    assert box.frontier(TABLE) is None
    box.take_signal(0, signal(joiner_producer(SENDER), 4))
    assert box.frontier(TABLE) == 4
    box.take_signal(0, signal(joiner_producer(SENDER), 4, ended=True))
    assert box.frontier(TABLE) == 9


def test_a_sender_that_a_version_adds_counts_from_its_switch_over_point_on() -> None:
    box = inbox(stage=1)
    table = RoutingTable(1, {}, {SENDER.subgroup: (SENDER,)}, {0: 3}, (), {(0, 1): 3}, {SENDER: 1})
    box.take_signal(0, signal(ONE, 9, version=1, first_epoch=6))
    box.take_signal(0, signal(TWO, 5))
    box.learn(table)
    assert box.switch_over(1, table) == INFINITE, "not everybody has announced it"
    assert box.frontier(table) == 5
    box.take_signal(0, signal(TWO, 12, version=1, first_epoch=8))
    assert box.switch_over(1, table) == 8
    assert box.frontier(table) == 8, "it may say nothing at or below, and may say something above"
    box.take_signal(0, signal(joiner_producer(SENDER), 11, version=1))
    assert box.frontier(table) == 9


def test_parts_that_overlap_are_put_in_order_and_partial_results_go_by_their_ids() -> None:
    rng = np.random.default_rng(7)
    for _ in range(50):
        epochs = np.sort(rng.integers(0, 6, 12))
        ids = rng.integers(0, 4, 12)
        whole = rows(epochs.tolist(), [0] * 12, list(range(12)), ids=ids.tolist())
        stamps = (whole.stamps >> np.uint64(23)) << np.uint64(23)  # partial results share their stamp
        owner = rng.integers(0, 3, 12)
        parts = []
        for n in range(3):
            at = np.flatnonzero(owner == n)
            at = at[np.lexsort((ids[at], stamps[at]))]
            if len(at):
                parts.append(Rows(stamps[at], (ids[at],), whole.newest[at], whole.oldest[at], ()))
        made = in_stamp_order(parts)
        assert made is not None
        expected = sorted(zip(stamps.tolist(), ids.tolist(), strict=True))
        assert list(zip(made.stamps.tolist(), made.ids[0].tolist(), strict=True)) == expected


def test_a_leaver_counts_for_whoever_reads_on_before_its_farewell() -> None:
    box = inbox(stage=1, senders=(SENDER,))
    for offset, said in enumerate(
        (signal(ONE, 150), signal(TWO, 150), signal(joiner_producer(SENDER), 70, ended=True))
    ):
        box.take_signal(offset, said)
    assert box.frontier(TABLE) == 150
    assert box.senders_from(1) == (SENDER,), "blocks of its may be read again before its farewell is"
    assert box.senders_from(3) == ()


def test_a_farewell_tells_of_the_version_that_it_leaves_by() -> None:
    box = inbox(stage=1, senders=(SENDER,))
    box.take_signal(0, signal(joiner_producer(SENDER), 4, version=3, ended=True))
    assert box.newest_version == 3, "an older table would bring it back"


def test_it_is_over_its_budget_by_bytes_as_well_as_by_rows() -> None:
    one = rows([1], [0], [1])
    box = Inbox(0, (ONE, TWO), (), -1, HeldMax(rows=1000, bytes=3 * one.nbytes))
    for offset in range(4):
        given = rows([1 + offset], [0], [offset])
        box.take_block(offset, block(given, 1 + offset), given)
        assert box.bytes_held <= 3 * one.nbytes
    assert box.missing(9) == (1, 2, 3), "half of the budget is kept"


def test_a_step_goes_as_far_as_its_blocks_fit_and_one_epoch_at_least() -> None:
    box = inbox(rows_max=4)
    for offset, (epoch, count) in enumerate(((1, 3), (2, 1), (3, 1), (5, 9), (5, 1), (8, 2))):
        given = rows([epoch] * count, [0] * count, [0] * count)
        box.take_block(offset, block(given, epoch), given)
    reached, done = [], 0
    while done < 9:
        box.make_room(to := box.within(9, done))
        for offset in box.missing(to):
            epoch, count = ((1, 3), (2, 1), (3, 1), (5, 9), (5, 1), (8, 2))[offset]
            box.restore(offset, block(rows([epoch] * count, [0] * count, [0] * count), epoch))
        assert box.rows_held <= max(4, sum(len(part) for parts in box.ready(to).values() for part in parts))
        box.advance(to)
        reached.append(done := to)
    assert reached == [2, 4, 7, 9]
    assert box.rows_held == box.bytes_held == 0
