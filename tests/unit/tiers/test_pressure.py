"""A unit whose memory is short: it crosses the three marks one after the other, holds no more than its budget and one
step, and writes what a unit with all the memory it likes would write."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from biclique.core.rows import Rows
from biclique.core.stamps import stamp_base
from biclique.hosts.perform import Performer, start_unit
from biclique.plan.model import Plan
from biclique.plan.table import first_table
from biclique.ports.memory import MemoryLog, MemoryStore
from biclique.routing.protocol import Role
from biclique.routing.table import UnitId
from biclique.tiers.dispatcher import dispatcher_producer
from biclique.tiers.effects import Consult, Orders, PublishManifest, Read, Rest
from biclique.tiers.inbox import HeldMax, joiner_producer
from biclique.tiers.joiner_limits import JoinerLimits, limits_within
from biclique.tiers.loops import Watch, joiner_loop
from biclique.tiers.messages import Address, Block, Record, Results, Topic, unit_address
from biclique.tiers.pressure import MemoryBudget, Pressure, records_of_a_read
from biclique.tiers.progress import JoinerProgress
from biclique.tiers.room import FULL_AT
from tests.unit.tiers.building import plan, rows, signal

EVER = "SELECT r.k, s.v FROM r JOIN s ON r.k = s.k"
WINDOW = "SELECT r.k, s.v FROM r JOIN s ON r.k = s.k WITHIN 30 MILLISECONDS"
LONGER = "SELECT r.k, s.v FROM r JOIN s ON r.k = s.k WITHIN 90 MILLISECONDS"
EPOCHS, ROWS, LAG = 200, 40, 5
EPOCH_BYTES = 2 * 2 * ROWS * 48
MS = 1000


@pytest.mark.parametrize(
    ("held", "pressure"),
    [(0, 0), (699, 0), (700, 1), (799, 1), (800, 2), (899, 2), (900, 3), (1000, 3), (5000, 3)],
)
def test_the_marks_are_shares_of_the_budget(held: int, pressure: int) -> None:
    assert MemoryBudget(1000).pressure(held) is Pressure(pressure)


def test_who_is_pressed_reads_less_and_still_reads() -> None:
    assert [records_of_a_read(Pressure(n), 64) for n in range(4)] == [64, 8, 8, 8]
    assert records_of_a_read(Pressure.STAND, 1) == 1


def test_a_step_and_a_transaction_are_shares_of_the_budget_as_long_as_that_is_small() -> None:
    small, great = limits_within(MemoryBudget(64 << 20)), limits_within(MemoryBudget(64 << 30))
    assert (small.held_max.bytes, small.batch_max.bytes) == (2 << 20, 4 << 20)
    assert (great.held_max, great.batch_max) == (JoinerLimits().held_max, JoinerLimits().batch_max)


@dataclass
class Seen:
    """What one incarnation came to. `levels`: of pressure."""

    held_max: int = 0
    levels: set[Pressure] = field(default_factory=set)
    stood: int = 0
    checkpoints: int = 0
    read_again: int = 0


class Unit:
    """One unit of stage 0 over a log in memory; what two dispatchers send is there from the beginning, the second one's
    signals a few epochs late, so that blocks wait."""

    def __init__(self, sql: str, ahead: int = 1 << 30) -> None:
        """`ahead`: so many epochs beyond what the unit has handled are sent at most, as by senders that wait for it."""
        self.plan: Plan = replace(plan(sql), dispatchers=2)
        self.table = first_table(self.plan)
        self.unit: UnitId = self.table.units_of_stage(0)[0]
        self.log, self.store = MemoryLog(), MemoryStore()
        start_unit(self.log.client(), self.unit, self.table, 0)
        self._ahead, self._to_come = ahead, deque(self._sent())
        self._send()

    def _send(self) -> bool:
        """False: there is nothing more, or it waits."""
        sent: list[Record] = []
        while self._to_come:
            record = self._to_come[0]
            if isinstance(record, Block) and record.epoch > max(self.frontier, 0) + self._ahead:
                break
            sent.append(self._to_come.popleft())
        self.log.append(unit_address(self.unit), sent)
        return bool(sent)

    def _sent(self) -> Iterator[Record]:
        rng = np.random.default_rng(3)
        one, two = dispatcher_producer(0), dispatcher_producer(1)
        for epoch in range(1, EPOCHS + LAG + 1):
            if epoch <= EPOCHS:
                for number, sender in enumerate((one, two)):
                    for side in range(2):
                        columns = self.plan.stages[0].sides[side].columns
                        part = rows([epoch] * ROWS, [epoch * MS] * ROWS, *self._drawn(rng, len(columns)))
                        stamps = part.stamps + np.uint64(stamp_base(0, number) + 100 * side)
                        part = Rows(stamps, (stamps.astype(np.int64),), part.newest, part.oldest, part.columns)
                        role = Role.STORE if side == self.unit.subgroup.side else Role.PROBE
                        yield Block(0, side, role, sender, epoch, part)
            yield signal(one, epoch, epoch * MS)
            if epoch > LAG:
                yield signal(two, epoch - LAG, (epoch - LAG) * MS)

    def _drawn(self, rng: np.random.Generator, columns: int) -> list[list[int]]:
        return [rng.integers(0, 300, ROWS).tolist() for _ in range(columns)]

    def live(self, limits: JoinerLimits, host: Pressure = Pressure.NONE) -> Seen:
        """Until it finds nothing more to do."""
        watch, seen, client, read_to = Watch(), Seen(), self.log.client(), 0
        perform = Performer(client, self.store, lambda _: self.table, Orders, lambda: 0, lambda _: None)
        loop = joiner_loop(self.plan, self.unit, limits, watch=watch)
        effect = next(loop)
        while not isinstance(effect, Rest) or self._send():
            if isinstance(effect, Read):
                seen.read_again += effect.offset < read_to
                read_to = max(read_to, effect.offset + 1)
            seen.checkpoints += isinstance(effect, PublishManifest)
            effect = loop.send(Orders(pressure=host) if isinstance(effect, Consult) else perform(effect))
            if (joiner := watch.joiner) is not None:
                seen.held_max = max(seen.held_max, joiner.held_bytes)
                seen.levels.add(joiner.pressed.level)
                seen.stood += joiner.pressed.standing
        return seen

    @property
    def frontier(self) -> int:
        progress = self.log.client().read_progress(joiner_producer(self.unit))
        assert isinstance(progress, JoinerProgress)
        return progress.frontier

    @property
    def written(self) -> list[tuple[int, int]]:
        output = self.log.client().read(Address(Topic.OUTPUT, str(self.unit)), 0, 1 << 30)
        results = [record for _, record in output.records if isinstance(record, Results)]
        return [pair for r in results for pair in zip(r.ids_high.tolist(), r.ids_low.tolist(), strict=True)]


def within(budget: int) -> JoinerLimits:
    return replace(limits_within(MemoryBudget(budget)), segment_rows_min=1)


def with_all_memory(sql: str) -> tuple[list[tuple[int, int]], int]:
    """The pairs, in order, and the most that is held for them."""
    unit = Unit(sql)
    seen = unit.live(replace(JoinerLimits(held_max=HeldMax(bytes=2 * EPOCH_BYTES)), segment_rows_min=1))
    assert unit.frontier == EPOCHS
    assert seen.levels == {Pressure.NONE}
    assert len(set(unit.written)) == len(unit.written) > 1000
    return sorted(unit.written), seen.held_max


def test_with_a_window_it_crosses_all_marks_and_goes_on_by_itself() -> None:
    wanted, held_max = with_all_memory(WINDOW)
    unit, budget = Unit(WINDOW), int(held_max * 0.97)
    seen = unit.live(within(budget))
    assert sorted(unit.written) == wanted
    assert unit.frontier == EPOCHS
    assert seen.levels == set(Pressure)
    assert seen.held_max <= budget + EPOCH_BYTES
    assert seen.checkpoints and seen.read_again


@pytest.mark.parametrize("ahead", [LAG + 1, 3 * LAG])
def test_a_window_that_fits_is_handled_by_and_by_though_its_senders_wait(ahead: int) -> None:
    """The next expiry is further away than what they send before they wait for this unit."""
    wanted, held_max = with_all_memory(LONGER)
    unit, budget = Unit(LONGER, ahead), int(held_max / (FULL_AT - 0.02))
    seen = unit.live(within(budget))
    assert unit.frontier == EPOCHS
    assert sorted(unit.written) == wanted
    assert Pressure.STAND in seen.levels
    assert seen.held_max <= budget


def test_full_history_without_room_stands_still_and_goes_on_with_more_memory() -> None:
    wanted, held_max = with_all_memory(EVER)
    unit, budget = Unit(EVER), held_max // 2
    seen = unit.live(within(budget))
    assert 20 < unit.frontier < EPOCHS // 2
    assert seen.levels >= {Pressure.NONE, Pressure.STAND} and seen.stood
    assert seen.held_max <= budget + EPOCH_BYTES
    assert unit.live(within(budget)).held_max <= budget + EPOCH_BYTES, "so does a successor"
    stood_at = unit.frontier
    assert set(unit.written) < set(wanted)
    unit.live(within(2 * held_max))
    assert sorted(unit.written) == wanted
    assert unit.frontier == EPOCHS > stood_at


def test_it_stands_as_long_as_its_host_says_so_and_reads_on() -> None:
    unit = Unit(EVER)
    seen = unit.live(within(1 << 30), host=Pressure.STAND)
    assert unit.written == [] and seen.stood
    assert seen.held_max < 10 * EPOCH_BYTES, "offsets are kept"
    unit.live(within(1 << 30))
    assert unit.frontier == EPOCHS


def test_a_checkpoint_is_made_once_when_the_mark_is_passed() -> None:
    _, held_max = with_all_memory(EVER)
    unit = Unit(EVER)
    assert unit.live(within(held_max // 2)).checkpoints == 1
    assert Unit(EVER).live(within(2 * held_max)).checkpoints == 0


def test_a_replay_of_a_log_that_was_kept_for_long_holds_one_window() -> None:
    wanted, held_max = with_all_memory(WINDOW)
    unit = Unit(WINDOW)
    limits = replace(JoinerLimits(held_max=HeldMax(bytes=2 * EPOCH_BYTES)), segment_rows_min=1)
    unit.live(limits)
    assert unit.live(limits).held_max <= held_max, "nothing was trimmed, and no checkpoint was made"
    assert sorted(unit.written) == wanted
