"""Places, the blocks that a batch needs, the bounded cache, how far shuffled may be trimmed, and how a dispatcher goes
by what is measured."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from biclique.core import payload_places
from biclique.core.payload_places import places_of
from biclique.core.rows import Vector
from biclique.plan.make import make_plan
from biclique.plan.model import LEFT, PLACE, Plan, Transport
from biclique.plan.table import first_table
from biclique.ports.wire import Wire
from biclique.query.compile import compile_manifest
from biclique.query.model import Window
from biclique.tiers.dispatcher import Dispatcher, LastRead
from biclique.tiers.effects import Fetched, Read, ReadProgress
from biclique.tiers.inbox import joiner_producer
from biclique.tiers.messages import TIME_NEVER, Block, Demand, Mark, Record, SourceBlock
from biclique.tiers.payload_reading import MissingPayload, read_payloads
from biclique.tiers.payload_trimming import PayloadMarks, payload_window_us
from biclique.tiers.payloads import BlockPlace, Payloads, Wanted, runs_of
from biclique.tiers.progress import DispatcherProgress, JoinerProgress, SourcePartition
from biclique.tiers.transports import Transports
from tests.unit.tiers.on_topics import on_topics

SQL, SCHEMA = "SELECT r.t, s.t AS u FROM r JOIN s ON r.k = s.k WITHIN 10 SECONDS", "k INT, t STRING"


def plan(transport: str = "semijoin") -> Plan:
    more = f"plan: {{transport: {transport}}}", "topics: {partitions: 1}"
    return make_plan(compile_manifest(on_topics(SQL, *more, r=SCHEMA, s=SCHEMA)))


def block(first: int, texts: list[str], source: int = 0, filtered: tuple[int, ...] = ()) -> SourceBlock:
    count = len(texts)
    marks = np.array([Mark.FILTERED.value if n in filtered else Mark.GOOD.value for n in range(count)], np.int8)
    good = [n for n in range(count) if n not in filtered]
    columns = (
        Vector(np.array(good, np.int32)),
        Vector(pa.array([texts[n] for n in good], pa.string())),
    )
    times = np.zeros(count, np.int64)
    return SourceBlock(source, 0, first - 1, np.arange(first, first + count), marks, times, columns)


def sent(made: Plan, *records: tuple[int, Record]) -> list[Block]:
    dispatcher = Dispatcher(made, 0, [SourcePartition(0, 0), SourcePartition(1, 0)], DispatcherProgress())
    turn = dispatcher.turn(records, 99, first_table(made), 1000, LastRead())
    assert turn is not None
    return [record for _, record in turn.sends if isinstance(record, Block)]


def test_a_place_names_dispatcher_block_and_row_and_whether_the_payload_is_there() -> None:
    places = places_of(5, 70_000_000_000 >> 1, np.array([0, 3, 1_048_575]))
    assert (places >= 0).all()
    assert {payload_places.block(int(b)) for b in payload_places.blocks_of(places)} == {(5, 35_000_000_000)}
    assert payload_places.rows_of(places).tolist() == [0, 3, 1_048_575]
    here = payload_places.in_the_row(places)
    assert (here < 0).all() and (payload_places.known(here) == places).all()
    assert payload_places.in_the_row(places_of(0, 0, np.array([0])))[0] < 0


def test_small_blocks_are_sent_as_one_without_their_payload() -> None:
    made = plan()
    found = sent(made, (3, block(0, ["a", "bb", "ccc"], filtered=(1,))), (7, block(3, ["d"])))
    assert len(found) == 2  # one to store, one to probe
    for each in found:
        assert not each.whole
        keys, texts, places, left_behind = each.rows.columns
        assert keys.values.tolist() == [0, 2, 0]
        assert texts.values.to_pylist() == ["", "", ""]
        assert places.values.tolist() == [*places_of(0, 3, np.array([0, 1])), *places_of(0, 7, np.array([0]))]
        assert left_behind.values.tolist() == [1, 3, 1]


def test_payload_that_stayed_behind_is_not_in_the_message() -> None:
    wire, kept = Wire(plan()), Wire(plan("tuples"))
    wide = block(0, ["x" * 1000] * 50)
    (short, *_), (long, *_) = sent(plan(), (0, wide)), sent(plan("tuples"), (0, wide))
    assert len(wire.encode(short).value) * 10 < len(kept.encode(long).value)
    back = wire.decode(wire.encode(short))
    assert isinstance(back, Block) and not back.whole
    for ours, theirs in zip(back.rows.columns, short.rows.columns, strict=True):
        assert pa.array(ours.values).equals(pa.array(theirs.values))


def texts_of(payloads: Payloads, places: list[int]) -> list[str]:
    own = Vector(pa.array([""] * len(places), pa.string()))
    at = Vector(np.array(places, np.int64))
    return payloads.completed(LEFT, 1, own, at).values.to_pylist()


def asked(payloads: Payloads, places: list[int], made: Plan) -> Wanted | None:
    """A batch in which these rows of r look into s, whose rows bring all along."""
    from biclique.core.rows import Rows
    from biclique.tiers.found import Found

    count = len(places)
    zeros = np.zeros(count, np.int64)
    columns = (
        Vector(np.zeros(count, np.int32)),
        Vector(pa.array([""] * count, pa.string())),
        Vector(np.array(places, np.int64)),
        Vector(np.zeros(count, np.int32)),
    )
    rows = Rows(np.arange(count, dtype=np.uint64), (zeros,), zeros, zeros, columns)

    class Whole:
        def column(self, position: int, stored: np.ndarray) -> Vector:
            return Vector(np.full(len(stored), -1))

    found = Found(Whole(), np.arange(count), zeros, 0)  # type: ignore[arg-type]
    return payloads.wanted({1: rows}, {1: [found]})


def test_a_batch_asks_for_each_block_once_and_gets_each_row_its_own() -> None:
    made = plan()
    payloads = Payloads(made, made.stages[0])
    a, b = places_of(0, 4, np.arange(3)).tolist(), places_of(0, 6, np.arange(2)).tolist()
    wanted = asked(payloads, [b[1], a[2], a[0], b[1]], made)
    assert wanted == Wanted((BlockPlace(0, 4), BlockPlace(0, 6)))
    payloads.take(BlockPlace(0, 6), block(0, ["p", "q"]))
    payloads.take(BlockPlace(0, 4), block(0, ["a", "b", "c"]))
    assert texts_of(payloads, [b[1], a[2], a[0], b[1]]) == ["q", "c", "a", "q"]
    assert asked(payloads, [a[1]], made) is None, "the block is in the cache"
    assert texts_of(payloads, [a[1], -1]) == ["b", ""], "what is in the row stays as it is"
    assert (payloads.counters.read, payloads.counters.cached, payloads.counters.wanted) == (2, 1, 4)


@pytest.mark.parametrize("blocks_kept", [0, 1, 2])
def test_the_cache_is_bounded_and_keeps_the_last(blocks_kept: int) -> None:
    made, one = plan(), block(0, ["x" * 100])
    payloads = Payloads(made, made.stages[0], blocks_kept * one.nbytes)
    for offset in range(4):
        place = int(places_of(0, offset, np.arange(1))[0])
        wanted = asked(payloads, [place], made)
        assert wanted is not None
        payloads.take(wanted.blocks[0], one)
        assert payloads.cached_bytes <= blocks_kept * one.nbytes
    again = [asked(payloads, [int(places_of(0, n, np.arange(1))[0])], made) is None for n in (3, 2, 1)]
    assert again == [blocks_kept > 0, blocks_kept > 1, False]


def test_blocks_that_follow_on_are_read_in_one_go() -> None:
    blocks = [BlockPlace(0, 3), BlockPlace(0, 4), BlockPlace(0, 6), BlockPlace(1, 7), BlockPlace(1, 8)]
    assert list(runs_of(blocks)) == [(BlockPlace(0, 3), 2), (BlockPlace(0, 6), 1), (BlockPlace(1, 7), 2)]
    assert list(runs_of([])) == []


def test_a_block_that_is_gone_is_a_successors_doing_or_a_loud_stop() -> None:
    made = plan()
    (unit, *_) = first_table(made).units()
    owner, mine = joiner_producer(unit), JoinerProgress(5)
    for known, loud in ((JoinerProgress(6), False), (mine, True)):
        payloads = Payloads(made, made.stages[0])
        wanted = asked(payloads, [int(places_of(0, 2, np.arange(1))[0])], made)
        assert wanted is not None
        reading = read_payloads(wanted, payloads, owner, mine)
        assert isinstance(next(reading), Read)
        assert isinstance(reading.send(Fetched((), 4, 4, 9)), ReadProgress)
        with pytest.raises(MissingPayload if loud else StopIteration) as ended:
            reading.send(known)
        if not loud:
            assert ended.value.value is False


def test_shuffled_is_kept_until_no_window_wants_anything_of_it() -> None:
    marks, window_us, source = PayloadMarks(plan()), 10_000_000, SourcePartition(0, 0)
    for offset, greatest in ((4, 100), (7, 100), (9, 300)):
        marks.note(DispatcherProgress(offset=offset, greatest={source: greatest, SourcePartition(1, 0): 50}))
    assert marks.keep_from(TIME_NEVER) == 0
    assert marks.keep_from(100 + window_us) == 0, "exactly a window later it may still be wanted"
    assert marks.keep_from(101 + window_us) == 7
    assert marks.keep_from(100 + window_us) == 7
    assert marks.keep_from(1000 + window_us) == 9
    for offset in range(10, 2000):
        marks.note(DispatcherProgress(offset=offset, greatest={source: 300 + offset}))
    kept = [marks.keep_from(300 + n + window_us) for n in range(10, 2002)]
    assert kept == sorted(kept) and kept[-1] == 1999
    assert all(keep <= 10 + n for n, keep in enumerate(kept)), "never beyond what is wanted"


def test_full_history_wants_everything_for_ever() -> None:
    whole = plan().query
    endless = make_plan(replace(whole, relations=tuple(replace(r, window=Window()) for r in whole.relations)))
    assert payload_window_us(endless) is None
    marks = PayloadMarks(endless)
    marks.note(DispatcherProgress(offset=5, greatest={SourcePartition(0, 0): 1}))
    assert marks.keep_from(1 << 61) == 0


def test_rows_that_bring_their_payload_along_say_so() -> None:
    made = plan("auto")
    assert made.stages[0].sides[LEFT].transport is Transport.MEASURED
    (first, *_) = sent(made, (3, block(0, ["a"])))
    assert first.whole and int(first.rows.columns[PLACE].values[0]) < 0


def test_a_dispatcher_goes_by_what_is_measured() -> None:
    transports = Transports(plan("auto"))
    unit = joiner_producer(first_table(plan()).units()[0])
    for _ in range(10):
        transports.note(block(0, ["x" * 1000] * 16))

    def told(blocks: int) -> bool:
        transports.hear([Demand(unit, 0, 1600, blocks, blocks)])
        transports.decide()
        return transports.whole(0)

    assert transports.whole(0), "nothing is known yet, and texts are taken for short"
    assert not told(10)
    assert not told(92), "a little dearer is no reason to change"
    assert told(130)
    assert told(92), "nor is a little cheaper"
    assert not told(20)
    assert transports.whole(1), "of the other relation nothing was told"
    forced = Transports(plan("semijoin"))
    forced.hear([Demand(unit, 0, 10, 10, 10)])
    forced.decide()
    assert not forced.whole(0)
