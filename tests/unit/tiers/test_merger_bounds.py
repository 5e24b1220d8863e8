"""What a merger holds, writes and seals at once is bounded in groups and in bytes, and the outcome is the same."""

from __future__ import annotations

import gc
import tracemalloc

import numpy as np
import pytest

from biclique.core.rows import Vector
from biclique.hosts.perform import Performer
from biclique.kernels import groups
from biclique.kernels.groups import column_of
from biclique.kernels.partials import shares_of
from biclique.ports.memory import MemoryLog, MemoryStore
from biclique.query.model import Aggregate, GroupKey
from biclique.query.types import Type
from biclique.tiers import merger
from biclique.tiers.effects import Orders, Read, Rest
from biclique.tiers.loops import merger_loop
from biclique.tiers.merger import Merger, WrittenMax
from biclique.tiers.messages import Address, Partials, Topic
from biclique.tiers.open_groups import OpenGroups
from biclique.tiers.pressure import MemoryBudget, Pressed, Pressure
from biclique.tiers.waiting import RECORD_BYTES, SHARES_MAX
from tests.unit.tiers.building import signal
from tests.unit.tiers.merging import COUNTS, DISTINCT, EVER, MS, TUMBLE, Bench


@pytest.mark.parametrize("hold", [False, True])
@pytest.mark.parametrize("sql", [COUNTS, TUMBLE, DISTINCT, EVER])
def test_a_transaction_and_a_blob_have_no_more_groups_than_they_may(sql: str, hold: bool) -> None:
    whole, cut = Bench(sql, hold), Bench(sql, hold, WrittenMax(5))
    for bench in (whole, cut):
        bench.share(1, list(range(40)), list(range(40)))
        bench.signal_all(1, 0)
        bench.run()
        blobs = bench.seal()
        assert sum(ref.rows for ref, _ in blobs) == 40 and (len(blobs) == 8 or bench is whole)
        bench.signal_all(2, 50 * MS)
        bench.run()
        bench.finish()
    assert cut.rows_max == 5 and whole.rows_max == 40
    assert sorted(cut.written) == sorted(whole.written) and len(cut.written) == 40


@pytest.mark.parametrize("shares_max", [0, 1, 5 * RECORD_BYTES])
@pytest.mark.parametrize("sql", [COUNTS, TUMBLE, DISTINCT, EVER])
def test_shares_that_wait_for_one_sender_are_bounded(sql: str, shares_max: int) -> None:
    """One sender lags; what the others send meanwhile is read again when it is needed, and changes nothing."""
    whole, bounded = Bench(sql), Bench(sql, shares_max=shares_max)
    rng = np.random.default_rng(3)
    sent = [(epoch, rng.integers(0, 9, 4).tolist(), (rng.integers(0, 90, 4) * MS).tolist()) for epoch in range(1, 40)]
    for bench in (whole, bounded):
        for epoch, keys, times in sent:
            bench.share(epoch, keys, times)
            for sender in bench.senders[:-1]:
                bench._append(signal(sender, epoch, 0))
            bench.read()
            assert bench.merger._pending.held <= bench.shares_max
        for epoch in (7, 20, 39):
            bench._append(signal(bench.senders[-1], epoch, 0))
            bench.run()
            assert bench.merger._pending.held <= bench.shares_max
        bench.signal_all(40, 500 * MS)
        bench.run()
    assert bounded.read_again > 30 and whole.read_again == 0
    assert bounded.merger.next_offset == bounded.merger.progress.offset, "nothing waits"
    if sql == COUNTS:
        assert _standing(bounded.written) == _standing(whole.written)
    else:
        assert bounded.written == whole.written and bounded.written


@pytest.mark.parametrize("sql", [COUNTS, DISTINCT])
def test_the_loop_reads_again_what_gave_way(sql: str) -> None:
    def output(shares_max: int) -> tuple[list[tuple[object, ...]], int]:
        bench, log, again, read_to = Bench(sql), MemoryLog(), 0, 0
        for epoch in range(1, 30):
            bench.share(epoch, [epoch % 4, 1], [epoch * MS, 5])
            bench._append(signal(bench.senders[0], epoch, 0))
        bench.signal_all(30, 900 * MS)
        log.append(Address(Topic.PARTIALS, 0), bench.log)  # type: ignore[arg-type]
        client = log.client()
        perform = Performer(client, MemoryStore(), lambda _: bench.table, Orders, lambda: 0, lambda _: None)
        loop = merger_loop(bench.plan, 0, shares_max=shares_max)
        effect = next(loop)
        while not isinstance(effect, Rest):
            answer = perform(effect)
            if isinstance(effect, Read):
                again += effect.offset < read_to
                read_to = max(read_to, answer.next_offset)
            effect = loop.send(answer)
        written = client.read(Address(Topic.OUTPUT, "merger-0"), 0, 1 << 30).records
        rows = [row for _, r in written for row in zip(*(c.values.tolist() for c in r.columns), strict=True)]
        return sorted(rows), again

    assert output(0)[0] == output(SHARES_MAX)[0] != []
    assert 0 < output(0)[1] < 29, "several in one go"
    assert output(SHARES_MAX)[1] == 0


