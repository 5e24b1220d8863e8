"""Windows of so many tuples: what dispatchers count and say, and what the log is kept for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from biclique.core.ranks import EpochTotals, Totals
from biclique.core.rows import Rows
from biclique.core.stamps import POSITIONS_PER_EPOCH, stamp_base
from biclique.plan.make import make_plan
from biclique.plan.model import Plan
from biclique.plan.table import first_table
from biclique.ports.wire import Message, Wire
from biclique.query.model import Window
from biclique.routing.protocol import Role
from biclique.tiers.dispatcher import Dispatcher, LastRead, dispatcher_producer
from biclique.tiers.inbox import Inbox
from biclique.tiers.messages import Block, Record, Signal
from biclique.tiers.progress import DispatcherProgress, JoinerProgress, SourcePartition
from biclique.tiers.ranking import ranked, take_totals
from biclique.tiers.ranking import totals_of as totals_of_plan
from biclique.tiers.stamping import Stamping
from biclique.tiers.trimming import keep_from
from tests.unit.tiers.building import numbered, query, rows, signal, source_block


def counted_plan(sql: str, *tuples: int | None, sources: str = "rs") -> Plan:
    made = query(sql, sources)
    relations = zip(made.relations, tuples, strict=True)
    return make_plan(replace(made, relations=tuple(replace(r, window=Window(tuples=n)) for r, n in relations)))


class Desk:
    """Dispatcher 0 of source r, and what it has sent so far."""

    def __init__(self, plan: Plan, progress: DispatcherProgress | None = None) -> None:
        self.plan, self.now = plan, 1000
        self.dispatcher = Dispatcher(plan, 0, [SourcePartition(0, 0)], progress or DispatcherProgress())

    def sent(self, *records: Record) -> list[Record]:
        offset = self.dispatcher.progress.offset + len(records)
        turn = self.dispatcher.turn(numbered(records), offset, first_table(self.plan), self.now, LastRead(), flush=True)
        assert turn is not None
        self.dispatcher.committed(turn, self.now)
        self.now += 10
        return [record for _, record in turn.sends]


def totals_of(records: Sequence[Record]) -> tuple[EpochTotals, ...]:
    return next(record.totals for record in records if isinstance(record, Signal))


def ordinals_of(records: Sequence[Record], side: int) -> list[list[int]]:
    blocks = [r for r in records if isinstance(r, Block) and r.role is Role.STORE and r.side == side]
    return [ordinals.tolist() for ordinals in blocks[0].rows.ordinals]


EQUALITY = "SELECT r.k FROM r JOIN s ON r.k = s.k"


def test_a_dispatcher_counts_over_its_life_what_it_accepts() -> None:
    plan = counted_plan(EQUALITY, 3, 4)
    desk = Desk(plan)
    sent = desk.sent(source_block([0, 1, 2], times=[100, 100, 100], dead=[1]))
    assert ordinals_of(sent, 0) == [[0, 1], [0, 0]]
    assert totals_of(sent) == (EpochTotals(0, (0, 0)), EpochTotals(1000, (2, 0)))
    assert totals_of(desk.sent()) == (EpochTotals(1000, (2, 0)), EpochTotals(1010, (2, 0)))
    again = Desk(plan, desk.dispatcher.progress)
    sent = again.sent(source_block([3, 4, 5], times=[99, 100, 101], predecessor=2))  # 99 is late
    assert ordinals_of(sent, 0) == [[2, 3], [0, 0]]
    assert totals_of(sent) == (EpochTotals(1010, (2, 0)), EpochTotals(1011, (4, 0)))


def test_each_epoch_of_a_turn_has_its_totals() -> None:
    desk, count = Desk(counted_plan(EQUALITY, 3, None)), 2 * POSITIONS_PER_EPOCH + 10
    sent = desk.sent(source_block(range(count), times=[0] * count))
    full = POSITIONS_PER_EPOCH
    assert totals_of(sent) == tuple(
        EpochTotals(epoch, (total,)) for epoch, total in ((0, 0), (1000, full), (1001, 2 * full), (1002, count))
    )
    stored = [r.rows for r in sent if isinstance(r, Block) and r.role is Role.STORE]
    assert np.concatenate([part.ordinals[0] for part in stored]).tolist() == list(range(count))


def test_the_relations_of_a_self_join_take_turns_and_count_apart() -> None:
    plan = counted_plan("SELECT a.k FROM r a JOIN r b ON a.k = b.k AND b.v > 0 AND a.v > 1", 3, 4, sources="r")
    sent = Desk(plan).sent(source_block([0, 1, 2], values=[1, 2, 2], fields=2))
    sides = {plan.entry(relation)[1]: relation for relation in range(2)}
    found = {sides[side]: ordinals_of(sent, side) for side in range(2)}
    assert found == {0: [[0, 1], [1, 2]], 1: [[0, 1, 2], [0, 1, 2]]}  # b0 a1 b1 a2 b2
    assert totals_of(sent)[-1].counts == (2, 3)


@pytest.mark.parametrize("seed", range(40))
def test_stamps_and_counts_are_those_of_one_tuple_after_another(seed: int) -> None:
    rng = np.random.default_rng(seed)
    counted = [n for n in range(2) if rng.random() < 0.7]
    size = POSITIONS_PER_EPOCH if seed % 20 == 7 else 0
    stamping = Stamping(3, 7, counted, EpochTotals(5, tuple(10 * (n + 1) for n in counted)))
    due: list[tuple[int, int]] = []  # epoch, position
    totals = {n: 10 * (n + 1) for n in counted}
    ends = {5: dict(totals)}
    for _ in range(4):
        width = int(rng.integers(1, 6)) + size
        relations = [n for n in range(2) if rng.random() < 0.8]
        records = {n: np.flatnonzero(rng.random(width) < 0.6) for n in relations}
        order = [(r, n) for n in relations for r in records[n].tolist()]
        order = sorted(order) if counted else order
        found: dict[tuple[int, int], tuple[int, tuple[int, ...]]] = {}
        for run in stamping.give(records) if relations else ():
            taken = records[run.relation][run.start : run.stop].tolist()
            for i, record in enumerate(taken):
                found[record, run.relation] = int(run.stamps[i]), tuple(int(o[i]) for o in run.ordinals)
        for tuple_ in order:
            epoch, position = due[-1] if due else (7, -1)
            due.append((epoch + 1, 0) if position + 1 == POSITIONS_PER_EPOCH else (epoch, position + 1))
            assert found.pop(tuple_) == (stamp_base(due[-1][0], 3) + due[-1][1], tuple(totals.values()))
            if tuple_[1] in totals:
                totals[tuple_[1]] += 1
            ends[due[-1][0]] = dict(totals)
        assert not found
    ends.setdefault(7, dict(totals))
    assert stamping.epoch == max(ends)
    assert stamping.totals == (tuple(EpochTotals(e, tuple(of.values())) for e, of in ends.items()) if counted else ())


def test_without_such_a_window_nothing_is_counted() -> None:
    sent = Desk(counted_plan(EQUALITY, None, None)).sent(source_block([0, 1]))
    assert totals_of(sent) == ()
    assert all(record.rows.ordinals == () for record in sent if isinstance(record, Block))


def test_what_is_counted_goes_over_the_wire() -> None:
    plan = counted_plan(EQUALITY, 3, 4)
    wire = Wire(plan)
    for record in Desk(plan).sent(source_block([0, 1])):
        message = wire.encode(record)
        again = wire.decode(Message(message.value, message.headers))
        if isinstance(record, Block):
            assert isinstance(again, Block)
            assert [o.tolist() for o in again.rows.ordinals] == [o.tolist() for o in record.rows.ordinals]
        else:
            assert again == record


# --- trimming --------------------------------------------------------------------------------------------------------


def block(side: int, role: Role, dispatcher: int, epoch: int, ordinals: Sequence[int]) -> Block:
    count = len(ordinals)
    made = rows([epoch] * count, [0] * count, [1] * count)
    stamps = np.uint64(stamp_base(epoch, dispatcher)) + np.arange(count, dtype=np.uint64)
    own, none = np.array(ordinals, np.int64), np.zeros(count, np.int64)
    given = Rows(stamps, made.ids, made.newest, made.oldest, made.columns, (own, none) if side == 0 else (none, own))
    return Block(0, side, role, dispatcher_producer(dispatcher), epoch, given)


def told(dispatcher: int, *totals: tuple[int, int]) -> Signal:
    made = signal(dispatcher_producer(dispatcher), totals[-1][0])
    return replace(made, totals=tuple(EpochTotals(epoch, (count, 0)) for epoch, count in totals))


@pytest.mark.parametrize(
    ("tuples", "total", "kept"),
    [
        (1, 7, 6),  # everything has expired: from the progress on
        (1, 6, 1),  # the tuple of rank 5, in epoch 20: dispatcher 1 told of epoch 30 long before
        (5, 6, 1),
        (6, 6, 0),  # the tuple of rank 0, in epoch 5
    ],
)
def test_the_signals_that_rank_the_oldest_needed_block_are_kept(tuples: int, total: int, kept: int) -> None:
    """Dispatcher 1 runs ahead: it has stamped three tuples, for other units, by epoch 9, and signalled 30 before
    dispatcher 0 sends."""
    plan = counted_plan(EQUALITY, tuples, None)
    (unit, *_) = (u for u in first_table(plan).units() if u.subgroup.side == 0)
    records: list[Record] = [
        told(1, (0, 0), (9, 3)),
        told(1, (9, 3), (30, 3)),
        block(0, Role.STORE, 0, 5, [0]),
        told(0, (0, 0), (5, 1)),
        block(0, Role.STORE, 0, 20, [1, 2]),
        told(0, (5, 1), (20, 3)),
    ]
    progress = {unit: JoinerProgress(len(records), 20, counted=(total,))}
    found = keep_from(plan, first_table(plan), [unit], frozenset((unit,)), progress, enumerate(records), len(records))
    assert found == kept
    totals = totals_of_plan(plan)
    assert totals is not None
    for offset, record in enumerate(records[kept:], kept):
        if isinstance(record, Signal):
            take_totals(totals, offset, record)
    for record in records[kept:]:
        if isinstance(record, Block):
            due = [0] if record.epoch == 5 else [4, 5]
            (ranks,) = ranked(record.rows, plan.stages[0].sides[0], totals).ordinals
            assert ranks.tolist() == due or (record.epoch == 5 and tuples < 6)


def test_progress_waits_for_the_signals_that_rank_what_comes_next() -> None:
    """Dispatcher 1 runs ahead with tuples for other units; only its signal at offset 2 tells so here."""
    inbox = Inbox(0, [dispatcher_producer(n) for n in range(2)], (), -1, totals=Totals(2, 2))
    for offset, said in enumerate((told(1, (0, 0), (9, 3)), told(0, (0, 0), (9, 0)), told(1, (9, 3), (30, 4)))):
        inbox.take_signal(offset, said)
    assert inbox.earliest(5, 9) == 2
    inbox.advance(9)
    assert inbox.earliest(5, 9) == 2
    assert inbox.earliest(5, 30) == 5
