"""Heartbeats of a shuffler's driver, and what a dispatcher makes of them: an idle partition holds nothing back longer
than `idleAfter`, and one that is not idle is never taken for it."""

from __future__ import annotations

import json

import numpy as np

from biclique.core.places import last_place
from biclique.core.rows import Vector
from biclique.hosts.shuffle.heartbeats import OBSERVED, Heartbeats, last_name
from biclique.plan.make import make_plan
from biclique.plan.table import first_table
from biclique.query.compile import compile_manifest
from biclique.tiers.dispatcher import Dispatcher
from biclique.tiers.messages import TIME_NEVER, Heartbeat, Signal, SourceBlock
from biclique.tiers.progress import DispatcherProgress, SourcePartition

R0, R1, S0 = SourcePartition(0, 0), SourcePartition(0, 1), SourcePartition(1, 0)
SOURCES = {0: 0, 1: 1}
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
    heartbeats = Heartbeats(5, {R0: 3}, SOURCES)
    assert heartbeats.beats({R0: 4}, 7) == [], "nothing was reported yet"
    heartbeats.batch_ended(
        report(0, [{"r": {"0": 9, "1": 0}}, {"s": {"0": 4}}], **{last_name(R0): 8, last_name(S0): 3})
    )
    assert set(heartbeats.partitions) == {R0, R1, S0}
    assert beaten(heartbeats, {R0: 9, R1: 0, S0: 5}) == {R0: 8, R1: -1}
    assert heartbeats.beats({R0: 9}, 70) == [Heartbeat(0, 0, 8, 70, 5)]
    assert beaten(heartbeats, {R0: 10, R1: 1, S0: 4}) == {S0: 3}


def test_the_place_is_that_of_the_last_record_and_not_of_the_markers_behind_it() -> None:
    heartbeats = Heartbeats(5, {}, SOURCES)
    heartbeats.batch_ended(report(0, [{"r": {"0": 12}}, {"s": {"0": 0}}], **{last_name(R0): 8}))
    assert beaten(heartbeats, {R0: 12}) == {R0: 8}
    heartbeats.batch_ended(report(1, [{"r": {"0": 14}}, {"s": {"0": 0}}]))
    assert beaten(heartbeats, {R0: 14}) == {R0: 8}, "markers alone"


def test_a_report_told_again_changes_nothing_and_one_that_was_missed_is_noticed() -> None:
    heartbeats = Heartbeats(5, {}, SOURCES)
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


def test_a_source_that_is_not_read_does_not_beat() -> None:
    """Of two sources the second alone is read: its number is that of the manifest."""
    heartbeats = Heartbeats(5, {}, {0: 1})
    heartbeats.batch_ended(report(0, [{"s": {"0": 4}}], **{last_name(S0): 3}))
    assert beaten(heartbeats, {R0: 0, S0: 4}) == {S0: 3}


# --- with a dispatcher -----------------------------------------------------------------------------------------------


class Stream:
    """One dispatcher, its shuffler's driver, and a clock that both share here."""

    def __init__(self, known: tuple[SourcePartition, ...] = (R0, R1, S0)) -> None:
        self.plan = make_plan(compile_manifest(MANIFEST))
        self.dispatcher = Dispatcher(self.plan, 0, known, DispatcherProgress())
        self.heartbeats = Heartbeats(1, {}, SOURCES)
        self.ends = dict.fromkeys(known, 0)
        self.batch = self.at_ms = 0

    def signal(self, *records: SourceBlock | Heartbeat) -> Signal:
        self.at_ms += 1000
        turn = self.dispatcher.turn(list(enumerate(records)), 0, first_table(self.plan), self.at_ms)
        assert turn is not None
        self.dispatcher.committed(turn, self.at_ms)
        return next(record for _, record in turn.sends if isinstance(record, Signal))

    def batch_of(self, key: SourcePartition, seconds: int) -> Signal:
        """One record with this event time, and then the driver's beats."""
        offset = self.ends.get(key, 0)
        self.ends[key] = offset + 1
        ends = [
            {topic: {str(k.partition): end for k, end in self.ends.items() if k.source == source}}
            for source, topic in enumerate("rs")
        ]
        self.heartbeats.batch_ended(report(self.batch, ends, **{last_name(key): offset}))
        self.batch += 1
        columns = (Vector(np.array([1], np.int32)),)
        times = np.array([seconds * 1_000_000])
        block = SourceBlock(*key, offset - 1, np.array([offset]), np.zeros(1, np.int8), times, columns)
        return self.signal(block, *self.beats())

    def beats(self) -> list[Heartbeat]:
        return self.heartbeats.beats(self.ends, self.at_ms)


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
