"""Heartbeats of a shuffler's driver, and what a dispatcher makes of them: an idle partition holds nothing back longer
than `idleAfter`, and one that is not idle is never taken for it."""

from __future__ import annotations

import json
from contextlib import suppress

import numpy as np
import pytest

from biclique.core.places import last_place
from biclique.core.rows import Vector
from biclique.hosts.shuffle.heartbeats import OBSERVED, Heartbeats, Silence, last_name, proof_of, silence_of
from biclique.plan.make import make_plan
from biclique.plan.table import first_table
from biclique.query.compile import compile_manifest
from biclique.tiers.dispatcher import Dispatcher, LastRead
from biclique.tiers.messages import TIME_NEVER, UNREAD, Heartbeat, Signal, SourceBlock
from biclique.tiers.progress import DispatcherProgress, SourcePartition

R0, R1, S0 = SourcePartition(0, 0), SourcePartition(0, 1), SourcePartition(1, 0)
READERS = ({"r": 0}, {"s": 1})
MANIFEST = """
apiVersion: biclique.dev/v1alpha1
kind: JoinQuery
metadata: {name: beating}
spec:
  sources:
    - name: r
      schema: "k INT"
      eventTime: {idleAfter: 3s}
      kafka: {bootstrapServers: "b:1", topic: r}
    - name: s
      schema: "k INT"
      eventTime: {idleAfter: 3s}
      kafka: {bootstrapServers: "b:1", topic: s}
  sql: "SELECT r.k FROM r JOIN s ON r.k = s.k WITHIN 1 MINUTE"
  topics: {partitions: 1}
  output: {kafka: {bootstrapServers: "b:1", topic: out}}
"""


def report(batch: int, ends: list[dict[str, dict[str, int]]], **last: int) -> dict[str, object]:
    """As Spark's: an offset as JSON within JSON, or as an object."""
    sources = [{"endOffset": json.dumps(end) if position else end} for position, end in enumerate(ends)]
    return {"batchId": batch, "sources": sources, "observedMetrics": {OBSERVED: last} if last else {}}


def beaten(heartbeats: Heartbeats, ends: dict[SourcePartition, int], now_ms: int = 7) -> dict[SourcePartition, int]:
    return {SourcePartition(b.source, b.partition): b.position for b in heartbeats.beats(ends, now_ms)}


def test_a_partition_beats_when_all_of_it_has_been_read() -> None:
    heartbeats = Heartbeats(5, {R0: 3}, READERS)
    assert heartbeats.beats({R0: 4}, 7) == [], "nothing was reported yet"
    heartbeats.batch_ended(
        report(0, [{"r": {"0": 9, "1": 0}}, {"s": {"0": 4}}], **{last_name(R0): 8, last_name(S0): 3})
    )
    assert set(heartbeats.partitions) == {R0, R1, S0}
    assert beaten(heartbeats, {R0: 9, R1: 0, S0: 5}) == {R0: 8, R1: -1}
    assert heartbeats.beats({R0: 9}, 70) == [Heartbeat(0, 0, 8, 70, proof_of(5, 0), read_to=9)]
    assert beaten(heartbeats, {R0: 10, R1: 1, S0: 4}) == {S0: 3}


def test_the_place_is_that_of_the_last_record_and_not_of_the_markers_behind_it() -> None:
    heartbeats = Heartbeats(5, {}, READERS)
    heartbeats.batch_ended(report(0, [{"r": {"0": 12}}, {"s": {"0": 0}}], **{last_name(R0): 8}))
    assert beaten(heartbeats, {R0: 12}) == {R0: 8}
    heartbeats.batch_ended(report(1, [{"r": {"0": 14}}, {"s": {"0": 0}}]))
    assert beaten(heartbeats, {R0: 14}) == {R0: 8}, "markers alone"


def test_a_report_told_again_changes_nothing_and_one_that_was_missed_is_noticed() -> None:
    heartbeats = Heartbeats(5, {}, READERS)
    first = report(0, [{"r": {"0": 9}}, {"s": {"0": 0}}], **{last_name(R0): 8})
    assert heartbeats.batch_ended(first) and heartbeats.batch_ended(first)
    waiting = report(1, [{"r": {"0": 9}}, {"s": {"0": 0}}])
    assert heartbeats.batch_ended(waiting), "Spark numbers the batch that it waits for"
    assert heartbeats.batch_ended(report(1, [{"r": {"0": 11}}, {"s": {"0": 0}}], **{last_name(R0): 10}))
    assert not heartbeats.batch_ended(report(3, [{"r": {"0": 30}}, {"s": {"0": 0}}])), (
        "batch 2 brought records up to 28"
    )
    assert beaten(heartbeats, {R0: 30}) == {R0: 10}, "too low a place: no dispatcher takes it for its own"
    heartbeats.caught_up_with({R0: 28, R1: 2})
    assert beaten(heartbeats, {R0: 30}) == {R0: 28}


