"""What a merger writes and when, whatever the order of its shares and wherever it is restarted."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from biclique.tiers.merger import WRITTEN_MAX, WrittenMax
from biclique.tiers.waiting import RECORD_BYTES, SHARES_MAX
from tests.unit.tiers.building import signal
from tests.unit.tiers.merging import ALL, COUNTS, DISTINCT, EVER, MS, TUMBLE, Bench


def test_every_changed_group_is_written_again() -> None:
    bench = Bench(COUNTS)
    bench.share(1, [5, 5, 6], [0, 0, 0])
    bench.signal_all(1, 0)
    bench.run()
    bench.share(2, [5], [0], sender=1)
    bench.signal_all(2, 0)
    bench.run()
    assert bench.written == [(5, 2, 10), (6, 1, 6), (5, 3, 15)]


def test_no_group_falls_back_where_a_crash_cut_a_step_and_less_is_read_at_a_time_behind_it() -> None:
    bench = Bench(COUNTS, written_max=replace(WRITTEN_MAX, groups=2))
    for epoch in (1, 2, 3):
        bench.share(epoch, [5, 6, 7, 8], [0] * 4)
        bench.signal_all(epoch, 0)
    crashes, reads = iter([True]), iter([1 << 30])
    bench.run(lambda: next(crashes, False), lambda: next(reads, 1))
    for group in (5, 6, 7, 8):
        counts = [count for key, count, _ in bench.written if key == group]
        assert counts == sorted(counts) and counts[-1] == 3, bench.written


def test_a_bounded_run_writes_each_group_once_at_its_end() -> None:
    bench = Bench(COUNTS, hold=True)
    for epoch in (1, 2):
        bench.share(epoch, [5, 6], [0, 0])
        bench.signal_all(epoch, 0)
        bench.run()
    assert bench.written == []
    bench.finish()
    assert sorted(bench.written) == [(5, 2, 10), (6, 2, 12)]


def test_without_group_by_a_bounded_run_has_one_row_also_when_nothing_matched() -> None:
    bench = Bench(ALL, hold=True)
    bench.signal_all(1, 0)
    bench.run()
    bench.finish()
    assert bench.written == [(0, 0)]


def test_shares_above_the_frontier_wait() -> None:
    bench = Bench(COUNTS)
    bench.share(2, [5], [0])
    bench.signal_all(1, 0)
    bench.run()
    assert bench.written == []


def test_a_tumbling_group_is_written_once_when_the_watermark_closes_it() -> None:
    bench = Bench(TUMBLE)
    bench.share(1, [5, 5, 5], [0, 9 * MS, 10 * MS])
    bench.signal_all(1, 10 * MS - 1)
    bench.run()
    assert bench.written == []
    bench.signal_all(2, 10 * MS)
    bench.run()
    assert bench.written == [(5, 2)]
    bench.finish()
    assert bench.written == [(5, 2), (5, 1)]


def test_a_distinct_row_without_window_is_written_once() -> None:
    bench = Bench(EVER)
    for epoch in (1, 2, 3):
        bench.share(epoch, [5, epoch], [0, 0])
        bench.signal_all(epoch, 0)
        bench.run()
    assert sorted(bench.written) == [(1,), (2,), (3,), (5,)]


def test_a_distinct_row_comes_again_a_window_later_in_the_order_of_times() -> None:
    bench = Bench(DISTINCT)
    bench.share(1, [7, 7, 7], [12 * MS, 3 * MS, 13 * MS])
    bench.signal_all(1, 13 * MS)
    bench.run()
    # 3 is written, 12 is less than a window later; 13 is not below the watermark yet.
    assert bench.written == [(7,)]
    bench.signal_all(2, 14 * MS)
    bench.run()
    assert bench.written == [(7,), (7,)]


@pytest.mark.parametrize("written_max", [WRITTEN_MAX, WrittenMax(1), WrittenMax(2), WrittenMax(bytes=9)])
@pytest.mark.parametrize("sql", [COUNTS, TUMBLE, DISTINCT, EVER])
@pytest.mark.parametrize("seed", range(12))
def test_restarts_anywhere_change_nothing(sql: str, seed: int, written_max: WrittenMax) -> None:
    """Also between two transactions of one step, and however little a read brings."""
    rng = np.random.default_rng(seed)
    shares_max = (SHARES_MAX, 0, 3 * RECORD_BYTES)[seed % 3]  # some give way to others
    plain, shaken = Bench(sql), Bench(sql, written_max=written_max, shares_max=shares_max)
    watermark = 0
    for epoch in range(1, 12):
        keys = rng.integers(0, 3, 3).tolist()
        times = (watermark + rng.integers(0, 30 * MS, 3)).tolist()
        watermark += int(rng.integers(0, 12 * MS))
        for bench in (plain, shaken):
            bench.share(epoch, keys, times, sender=epoch % 2)
            bench.signal_all(epoch, watermark)
        plain.run()
        if rng.random() < 0.8:
            shaken.run(crash=lambda: bool(rng.random() < 0.3), most=lambda: int(rng.integers(0, 9)))
        if shaken.merger.progress.frontier > 0 and rng.random() < 0.5:
            shaken.restart(bool(rng.random() < 0.5) and not shaken.merger.replaying)
    for bench in (plain, shaken):
        bench.signal_all(12, watermark + 100 * MS)
        bench.run()
        bench.finish()
    if sql == COUNTS:  # how often a group is written depends on the steps, not what stands
        assert _standing(shaken.written) == _standing(plain.written)
    else:
        assert sorted(shaken.written) == sorted(plain.written)


@pytest.mark.parametrize("sql", [COUNTS, TUMBLE])
def test_nothing_is_sealed_before_the_shares_of_one_that_left_have_been_read_again(sql: str) -> None:
    bench = Bench(sql)
    *stay, leaver = range(len(bench.senders))
    bench.log += [signal(bench.senders[sender], 5, 40 * MS) for sender in stay]
    heard = len(bench.log)
    bench.share(1, [5, 5, 6], [MS] * 3, sender=leaver)
    last = signal(bench.senders[leaver], 4, 40 * MS)
    bench.log += [last, replace(last, ended=True)]
    bench.run()
    assert bench.merger.progress.frontier == 5
    bench.restart(False)
    bench.read(heard)
    assert bench.merger.replaying
    bench.read()
    bench.restart(True)
    assert len(bench.merger.groups) == (2 if sql == COUNTS else 0)


@pytest.mark.parametrize("sql", [EVER, TUMBLE])
def test_half_a_step_is_made_again_as_a_whole_however_little_a_read_brings(sql: str) -> None:
    bench = Bench(sql, written_max=WrittenMax(3))
    for epoch in (1, 2):
        bench.share(epoch, list(range(10 * epoch, 10 * epoch + 10)), [26 * MS * (epoch - 1)] * 10)
        bench.signal_all(epoch, 30 * MS * epoch)
    bench.run(crash=lambda: len(bench.written) == 15, most=lambda: len(bench.log) // 2 if bench.written else 1 << 30)
    assert sorted(row[0] for row in bench.written) == list(range(10, 30))


@pytest.mark.parametrize("sql", [TUMBLE, DISTINCT])
def test_half_a_step_is_made_again_by_the_watermark_it_had_also_where_a_signal_is_not_read_again(sql: str) -> None:
    """One sender is ahead, with a signal and no shares: the checkpoint is behind it, and so the restart."""
    bench = Bench(sql, written_max=WrittenMax(1))
    ahead, *others = bench.senders
    bench.share(1, [5, 6, 7], [MS, MS, MS])
    bench.signal_all(1, MS)
    bench.log.append(signal(ahead, 2, 50 * MS))
    bench.run()
    bench.publish()
    bench.log += [signal(sender, 2, 50 * MS) for sender in others]
    bench.run(crash=lambda: len(bench.written) == 1 and bench.merger.progress.frontier == 1)
    bench.signal_all(3, 50 * MS)
    bench.run()
    assert sorted(row[0] for row in bench.written) == [5, 6, 7]


@pytest.mark.parametrize("sql", [COUNTS, TUMBLE, DISTINCT, EVER])
@pytest.mark.parametrize("seed", range(8))
def test_restarts_from_the_last_checkpoint_change_nothing_where_senders_are_far_apart(sql: str, seed: int) -> None:
    """Some signal ahead of the others, most often without shares, which would hold the offset back."""
    rng = np.random.default_rng(seed)
    plain, shaken = Bench(sql), Bench(sql, written_max=WrittenMax(1 + seed % 2))
    marks = np.cumsum(rng.integers(0, 25 * MS, 40)).tolist()  # the watermark at each epoch
    reached = [0] * len(plain.senders)
    while min(reached) < 20:
        sender = int(rng.choice([n for n, to in enumerate(reached) if to < min(reached) + 10]))
        before, reached[sender] = reached[sender], reached[sender] + int(rng.integers(1, 5))
        epoch, to = before + 1, reached[sender]
        share = (rng.integers(0, 3, 2).tolist(), (marks[epoch - 1] + rng.integers(0, 20 * MS, 2)).tolist())
        some = rng.random() < 0.4
        for bench in (plain, shaken):
            if some:
                bench.share(epoch, *share, sender=sender)
            bench.log.append(signal(bench.senders[sender], to, marks[to]))
        plain.run()
        shaken.run(crash=lambda: bool(rng.random() < 0.3), most=lambda: int(rng.integers(0, 9)))
        if not shaken.merger.replaying and shaken.merger.progress.cursor is None and rng.random() < 0.5:
            shaken.publish()
    for bench in (plain, shaken):
        bench.signal_all(100, marks[-1] + 200 * MS)
        bench.run()
    if sql == COUNTS:
        assert _standing(shaken.written) == _standing(plain.written)
    else:
        assert sorted(shaken.written) == sorted(plain.written)


@pytest.mark.parametrize("written_max", [WRITTEN_MAX, WrittenMax(1), WrittenMax(3)])
@pytest.mark.parametrize("sql", [COUNTS, TUMBLE, DISTINCT, EVER])
@pytest.mark.parametrize("seed", range(12))
def test_restarts_and_checkpoints_behind_a_farewell_change_nothing(
    sql: str, seed: int, written_max: WrittenMax
) -> None:
    """The others run ahead of the one that leaves: its shares and its farewell come late in the log."""
    rng = np.random.default_rng(seed)
    plain, shaken = Bench(sql), Bench(sql, written_max=written_max)
    *stay, leaver = range(len(plain.senders))
    watermark = 0
    for epoch in range(1, 12):
        keys = rng.integers(0, 3, 3).tolist()
        times = (watermark + rng.integers(0, 30 * MS, 3)).tolist()
        watermark += int(rng.integers(0, 12 * MS))
        for bench in (plain, shaken):
            bench.share(epoch, keys, times, sender=stay[0])
            for sender in stay:
                bench._append(signal(bench.senders[sender], epoch, watermark))
            if epoch == 4:  # all at once, of the epochs up to here
                bench.share(1, [keys[0], 9], [watermark + 5 * MS] * 2, sender=leaver)
                bench.share(3, [keys[1], 9], [watermark + 25 * MS] * 2, sender=leaver)
                last = signal(bench.senders[leaver], epoch, watermark)
                bench.log += [last, replace(last, ended=True)]
        plain.run()
        if epoch > 3 and rng.random() < 0.8:
            shaken.run(crash=lambda: bool(rng.random() < 0.3), most=lambda: int(rng.integers(0, 5)))
        if shaken.merger.progress.frontier > 0:
            shaken.restart(False)
            for _ in range(3):
                shaken.read(int(rng.integers(0, len(shaken.log))))
                if not shaken.merger.replaying and shaken.merger.progress.cursor is None and rng.random() < 0.5:
                    if rng.random() < 0.5:
                        shaken.restart(True)
                    else:
                        shaken.seal(int(rng.integers(0, 3)))  # it goes on
    for bench in (plain, shaken):
        for sender in stay:
            bench._append(signal(bench.senders[sender], 12, watermark + 100 * MS))
        bench.run()
        bench.finish()
    if sql == COUNTS:
        assert _standing(shaken.written) == _standing(plain.written)
    else:
        assert sorted(shaken.written) == sorted(plain.written)


def _standing(written: list[tuple[object, ...]]) -> dict[object, tuple[object, ...]]:
    return {row[0]: row for row in written}