LONG = [
    "SELECT r.name AS k, MAX(s.name) AS most, COUNT(*) AS n FROM r JOIN s ON r.k = s.k GROUP BY r.name",
    "SELECT r.name AS k, COUNT(*) AS n FROM r JOIN s ON r.k = s.k GROUP BY r.name, TUMBLE(10 MILLISECONDS)",
    "SELECT DISTINCT r.name AS k FROM r JOIN s ON r.k = s.k WITHIN 10 MILLISECONDS",
    "SELECT DISTINCT r.name AS k FROM r JOIN s ON r.k = s.k",
    "SELECT r.k AS k, COUNT(DISTINCT s.name) AS n FROM r JOIN s ON r.k = s.k GROUP BY r.k",
]


@pytest.mark.parametrize("sql", LONG)
def test_long_texts_are_cut_by_their_bytes_before_a_column_is_made(sql: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows, names and blobs: no column of texts is ever made of more than a transaction may hold."""
    most, made = 4_000, [0]
    whole, cut = Bench(sql), Bench(sql, written_max=WrittenMax(bytes=most))
    rng = np.random.default_rng(3)
    names = [str(n) + "é" * int(rng.integers(1, 600)) for n in range(60)]

    def noted(type_: Type, values: list[object]) -> Vector:
        vector = column_of(type_, values)
        if len(values) > 1:
            made[0] = max(made[0], vector.nbytes)
        return vector

    for bench in (whole, cut):
        if bench is cut:
            monkeypatch.setattr(groups, "column_of", noted)
            monkeypatch.setattr(merger, "column_of", noted)
        bench.share_texts(1, names, [n % 5 * MS for n in range(60)])
        bench.signal_all(1, 3 * MS)
        bench.run()
        blobs = bench.seal()
        assert (len(blobs) > 8) == (bench is cut)
        bench.restart(True)
        bench.run()
        bench.signal_all(2, 90 * MS)
        bench.share_texts(3, names[:9], [200 * MS] * 9)
        bench.signal_all(3, 300 * MS)
        bench.run()
        bench.finish()
    assert sorted(cut.written) == sorted(whole.written) and cut.written
    assert 0 < made[0] <= most


@pytest.mark.parametrize("sql", [*LONG, COUNTS])
@pytest.mark.parametrize("length", [1, 10_000])
def test_what_it_holds_is_what_it_says_it_holds(sql: str, length: int) -> None:
    """From above, texts and all, and not by much; the same after a restart; nothing when all is closed."""
    bench, count = Bench(sql), 2_000_000 // (length + 1000)
    names = [f"{n:06d}" + "x" * length for n in range(count)]
    times = [n % 7 * MS for n in range(count)]
    if sql is COUNTS:
        bench.share(1, range(count), times)
    else:
        bench.share_texts(1, names, times)
    bench.signal_all(1, 3 * MS)
    assert bench.merger.size_bytes == 0
    tracemalloc.start()
    bench.run()
    bench.written.clear()
    gc.collect()
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < bench.merger.size_bytes < 4 * held
    if length > 1 and sql is not COUNTS:
        assert bench.merger.size_bytes < 1.5 * held
    said = bench.merger.size_bytes
    bench.restart(True)
    bench.read()
    assert bench.merger.size_bytes == said
    bench.signal_all(2, 1000 * MS)
    bench.run()
    assert (bench.merger.size_bytes == 0) == (bench.merger._timed)


@pytest.mark.parametrize("sql", [COUNTS, EVER])
def test_a_merger_without_room_goes_on_with_the_groups_it_has(sql: str) -> None:
    bench, one = Bench(sql), list(range(100))
    bench.share(1, one, one)
    bench.signal_all(1, 0)
    bench.run()
    bench.merger.pressed = Pressed(MemoryBudget(bench.merger.held_bytes + 1))
    for epoch, keys in enumerate(([*one[:50]], one, [5, 100, 101], [5]), 2):
        bench.share(epoch, keys, keys)
    bench.signal_all(5, 0)
    bench.read()
    bench.merger.feel(Pressure.NONE)
    assert bench.merger.pressed.level is Pressure.STAND
    assert bench.merger.reach(bench.table) == 3 and not bench.merger.pressed.standing
    for turn in bench.merger.step(3):
        bench._keep(turn)
    bench.merger.feel(Pressure.NONE)
    assert bench.merger.reach(bench.table) is None and bench.merger.pressed.standing
    bench.merger.pressed = Pressed(MemoryBudget(bench.merger.held_bytes + 4_000))
    bench.merger.feel(Pressure.NONE)
    assert bench.merger.pressed.level is Pressure.STAND
    assert bench.merger.reach(bench.table) == 5, "there is room for two groups"
    bench.merger.feel(Pressure.STAND)
    assert bench.merger.reach(bench.table) is None, "of what presses from outside no budget says how much is left"


def test_no_group_falls_back_where_a_crash_cut_a_step_and_there_is_no_room_behind_it() -> None:
    bench = Bench(COUNTS, written_max=WrittenMax(groups=2))
    for epoch in (1, 2, 3):
        bench.share(epoch, range(4 + epoch), [0] * (4 + epoch))
        bench.signal_all(epoch, 0)
    bench.read()
    bench._keep(next(iter(bench.merger.step(3))))
    assert [count for _, count, _ in bench.written] == [3, 3]
    bench.restart(from_manifest=False)
    bench.merger.pressed = Pressed(MemoryBudget(1))
    bench.read()
    bench.merger.feel(Pressure.NONE)
    assert bench.merger.pressed.level is Pressure.STAND
    assert bench.merger.reach(bench.table) == 3, "what was begun is made again as it was"
    for turn in bench.merger.step(3):
        bench._keep(turn)
    assert {count for key, count, _ in bench.written if key in (0, 1, 2, 3, 4)} == {3}
    assert len(bench.written) == 2 + 7
    bench.share(4, [100], [0])
    bench.signal_all(4, 0)
    bench.read()
    bench.merger.feel(Pressure.NONE)
    assert bench.merger.reach(bench.table) is None, "and no more"


def test_the_distinct_values_of_one_group_are_in_several_blobs() -> None:
    bench = Bench("SELECT r.k AS k, COUNT(DISTINCT s.v) AS n FROM r JOIN s ON r.k = s.k GROUP BY r.k")
    bench.merger = Merger(bench.plan, 0, bench.merger.progress, None, False, WrittenMax(1000, 20_000))
    bench.written_max = WrittenMax(1000, 20_000)
    values = [i.value for i in bench.plan.query.items if isinstance(i.value, Aggregate | GroupKey)]
    numbers = np.arange(10_000)
    arguments = [Vector(numbers) if isinstance(value, Aggregate) else None for value in values]
    made = shares_of(values, [Vector(np.zeros(10_000, np.int32))], arguments, np.zeros(10_000, np.int64))
    bench._append(Partials(bench.senders[0], 1, made.keys, made.states, made.newest))
    bench.signal_all(1, 0)
    bench.run()
    blobs = bench.seal()
    assert len(blobs) >= 10 and max(len(data) for _, data in blobs) < 25_000
    bench.restart(True)
    bench.read()
    bench.share(2, [0], [0])
    bench.signal_all(2, 0)
    bench.run()
    assert bench.written == [(0, 10_000), (0, 10_000)]


def test_what_is_due_is_what_a_look_at_every_group_finds() -> None:
    rng = np.random.default_rng(3)
    for _ in range(30):
        groups, listed, bound = OpenGroups(), [], 0
        for number in range(60):
            if rng.random() < 0.7:
                key = (number, int(rng.integers(bound, bound + 9)))
                groups.add([key])
                listed.append(key)
            else:
                bound += int(rng.integers(0, 5))
                due = groups.take_below(bound)
                assert due == sorted((key for key in listed if key[1] < bound), key=lambda key: key[1])
                listed = [key for key in listed if key[1] >= bound]
        assert sorted(groups.take_below(None)) == sorted(listed)


def _standing(written: list[tuple[object, ...]]) -> dict[object, tuple[object, ...]]:
    return {row[0]: row for row in written}