def test_what_has_something_to_be_read_says_so_before_anything_is_read() -> None:
    heartbeats = Heartbeats(5, {R0: 8}, READERS)
    starts = {R0: 9, R1: 0, S0: 4}
    assert heartbeats.unread(starts, {R0: 9, R1: 0, S0: 4}, set(), 7) == []
    assert heartbeats.unread(starts, {R0: 11, R1: 1}, set(), 7) == [
        Heartbeat(0, n, UNREAD, 7, proof_of(5, 0)) for n in range(2)
    ]
    heartbeats.batch_ended(report(0, [{"r": {"0": 11, "1": 0}}, {"s": {"0": 4}}]))
    assert heartbeats.unread(starts, {R0: 11, R1: 0}, set(), 7) == [], (
        "the query before has read to the end: markers alone"
    )
    heartbeats.begin({R0: 8}, READERS)
    assert len(heartbeats.unread(starts, {R0: 11}, set(), 7)) == 1, "that may be anything"
    assert heartbeats.unread(starts, {}, {S0}, 7) == [Heartbeat(1, 0, UNREAD, 7, proof_of(5, 0))], (
        "a paused source is not idle"
    )


def test_a_source_that_is_not_read_does_not_beat() -> None:
    """Of two sources the second alone is read: its number is that of the manifest."""
    heartbeats = Heartbeats(5, {}, ({"s": 1},))
    heartbeats.batch_ended(report(0, [{"s": {"0": 4}}], **{last_name(S0): 3}))
    assert beaten(heartbeats, {R0: 0, S0: 4}) == {S0: 3}


def test_sources_that_are_read_together_are_told_apart_by_their_topics() -> None:
    heartbeats = Heartbeats(5, {}, ({"s": 1, "r": 0},))
    heartbeats.batch_ended(report(0, [{"s": {"0": 4}, "r": {"0": 9}}], **{last_name(R0): 8, last_name(S0): 3}))
    assert beaten(heartbeats, {R0: 9, S0: 4}) == {R0: 8, S0: 3}


# --- with a dispatcher -----------------------------------------------------------------------------------------------


class Stream:
    """One dispatcher, its shuffler's driver, and a clock that both share here."""

    def __init__(self, known: tuple[SourcePartition, ...] = (R0, R1, S0)) -> None:
        self.plan = make_plan(compile_manifest(MANIFEST))
        self.dispatcher = Dispatcher(self.plan, 0, known, DispatcherProgress())
        self.heartbeats = Heartbeats(1, {}, READERS)
        self.ends = dict.fromkeys(known, 0)
        self.undecided: frozenset[SourcePartition] = frozenset()
        self.batch = self.at_ms = 0

    def signal(self, *records: SourceBlock | Heartbeat) -> Signal:
        self.at_ms += 1000
        turn = self.dispatcher.turn(
            list(enumerate(records)), 0, first_table(self.plan), self.at_ms, LastRead(self.dispatcher.others, True)
        )
        assert turn is not None
        self.dispatcher.committed(turn, self.at_ms)
        return next(record for _, record in turn.sends if isinstance(record, Signal))

    def batch_of(self, key: SourcePartition, seconds: int, markers: int = 0) -> Signal:
        """One record with this event time, with such places behind it, and then the driver's beats."""
        offset = self.ends.get(key, 0)
        self.ends[key] = offset + 1 + markers
        ends = [
            {topic: {str(k.partition): end for k, end in self.ends.items() if k.source == source}}
            for source, topic in enumerate("rs")
        ]
        self.heartbeats.batch_ended(report(self.batch, ends, **{last_name(key): offset}))
        self.batch += 1
        columns = (Vector(np.array([1], np.int32)),)
        times = np.array([seconds * 1_000_000])
        block = SourceBlock(*key, -1, np.array([offset]), np.zeros(1, np.int8), times, columns)
        return self.signal(block, *self.beats())

    def beats(self) -> list[Heartbeat]:
        return self.heartbeats.beats(self.ends, self.at_ms, self.undecided)


