"""What a merger writes and when, whatever the order of its shares and wherever it is restarted."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from biclique.core.codec import checksum
from biclique.core.rows import Vector
from biclique.hosts.perform import Performer
from biclique.kernels import groups
from biclique.kernels.groups import column_of
from biclique.kernels.lanes import dtype_of
from biclique.kernels.partials import shares_of
from biclique.plan.model import Plan
from biclique.plan.table import first_table
from biclique.ports.memory import MemoryLog, MemoryStore
from biclique.query.model import Aggregate, GroupKey
from biclique.query.types import STRING, Type
from biclique.tiers import merger
from biclique.tiers.aggregation import key_types
from biclique.tiers.effects import Orders, Read, Rest
from biclique.tiers.inbox import joiner_producer
from biclique.tiers.loops import merger_loop
from biclique.tiers.merger import WRITTEN_MAX, Merger, MergerTurn, WrittenMax
from biclique.tiers.messages import Address, Partials, Results, Topic
from biclique.tiers.open_groups import OpenGroups
from biclique.tiers.progress import BlobRef, Manifest, MergerProgress
from biclique.tiers.waiting import RECORD_BYTES, SHARES_MAX
from tests.unit.tiers.building import plan, signal

COUNTS = "SELECT r.k AS k, COUNT(*) AS n, SUM(s.v) AS total FROM r JOIN s ON r.k = s.k GROUP BY r.k"
TUMBLE = "SELECT r.k AS k, COUNT(*) AS n FROM r JOIN s ON r.k = s.k GROUP BY r.k, TUMBLE(10 MILLISECONDS)"
ALL = "SELECT COUNT(*) AS n, SUM(s.v) AS total FROM r JOIN s ON r.k = s.k"
DISTINCT = "SELECT DISTINCT r.k AS k FROM r JOIN s ON r.k = s.k WITHIN 10 MILLISECONDS"
EVER = "SELECT DISTINCT r.k AS k FROM r JOIN s ON r.k = s.k"
MS = 1000


class Bench:
    """A merger and the senders it waits for; what it writes is kept in order."""

    def __init__(
        self, sql: str, hold: bool = False, written_max: WrittenMax = WRITTEN_MAX, shares_max: int = SHARES_MAX
    ) -> None:
        self.shares_max, self.read_again = shares_max, 0
        self.written_max, self.rows_max = written_max, 0
        self.plan: Plan = plan(sql)
        self.table = first_table(self.plan)
        self.senders = [joiner_producer(unit) for unit in self.table.units()]
        self.hold = hold
        self.merger = Merger(
            self.plan, 0, MergerProgress(senders=self.table.units()), None, hold, written_max, shares_max
        )
        self.log: list[object] = []
        self.written: list[tuple[object, ...]] = []

    def share(self, epoch: int, keys: Sequence[int], times: Sequence[int], sender: int = 0) -> None:
        """One match for each key."""
        values = tuple(i.value for i in self.plan.query.items if isinstance(i.value, Aggregate | GroupKey))
        columns = [Vector(np.array(keys, np.int32))] if self.plan.query.group_by or not values else []
        newest = np.array(times, np.int64)
        if self.plan.query.tumble_us is not None:
            columns.append(Vector(newest - newest % (10 * MS)))
        elif self.plan.query.distinct and self.plan.query.relations[0].window.time_us is not None:
            columns.append(Vector(newest))
        arguments = [
            Vector(np.array(keys, np.int64)) if isinstance(v, Aggregate) and v.argument is not None else None
            for v in values
        ]
        made = shares_of(values, columns, arguments, newest)
        self._append(Partials(self.senders[sender], epoch, made.keys, made.states, made.newest))

    def share_texts(self, epoch: int, names: Sequence[str], times: Sequence[int]) -> None:
        """One match for each name, which is key and argument of whatever is a text; numbers are 0."""
        values = tuple(i.value for i in self.plan.query.items if isinstance(i.value, Aggregate | GroupKey))
        newest, texts = np.array(times, np.int64), Vector(pa.array(list(names), pa.string()))
        columns = [
            texts if type_ == STRING else Vector(np.zeros(len(names), dtype_of(type_)))
            for type_ in key_types(self.plan.query)
        ]
        if self.plan.query.tumble_us is not None:
            columns[-1] = Vector(newest - newest % (10 * MS))
        elif len(columns) > 1:
            columns[-1] = Vector(newest)
        arguments = [texts if isinstance(v, Aggregate) and v.argument is not None else None for v in values]
        made = shares_of(values, columns, arguments, newest)
        self._append(Partials(self.senders[0], epoch, made.keys, made.states, made.newest))

    def signal_all(self, epoch: int, watermark: int) -> None:
        for sender in self.senders:
            self._append(signal(sender, epoch, watermark))

    def _append(self, record: object) -> None:
        self.log.append(record)

    def read(self, most: int = 1 << 30) -> None:
        start = self.merger.next_offset
        for offset in range(start, min(start + most, len(self.log))):
            self.merger.take(offset, self.log[offset])  # type: ignore[arg-type]
            self.merger.read_to(offset + 1)

    def run(self, crash: Callable[[], bool] = lambda: False, most: Callable[[], int] = lambda: 1 << 30) -> None:
        """`crash`: whether the merger dies after a commit. `most`: records of one read."""
        while True:
            self.read(most())
            frontier = self.merger.reach(self.table)
            if frontier is None:
                if self.merger.next_offset == len(self.log):
                    return
                continue
            for offset in self.merger.missing(frontier):
                self.read_again += 1
                self.merger.restore(self.log[offset])  # type: ignore[arg-type]
            for turn in self.merger.step(frontier):
                self._keep(turn)
                if crash():
                    self.restart(False)
                    break

    def finish(self) -> None:
        for turn in self.merger.finish():
            self._keep(turn)

    def _keep(self, turn: MergerTurn) -> None:
        for _, record in turn.sends:
            assert isinstance(record, Results)
            self.rows_max = max(self.rows_max, len(record.times))
            self.written += list(zip(*(column.values.tolist() for column in record.columns), strict=True))
        self.merger.committed(turn)

    def restart(self, from_manifest: bool) -> None:
        manifest = None
        blobs: list[tuple[int, int, bytes]] = []
        if from_manifest:
            blobs, offset = list(self.merger.seal()), self.merger.progress.offset
            refs = tuple(BlobRef(f"{what}", what, rows, checksum(data), False) for what, rows, data in blobs)
            frontier = self.merger.progress.frontier
            manifest = Manifest(1, frontier, frontier, offset, refs)
        self.merger = Merger(self.plan, 0, self.merger.progress, manifest, self.hold, self.written_max, self.shares_max)
        for ref, (_, _, data) in zip(manifest.blobs if manifest else (), blobs, strict=True):
            self.merger.load(ref, data)


def test_every_changed_group_is_written_again() -> None:
    bench = Bench(COUNTS)
    bench.share(1, [5, 5, 6], [0, 0, 0])
    bench.signal_all(1, 0)
    bench.run()
    bench.share(2, [5], [0], sender=1)
    bench.signal_all(2, 0)
    bench.run()
    assert bench.written == [(5, 2, 10), (6, 1, 6), (5, 3, 15)]


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
                        list(shaken.merger.seal())  # it goes on
    for bench in (plain, shaken):
        for sender in stay:
            bench._append(signal(bench.senders[sender], 12, watermark + 100 * MS))
        bench.run()
        bench.finish()
    if sql == COUNTS:
        assert _standing(shaken.written) == _standing(plain.written)
    else:
        assert sorted(shaken.written) == sorted(plain.written)


@pytest.mark.parametrize("hold", [False, True])
@pytest.mark.parametrize("sql", [COUNTS, TUMBLE, DISTINCT, EVER])
def test_a_transaction_and_a_blob_have_no_more_groups_than_they_may(sql: str, hold: bool) -> None:
    whole, cut = Bench(sql, hold), Bench(sql, hold, WrittenMax(5))
    for bench in (whole, cut):
        bench.share(1, list(range(40)), list(range(40)))
        bench.signal_all(1, 0)
        bench.run()
        blobs = list(bench.merger.seal())
        assert sum(rows for _, rows, _ in blobs) == 40 and (len(blobs) == 8 or bench is whole)
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
        bench, log, again = Bench(sql), MemoryLog(), 0
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
            again += isinstance(effect, Read) and effect.limit == 1
            effect = loop.send(perform(effect))
        written = client.read(Address(Topic.OUTPUT, "merger-0"), 0, 1 << 30).records
        rows = [row for _, r in written for row in zip(*(c.values.tolist() for c in r.columns), strict=True)]
        return sorted(rows), again

    assert output(0)[0] == output(SHARES_MAX)[0] != []
    assert output(0)[1] == 29 and output(SHARES_MAX)[1] == 0


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
        blobs = list(bench.merger.seal())
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
    blobs = list(bench.merger.seal())
    assert len(blobs) >= 10 and max(len(data) for _, _, data in blobs) < 25_000
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
