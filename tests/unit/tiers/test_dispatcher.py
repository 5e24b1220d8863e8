"""The dispatcher's decisions one by one: what it accepts, when, under which epoch and version, and what it signals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from biclique.core.stamps import EPOCH_MAX, POSITIONS_PER_EPOCH, epoch_of
from biclique.plan.model import Plan
from biclique.plan.table import first_table
from biclique.query.errors import QueryError
from biclique.routing.protocol import Role
from biclique.routing.table import RoutingTable
from biclique.tiers.dispatcher import (
    ANSWER_MS,
    HEARTBEAT_MS,
    WALL_MS_MAX,
    Dispatcher,
    LastRead,
    Turn,
    dispatcher_producer,
)
from biclique.tiers.messages import TIME_NEVER, UNREAD, Block, LateTuples, Record, SetAside, Signal
from biclique.tiers.progress import DispatcherProgress, SourcePartition
from tests.unit.tiers.building import beat, numbered, plan, signal, source_block

EQUALITY = "SELECT r.k FROM r JOIN s ON r.k = s.k WITHIN 10 SECONDS"
OTHER = dispatcher_producer(1)


class Desk:
    """A dispatcher of source r with its table, committing every turn."""

    def __init__(self, made: Plan | None = None, progress: DispatcherProgress | None = None) -> None:
        self.plan = made or plan(EQUALITY)
        self.table: RoutingTable = first_table(self.plan)
        self.dispatcher = Dispatcher(self.plan, 0, [SourcePartition(0, 0)], progress or DispatcherProgress())
        self.now = 1000

    def turn(self, *records: Record, flush: bool = True) -> Turn | None:
        made = self.dispatcher.turn(
            numbered(records),
            self.dispatcher.progress.offset + len(records),
            self.table,
            self.now,
            LastRead(self.dispatcher.others, True),
            flush,
        )
        if made is not None:
            self.dispatcher.committed(made, self.now)
        return made

    def sent(self, *records: Record) -> list[Record]:
        made = self.turn(*records)
        assert made is not None
        return [record for _, record in made.sends]


def stored_ids(records: Sequence[Record]) -> list[int]:
    blocks = [r for r in records if isinstance(r, Block) and r.role is Role.STORE]
    return sorted(int(i) & 0xFFFF for block in blocks for i in block.rows.ids[0])


def signal_of(records: Sequence[Record]) -> Signal:
    return next(r for r in records if isinstance(r, Signal))


def test_a_tuple_is_stored_once_and_probes_the_other_side() -> None:
    sent = Desk().sent(source_block([0, 1, 2]))
    assert stored_ids(sent) == [0, 1, 2]
    probes = [r for r in sent if isinstance(r, Block) and r.role is Role.PROBE]
    assert sum(len(block.rows) for block in probes) == 3


def test_offsets_seen_before_are_dropped() -> None:
    desk = Desk()
    desk.turn(source_block([0, 1, 2]))
    sent = desk.sent(source_block([1, 2, 3], predecessor=0))
    assert stored_ids(sent) == [3]
    assert desk.dispatcher.progress.fates["accepted"] == (4, 0)


def test_a_block_whose_predecessor_is_lacking_is_ignored_whole() -> None:
    desk = Desk()
    desk.turn(source_block([0, 1]))
    assert stored_ids(desk.sent(source_block([5, 6], predecessor=4))) == []
    assert stored_ids(desk.sent(source_block([2, 3, 4]), source_block([5, 6], predecessor=4))) == [2, 3, 4, 5, 6]


def test_late_is_judged_by_the_watermark_signalled_last() -> None:
    desk = Desk()
    # In one turn nothing is late against its own block: the watermark is signalled at the end.
    assert stored_ids(desk.sent(source_block([0, 1], times=[100, 50]))) == [0, 1]
    sent = desk.sent(source_block([2, 3], times=[99, 100], predecessor=1))
    assert stored_ids(sent) == [3]
    late = next(r for r in sent if isinstance(r, LateTuples))
    assert late.offsets.tolist() == [2] and late.watermark == 100
    assert desk.dispatcher.progress.fates["late"] == (1, 0)


def test_the_watermark_never_goes_back() -> None:
    desk = Desk()
    assert signal_of(desk.sent(source_block([0], times=[100]))).watermark == 100
    assert signal_of(desk.sent(source_block([1], times=[100], predecessor=0))).watermark == 100


def test_dead_and_filtered_records_are_counted_once() -> None:
    desk = Desk()
    block = source_block([0, 1, 2, 3], filtered=[1], dead=[2])
    aside = [r for r in desk.sent(block) if isinstance(r, SetAside)]
    assert [record.offset for record in aside[0].records] == [2]
    assert not [r for r in desk.sent(block) if isinstance(r, SetAside)]
    fates = desk.dispatcher.progress.fates
    assert (fates["accepted"], fates["filtered"], fates["dead"]) == ((2, 0), (1, 0), (1, 0))


def test_a_bad_record_that_is_to_stop_the_query_ends_the_turn_and_nothing_is_lost() -> None:
    desk = Desk(plan(EQUALITY, on_bad="fail"))
    desk.turn(source_block([0, 1]))
    good, bad = source_block([2], predecessor=1), source_block([3, 4], predecessor=2, dead=[3])
    with pytest.raises(QueryError, match="deadLetter or drop"):
        desk.turn(good, bad)
    assert desk.dispatcher.progress.last == {SourcePartition(0, 0): 1}
    mended = Desk(plan(EQUALITY), desk.dispatcher.progress)
    sent = mended.sent(good, bad)
    assert stored_ids(sent) == [2, 4]
    assert [record.offset for r in sent if isinstance(r, SetAside) for record in r.records] == [3]
    repeated = Desk(plan(EQUALITY, on_bad="fail"), mended.dispatcher.progress)
    assert repeated.sent(good, bad), "what was filed before stops nobody"


def test_dropped_records_are_counted_and_not_filed() -> None:
    desk = Desk(plan(EQUALITY, on_bad="drop"))
    assert not [r for r in desk.sent(source_block([0, 1], dead=[1])) if isinstance(r, SetAside)]
    assert desk.dispatcher.progress.fates["dropped"] == (1, 0)


def test_an_epoch_is_above_the_own_last_whatever_the_clock_says() -> None:
    desk = Desk()
    first = signal_of(desk.sent(source_block([0])))
    desk.now = 3
    assert signal_of(desk.sent(source_block([1], predecessor=0))).epoch == first.epoch + 1


@pytest.mark.parametrize("year_ms", [WALL_MS_MAX + 1, EPOCH_MAX + 1, 1 << 62])
def test_a_clock_that_shows_a_year_without_stamps_says_nothing(year_ms: int) -> None:
    """It did so for a moment, and epochs never fall: without tuples nothing would have noticed."""
    desk = Desk()
    desk.turn(source_block([0]))
    before, desk.now = desk.dispatcher.progress.epoch, year_ms
    assert signal_of(desk.sent()).epoch == before + 1
    desk.now = 2000
    assert stored_ids(desk.sent(source_block([1], predecessor=0))) == [1]
    assert desk.dispatcher.progress.epoch == 2000


def test_an_epoch_is_at_least_the_greatest_heard() -> None:
    desk = Desk()
    desk.dispatcher.hear([(0, signal(OTHER, 5000))], 1)
    assert signal_of(desk.sent(source_block([0]))).epoch == 5000


def test_an_overflow_of_positions_starts_a_new_epoch() -> None:
    desk = Desk()
    count = POSITIONS_PER_EPOCH + 10
    sent = desk.sent(source_block(range(count), times=[0] * count))
    stamps = np.concatenate([r.rows.stamps for r in sent if isinstance(r, Block) and r.role is Role.STORE])
    assert len(set(stamps.tolist())) == count
    assert {epoch_of(int(s)) for s in stamps} == {1000, 1001}
    assert signal_of(sent).epoch == 1001


def test_a_self_join_makes_two_tuples_of_a_record_with_ids_and_stamps_of_their_own() -> None:
    desk = Desk(plan("SELECT a.k FROM r a JOIN r b ON a.k = b.k AND b.v > 0", sources="r"))
    blocks = [r for r in desk.sent(source_block([0], fields=2)) if isinstance(r, Block) and r.role is Role.STORE]
    assert sorted(block.side for block in blocks) == [0, 1]
    assert len({int(block.rows.ids[0][0]) for block in blocks}) == len({int(b.rows.stamps[0]) for b in blocks}) == 2


def test_a_version_is_applied_above_the_switch_over_point_of_the_one_before() -> None:
    desk = Desk()
    desk.turn(source_block([0]))
    desk.table = replace(desk.table, version=1, switch={0: 7000})
    said = signal_of(desk.sent(source_block([1], predecessor=0)))
    assert (said.version, said.first_epoch, said.epoch) == (1, 7001, 7001)
    again = signal_of(desk.sent(source_block([2], predecessor=1)))
    assert (again.version, again.first_epoch, again.epoch) == (1, 7001, 7002)


def test_idle_is_proved_by_two_heartbeats_of_one_attempt() -> None:
    desk = Desk()
    assert not signal_of(desk.sent(source_block([0]), beat(0, 0))).idle
    assert not signal_of(desk.sent(beat(0, 59))).idle
    assert not signal_of(desk.sent(beat(0, 500, attempt=1))).idle, "another driver has another clock"
    assert signal_of(desk.sent(beat(0, 560, attempt=1))).idle
    assert not signal_of(desk.sent(source_block([1], predecessor=0))).idle


def test_a_heartbeat_at_another_position_proves_nothing() -> None:
    desk = Desk()
    desk.turn(source_block([0, 1]), beat(1, 0))
    assert not signal_of(desk.sent(beat(5, 100))).idle
    assert not signal_of(desk.sent(beat(1, 200))).idle


def test_idle_ends_with_a_heartbeat_that_is_not_caught_up() -> None:
    desk = Desk()
    assert signal_of(desk.sent(source_block([0, 1]), beat(1, 0), beat(1, 60))).idle
    assert not signal_of(desk.sent(beat(UNREAD, 70))).idle
    assert not signal_of(desk.sent(beat(1, 130))).idle, "proved anew"
    assert signal_of(desk.sent(beat(1, 190))).idle


def test_an_idle_dispatcher_signals_the_least_watermark_of_those_that_are_not() -> None:
    desk = Desk()
    desk.turn(source_block([0], times=[10]))
    assert signal_of(desk.sent(beat(0, 0), beat(0, 60))).watermark == 10, "the other has not been heard"
    desk.dispatcher.hear([(0, signal(OTHER, 1, watermark=900, idle=True))], 1)
    assert signal_of(desk.sent()).watermark == 10, "the idle do not wait for the idle, nor go to infinity"
    desk.dispatcher.hear([(0, signal(OTHER, 2, watermark=900))], 1)
    assert signal_of(desk.sent()).watermark == 900


def test_a_partition_that_was_never_heard_holds_the_watermark() -> None:
    made = plan(EQUALITY)
    dispatcher = Dispatcher(made, 0, [SourcePartition(0, 0), SourcePartition(0, 1)], DispatcherProgress())
    turn = dispatcher.turn(numbered([source_block([0], times=[50])]), 1, first_table(made), 1000, LastRead())
    assert turn is not None and turn.progress.watermark == TIME_NEVER


def test_without_tuples_it_answers_those_that_carried_some_and_else_keeps_quiet() -> None:
    desk = Desk()
    assert desk.turn(flush=False) is not None, "the first turn says that it is there"
    desk.now += HEARTBEAT_MS - 1
    assert desk.turn(flush=False) is None
    desk.now += 1
    assert desk.turn(flush=False) is not None
    desk.dispatcher.hear([(0, signal(OTHER, 2, carried=True))], 1)
    desk.now += ANSWER_MS - 1
    assert desk.turn(flush=False) is None
    desk.now += 1
    answer = desk.turn(flush=False)
    assert answer is not None and not answer.carried
    desk.now += ANSWER_MS
    assert desk.turn(flush=False) is None, "one answer is enough"


def test_every_unit_gets_the_signal_behind_its_blocks() -> None:
    desk = Desk(plan(EQUALITY, extra="  joiners: {replicas: 2}"))
    turn = desk.turn(source_block([0, 1, 2, 3], values=[1, 2, 3, 4]))
    assert turn is not None
    by_address: dict[str, list[Record]] = {}
    for address, record in turn.sends:
        by_address.setdefault(str(address), []).append(record)
    units = [str(unit) for unit in desk.table.units()]
    assert all(isinstance(by_address[f"unit/{unit}"][-1], Signal) for unit in units)
    assert isinstance(by_address["signals/0"][-1], Signal)


def test_whoever_reads_signals_on_from_its_progress_hears_the_last_of_each_other_again() -> None:
    desk = Desk()
    assert desk.plan.dispatchers == 2, "there is one other"
    desk.dispatcher.hear([], 4)
    assert _hear_from(desk) == 0, "the other has not been heard"
    desk.dispatcher.hear([(5, signal(OTHER, 1)), (9, signal(dispatcher_producer(0), 1))], 10)
    desk.dispatcher.hear([(11, signal(OTHER, 2))], 14)
    assert _hear_from(desk) == 11
    desk.dispatcher.hear([], 30)
    assert _hear_from(desk) == 11
    again = Dispatcher(desk.plan, 0, [SourcePartition(0, 0)], desk.dispatcher.progress)
    turn = again.turn(numbered([source_block([9], predecessor=-1)]), 1, first_table(desk.plan), 1000, LastRead())
    assert turn is not None and turn.progress.hear_from == 11, "nor is it forgotten before the other is heard again"


def _hear_from(desk: Desk) -> int:
    made = desk.turn()
    assert made is not None
    return made.progress.hear_from