def test_idle_partitions_hold_the_watermark_back_no_longer_than_idle_after() -> None:
    stream = Stream()
    watermarks = [stream.batch_of(R0, 100 + second).watermark for second in range(6)]
    assert watermarks[:3] == [TIME_NEVER] * 3, "R1 and S0 may still bring anything"
    assert watermarks[4] == 104 * 1_000_000


def test_a_partition_that_flows_holds_the_watermark_back_and_idle_ones_come_back() -> None:
    stream = Stream()
    for second in range(8):
        stream.batch_of(R0, 100 + second)
        assert stream.batch_of(S0, 50 + second).watermark in (TIME_NEVER, (50 + second) * 1_000_000)
    stream.batch_of(R1, 90)
    assert stream.batch_of(S0, 200).watermark == 90 * 1_000_000, "R1 is idle no more"


def test_what_a_transaction_brings_all_at_once_is_not_late() -> None:
    """Those who write exactly once commit now and then: while it is open, nothing of it can be read."""
    stream = Stream()
    stream.batch_of(R1, 90)
    for second in range(8):
        stream.batch_of(S0, 100 + second)
        stream.batch_of(R0, 100 + second)
    stream.undecided = frozenset({R1})
    held = stream.batch_of(S0, 200).watermark
    for second in range(1, 30):
        stream.batch_of(R0, 200 + second)
        assert stream.batch_of(S0, 200 + second).watermark == held, "R1 may bring what is as old as its beginning"
    stream.undecided = frozenset()
    stream.batch_of(R1, 205)
    assert stream.dispatcher.progress.fates["late"] == (0, 0)


def test_what_came_to_an_idle_partition_while_no_shuffler_ran_is_not_late() -> None:
    """R1 was idle when its shuffler fell. Both have records when the next one begins, and R0's are read first."""
    stream = Stream()
    stream.batch_of(R1, 90)
    for second in range(8):
        stream.batch_of(S0, 100 + second)
        told = stream.batch_of(R0, 100 + second)
    assert told.watermark == 107 * 1_000_000, "R1 is idle"
    stream.ends[R0], stream.ends[R1] = stream.ends[R0] + 1, stream.ends[R1] + 1
    stream.heartbeats = Heartbeats(2, stream.dispatcher.progress.last, READERS)
    starts = {key: place + 1 for key, place in stream.dispatcher.progress.last.items()}
    beats = stream.heartbeats.unread(starts, stream.ends, set(), 3)
    assert [(beat.source, beat.partition) for beat in beats] == [(0, 1), (0, 0)]
    for key in (R0, R1):
        stream.ends[key] -= 1
    stream.signal(*beats)
    for key in (S0, R0):
        assert stream.batch_of(key, 200).watermark == 107 * 1_000_000
    stream.batch_of(R1, 150)
    assert stream.dispatcher.progress.fates["late"] == (0, 0)
    assert stream.dispatcher.progress.watermark == 150 * 1_000_000


def test_a_silence_of_kafka_makes_nobody_idle() -> None:
    """The broker was down for half a minute, and those who write come back one by one: what S0 has from that time must
    not be late because R0's writer was quicker."""
    stream = Stream((R0, S0))
    for second in range(4):
        stream.batch_of(S0, 100 + second)
        stream.batch_of(R0, 100 + second)
    stream.at_ms += 30_000
    stream.heartbeats.interrupted()
    stream.signal(*stream.beats())
    assert stream.batch_of(R0, 134).watermark == 103 * 1_000_000
    assert stream.batch_of(S0, 104).watermark == 104 * 1_000_000
    assert stream.dispatcher.progress.fates["late"] == (0, 0)
    moved = [stream.batch_of(R0, 135 + second).watermark for second in range(5)]
    assert moved[-1] == 139 * 1_000_000, "whoever stays away is idle all the same"


