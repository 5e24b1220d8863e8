"""Slow start, what is in flight, and who is waited for; a dispatcher whose receivers are behind takes nothing on, and
signals all the same."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from biclique.hosts.perform import Performer
from biclique.plan.table import first_table
from biclique.ports.memory import MemoryLog, MemoryStore
from biclique.routing.protocol import Role
from biclique.routing.table import Move, UnitId
from biclique.tiers.dispatcher import HEARTBEAT_MS, dispatcher_producer
from biclique.tiers.effects import Commit, Consult, Orders, Read, Rest
from biclique.tiers.inbox import joiner_producer
from biclique.tiers.loops import ReadLimits, dispatcher_loop
from biclique.tiers.merger import merger_producer
from biclique.tiers.messages import Address, Block, Record, Results, Signal, Topic
from biclique.tiers.pace import QUICK_MS, SLOW_MS, Pace
from biclique.tiers.progress import JoinerProgress, MergerProgress, SourcePartition
from biclique.tiers.receivers import reached, receivers
from tests.unit.tiers.building import plan, rows, source_block

JOIN = "SELECT r.k, s.v FROM r JOIN s ON r.k = s.k"
BLOCK = Block(0, 0, Role.STORE, dispatcher_producer(0), 1, rows([1] * 10, [0] * 10, [1] * 10))
SENDS: list[tuple[Address, Record]] = [(Address(Topic.UNIT, "0L0.0"), BLOCK)]


def shares(pace: Pace, *commits_ms: int) -> list[int]:
    found = []
    for number, commit_ms in enumerate(commits_ms):
        pace.sent(number, SENDS)
        pace.heed(Orders(commit_ms=commit_ms))
        found.append(pace.share(1024))
    return found


def test_it_begins_small_doubles_while_it_is_quick_and_halves_when_it_is_slow() -> None:
    pace = Pace(6, 1 << 30)
    assert pace.share(1024) == 16
    assert shares(pace, 10, QUICK_MS, QUICK_MS + 1, 10, SLOW_MS, SLOW_MS + 1, SLOW_MS + 1) == [
        *(32, 64, 64, 128, 128, 64, 32)
    ]
    assert shares(pace, *[0] * 9) == [64, 128, 256, 512, 1024, 1024, 1024, 1024, 1024]
    assert shares(pace, *[9999] * 40)[-1] == 1, "something is taken in any case"


def test_only_transactions_with_rows_tell_how_quick_they_are() -> None:
    pace = Pace(3, 1 << 30)
    pace.sent(1, [])
    pace.heed(Orders(commit_ms=1))
    pace.heed(Orders(commit_ms=1))
    assert pace.share(1024) == 128


def test_results_tell_how_quick_they_are_and_are_not_in_flight() -> None:
    pace, results = Pace(3, 1 << 30), Results((), *(np.zeros(1, np.uint64),) * 2, np.zeros(1, np.int64))
    for _ in range(2):
        pace.sent(1, [(Address(Topic.OUTPUT, "0L0.0"), results)])
        pace.heed(Orders(commit_ms=1, reached=0))
    assert pace.share(1024) == 512
    assert not pace.in_flight


def test_what_the_slowest_receiver_has_not_handled_is_in_flight() -> None:
    pace, size = Pace(0, 3 * BLOCK.rows.nbytes), BLOCK.rows.nbytes
    for epoch in (10, 20, 20, 30):
        pace.sent(epoch, SENDS)
    pace.heed(Orders(reached=9))
    assert pace.in_flight == 4 * size and pace.waits
    pace.heed(Orders(reached=19))
    assert pace.in_flight == 3 * size and pace.waits
    pace.heed(Orders(reached=20))
    assert pace.in_flight == size and not pace.waits
    pace.heed(Orders(reached=None))
    assert pace.in_flight == 0, "where nothing is known, nobody waits"


def test_receivers_are_the_units_the_next_stage_or_the_mergers_and_no_source_of_a_move() -> None:
    three = plan("SELECT r.k FROM r JOIN s ON r.k = s.k JOIN t ON s.k = t.k", sources="rst")
    table = first_table(three)
    first, second = table.units_of_stage(0), table.units_of_stage(1)
    assert receivers(three, table, dispatcher_producer(0)) == tuple(map(joiner_producer, table.units()))
    assert receivers(three, table, joiner_producer(first[0])) == tuple(map(joiner_producer, second))
    assert receivers(three, table, joiner_producer(second[0])) == ()
    moving = replace(table, moves=(Move(second[0], second[1], 1),))
    assert joiner_producer(second[0]) not in receivers(three, moving, joiner_producer(first[0]))
    counts = replace(plan("SELECT r.k, COUNT(*) AS n FROM r JOIN s ON r.k = s.k GROUP BY r.k"), mergers=2)
    unit = UnitId(first_table(counts).units()[0].subgroup, 12, 3)
    assert receivers(counts, first_table(counts), joiner_producer(unit)) == (merger_producer(0), merger_producer(1))
    assert receivers(counts, first_table(counts), merger_producer(0)) == ()


def test_the_least_frontier_of_those_that_are_known() -> None:
    assert reached([]) is reached([None]) is None
    assert reached([JoinerProgress(0, 7), None, MergerProgress(0, 5)]) == 5
    assert reached([JoinerProgress(0, 7), JoinerProgress(0)]) == -1  # it has not begun, and can without anybody's word
    assert reached([JoinerProgress(0, 7), JoinerProgress(0, version=3)]) == 7  # it joins, and waits for its senders


@pytest.mark.parametrize("behind", [False, True])
def test_a_dispatcher_whose_receivers_are_behind_takes_nothing_on_and_signals(behind: bool) -> None:
    one = replace(plan(JOIN), dispatchers=1)
    table, log, now = first_table(one), MemoryLog(), 1_000_000
    shuffled = Address(Topic.SHUFFLED, 0)
    log.append(shuffled, [source_block([n], predecessor=n - 1, fields=2) for n in range(20)])
    client = log.client()
    perform = Performer(client, MemoryStore(), lambda _: table, Orders, lambda: now, lambda _: None)
    loop = dispatcher_loop(one, 0, [SourcePartition(0, 0)], ReadLimits(turn_records=1, in_flight_bytes=1))
    effect, commits, last, rests = next(loop), list[Commit](), 0, 0
    while rests < 80:
        now += HEARTBEAT_MS // 200
        assert not (behind and commits and isinstance(effect, Read) and effect.address == shuffled)
        if isinstance(effect, Commit):
            commits.append(effect)
            last = effect.progress.epoch
        rests += isinstance(effect, Rest)
        orders = Orders(reached=0 if behind else last)
        effect = loop.send(orders if isinstance(effect, Consult) else perform(effect))
    carried = [any(isinstance(record, Block) for _, record in commit.sends) for commit in commits]
    assert sum(carried) == (1 if behind else 20)
    assert len(commits) > sum(carried) + 1, "it goes on to signal"
    for commit in commits:
        told = [address for address, record in commit.sends if isinstance(record, Signal)]
        assert len(told) == len(table.units()) + 1