@pytest.mark.parametrize(
    ("asked", "counted"),
    [
        ([(0, 10), (1000, 1010), (2000, 2990)], 0),
        ([(0, 10), (1000, 2600)], 1),
        ([(0, 10), (2400, 2410)], 0),
        ([(0, 10), (2600, 2610)], 1),
        ([(0, 10), (2600, 4200), (5000, 5010)], 2),
        ([(0, 10), (1000, None), (1400, 1410)], 0),
        ([(0, 10), (1000, None), (2600, 2610)], 1),
        ([(90_000, 90_010)], 0),
    ],
    ids=["prompt", "slow", "a little late", "not asked", "both", "refused once", "refused for long", "the first"],
)
def test_a_silence_is_whatever_time_nobody_has_heard_of_kafka(
    asked: list[tuple[int, int | None]], counted: int
) -> None:
    """However it came about: that a query took long to begin tells as little of those who write."""
    now, broken = [0], list[int]()
    silence = Silence(silence_of(3000), lambda: broken.append(now[0]), lambda: now[0])
    for began, answered in asked:
        now[0] = began
        with suppress(ConnectionError), silence.asked() as began_ms:
            assert began_ms == began
            if answered is None:
                raise ConnectionError
            now[0] = answered
    assert len(broken) == counted


@pytest.mark.parametrize("idle_after_ms", [1, 500, 1000, 2000, 3000, 4000, 5000, 60_000])
def test_beats_that_come_as_they_do_are_no_silence_however_short_idle_after_is(idle_after_ms: int) -> None:
    now, broken = [0], list[int]()
    silence = Silence(silence_of(idle_after_ms), lambda: broken.append(now[0]), lambda: now[0])
    for beat in range(20):
        now[0] = 1300 * beat
        with silence.asked():
            pass
    assert not broken


def test_all_idle_says_so_and_keeps_the_watermark() -> None:
    stream = Stream()
    for key in (R0, R1, S0):
        stream.batch_of(key, 100)
    signals = [stream.signal(*stream.beats()) for _ in range(5)]
    assert [signal.idle for signal in signals] == sorted(signal.idle for signal in signals)
    assert signals[-1].idle and {signal.watermark for signal in signals} == {100 * 1_000_000}


def test_a_partition_that_is_added_counts_from_its_first_word() -> None:
    stream = Stream((R0, S0))
    stream.batch_of(S0, 500)
    assert stream.batch_of(R0, 100).watermark == 100 * 1_000_000
    added = stream.batch_of(R1, 130)
    assert added.watermark == 100 * 1_000_000
    assert stream.batch_of(R0, 600).watermark == 130 * 1_000_000, "the new partition's greatest is the least"


def test_without_beats_nothing_is_idle() -> None:
    stream = Stream()
    stream.batch_of(R0, 100)
    stream.ends[R1] = stream.ends[S0] = 1  # there is something that has not been read
    assert [stream.signal(*stream.beats()).watermark for _ in range(8)] == [TIME_NEVER] * 8


def test_a_place_within_a_message_is_not_its_end() -> None:
    """A dispatcher that has half of a message is not where a beat says that the partition is."""
    stream = Stream()
    beat = Heartbeat(0, 0, last_place(7, 16), 0, 1)
    stream.dispatcher.progress = DispatcherProgress(last={R0: 7 << 16})
    for at_ms in (0, 4000, 8000):
        stream.signal(Heartbeat(beat.source, beat.partition, beat.position, at_ms, 1))
    assert not stream.signal().idle


def test_places_that_hold_no_record_are_taken_with_the_last_one() -> None:
    """The topic's retention removes everything before the shuffler is started again: nothing is lost by that."""
    stream = Stream()
    stream.batch_of(R0, 100, markers=3)
    assert stream.dispatcher.progress.last == {R0: 3}
    stream.batch_of(R0, 101)
    stream.signal(Heartbeat(0, 0, 0, stream.at_ms, 1, read_to=4))
    assert stream.dispatcher.progress.last == {R0: 4}, "an old beat takes nothing back"
    stream.signal(Heartbeat(0, 0, 7, stream.at_ms, 1, read_to=9))
    assert stream.dispatcher.progress.last == {R0: 4}, "records up to 7 have not come: a send was lost"
    stream.signal(Heartbeat(0, 0, UNREAD, stream.at_ms, 2))
    assert stream.dispatcher.progress.last == {R0: 4}


def test_of_a_message_of_many_rows_the_place_is_its_last_rows() -> None:
    plan = make_plan(compile_manifest(MANIFEST.replace("topic: r}", "topic: r, format: arrow}")))
    dispatcher = Dispatcher(plan, 0, (R0,), DispatcherProgress(last={R0: last_place(7, 16)}))
    turn = dispatcher.turn(
        [(0, Heartbeat(0, 0, last_place(7, 16), 1, 1, read_to=11))], 1, first_table(plan), 1, LastRead()
    )
    assert turn is not None and turn.progress.last == {R0: last_place(10, 16)}
