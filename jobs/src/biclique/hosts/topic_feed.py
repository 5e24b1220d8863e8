"""Topics as a feed: read, parsed and packed in a thread of the engine's, as a shuffler's task does it elsewhere.

A run that does not follow reads each partition up to where it ended when the run first began: that stands in the state
(`Span`), so that a restart ends at the same place; so does where it begins. How far a partition has been taken is its
dispatcher's progress. Heartbeats go through the same queue as blocks, so each comes behind the records that it is
about; the clock is read before the ends of the topic.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Protocol

import pyarrow as pa

from biclique.core.places import next_offset, row_bits
from biclique.hosts.shuffle.cutting import cut_rows
from biclique.hosts.shuffle.heartbeats import proof_of, silence_of
from biclique.hosts.shuffle.packing import NO_PREDECESSOR, Packer
from biclique.hosts.shuffle.starts import Topics, first_places, starts_of
from biclique.ports.kafka_input import Input
from biclique.ports.refusals import Unreachable
from biclique.ports.run_state import SourceState, Span
from biclique.query.model import Query
from biclique.tiers.messages import UNREAD, Heartbeat, SourceBlock
from biclique.tiers.progress import SourcePartition

READ_RECORDS, PATIENCE_S = 20_000, 0.05
ITEMS_AHEAD = 4
LOOK_S = 1.0  # between two looks at the topic's ends, of a run that follows
SILENCE_S = 30.0  # after which one that does not follow asks whether there are brokers


class Messages(Protocol):
    """Of a topic (ports/kafka_input.py)."""

    position: dict[int, int]

    def read(self, limit: int, patience_s: float) -> dict[int, list[Input]]: ...
    def add(self, begins: Mapping[int, int]) -> None: ...
    def drop(self, partition: int) -> None: ...
    def close(self) -> None: ...


def spans_of(query: Query, source: int, topics: Topics, known: tuple[Span, ...], follow: bool) -> tuple[Span, ...]:
    """What a run is about: `known`, as an earlier process found it, or what there is now."""
    if not known:
        keys = [key for key in topics.partitions() if key.source == source]
        places, bounds, bits = first_places(query, topics), topics.bounds(keys), row_bits(query.sources[source])
        known = tuple(
            Span(key.partition, next_offset(places[key], bits) if key in places else bounds[key].start, None)
            for key in keys
        )
    if follow:
        return tuple(replace(span, end=None) for span in known)
    ends = topics.ends(SourcePartition(source, span.partition) for span in known if span.end is None)
    return tuple(replace(s, end=ends.get(SourcePartition(source, s.partition), s.end)) for s in known)


class TopicFeed:
    """`taken`: the place of the last record that the dispatcher has of each partition, where it has one. `arrived` is
    set whenever there is something new. `opened`: reads from these offsets on."""

    def __init__(
        self,
        query: Query,
        source: int,
        topics: Topics,
        opened: Callable[[Mapping[int, int]], Messages],
        state: SourceState,
        follow: bool,
        taken: Mapping[SourcePartition, int],
        attempt: int,
        arrived: threading.Event,
    ) -> None:
        self.number = source
        self._topics, self._opened, self._attempt, self._arrived = topics, opened, attempt, arrived
        self._silences = 0  # of Kafka's
        self._packer, self._follow = Packer(query), follow
        self._idle_after_ms = query.sources[source].event_time.idle_after_us // 1000
        self._spans, self._rows = spans_of(query, source, topics, state.spans, follow), state.rows
        mine = {key: place for key, place in taken.items() if key.source == source}
        starts = starts_of(query, mine, topics, "begin anew with --restart") if mine else {}
        self._begins = {
            span.partition: starts[key] if (key := SourcePartition(source, span.partition)) in mine else span.begin
            for span in self._spans
        }
        self._last = {key.partition: place for key, place in mine.items()}
        self._predecessor: dict[int, int] = {}
        self._items: deque[tuple[SourceBlock | Heartbeat, int]] = deque()
        self._changed = threading.Condition()
        self._failure: Exception | None = None
        self._closed = self._done = False

    @property
    def state(self) -> SourceState:
        return SourceState(spans=self._spans, rows=self._rows)

    @property
    def partitions(self) -> tuple[int, ...]:
        return tuple(self._begins)

    @property
    def caught_up(self) -> bool:
        with self._changed:
            return self._done and not self._items and self._failure is None

    @property
    def ahead_bytes(self) -> int:
        with self._changed:
            return sum(size for _, size in list(self._items)[1:])

    def bytes_known(self) -> tuple[int, int]:
        return 0, 0

    def file_name(self, ordinal: int) -> str:
        raise AssertionError("a topic has no files")

    def start(self) -> None:
        threading.Thread(target=self._run, name=f"reading source {self.number}", daemon=True).start()

    def look(self) -> None:
        """The thread looks for itself."""

    def take(self) -> tuple[SourceBlock | Heartbeat, ...]:
        with self._changed:
            if not self._items:
                if self._failure is not None:
                    raise self._failure
                return ()
            item, _ = self._items.popleft()
            self._changed.notify_all()
        if isinstance(item, SourceBlock):
            self._rows += len(item.offsets)
        return (item,)

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    # --- the thread --------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._read()
        except Exception as error:  # raised where the engine next takes something
            with self._changed:
                self._failure = error
        self._arrived.set()

    def _read(self) -> None:
        ends = {span.partition: span.end for span in self._spans if span.end is not None}
        messages = self._opened({n: begin for n, begin in self._begins.items() if begin < ends.get(n, begin + 1)})
        still = set(messages.position)
        for number in self._begins.keys() - still:
            self._rest(number, self._begins[number])
        looked, heard = 0.0, time.monotonic()
        try:
            while not self._closed and (still or self._follow):
                found = messages.read(READ_RECORDS, PATIENCE_S)
                if found:
                    heard = time.monotonic()
                elif not self._follow and time.monotonic() - heard >= SILENCE_S:
                    self._topics.ends(SourcePartition(self.number, number) for number in still)  # or Unreachable
                    heard = time.monotonic()
                for number, records in found.items():
                    if number in still:
                        end = ends.get(number)
                        self._hand_on(number, [record for record in records if end is None or record.offset < end])
                for number in [n for n in still if n in ends and messages.position[n] >= ends[n]]:
                    still.remove(number)
                    messages.drop(number)
                    self._rest(number, messages.position[number])
                if self._follow and time.monotonic() - looked >= LOOK_S:
                    looked = time.monotonic()
                    still |= self._look(messages)
        finally:
            messages.close()
        with self._changed:
            self._done = True

    def _hand_on(self, number: int, records: list[Input]) -> None:
        batch = pa.RecordBatch.from_pydict(
            {
                "offset": pa.array([record.offset for record in records], pa.int64()),
                "time": pa.array([record.time_us for record in records], pa.int64()),
                "value": pa.array([record.value for record in records], pa.binary()),
            }
        )
        key = SourcePartition(self.number, number)
        for portion in self._packer.portions(self.number, batch):
            for block in cut_rows(self._packer.pack(key, self._predecessor.get(number, NO_PREDECESSOR), portion)):
                self._predecessor[number] = self._last[number] = int(block.offsets[-1])
                self._put(block, portion.nbytes)

    def _rest(self, number: int, read_to: int) -> None:
        """Read to the end of its span: it holds nothing back any more."""
        for at_ms in (0, self._idle_after_ms):
            self._put(self._beat(number, at_ms, read_to), 0)

    def _look(self, messages: Messages) -> set[int]:
        """Beats of the partitions that have been read to their end; and partitions that are new."""
        now_ms = int(time.monotonic() * 1000)
        try:
            known = {key for key in self._topics.partitions() if key.source == self.number}
            fresh = self._topics.bounds(key for key in known if key.partition not in messages.position)
            ends = self._topics.ends(SourcePartition(self.number, number) for number in messages.position)
            undecided = self._topics.undecided(ends)
        except Unreachable:
            self._silences += 1
            return set()  # no beat is sent on a guess
        for key, end in ends.items():
            if key in undecided:  # see Heartbeats.beats
                self._put(Heartbeat(*key, UNREAD, now_ms, self._proof), 0)
            elif end <= messages.position[key.partition]:
                self._put(self._beat(key.partition, now_ms, messages.position[key.partition]), 0)
        if int(time.monotonic() * 1000) - now_ms >= silence_of(self._idle_after_ms):
            self._silences += 1
        added = {key.partition: bounds.start for key, bounds in fresh.items()}
        if added:
            messages.add(added)
            self._spans += tuple(Span(number, begin, None) for number, begin in added.items())
        return set(added)

    def _beat(self, number: int, at_ms: int, read_to: int) -> Heartbeat:
        return Heartbeat(self.number, number, self._last.get(number, -1), at_ms, self._proof, read_to)

    @property
    def _proof(self) -> int:
        return proof_of(self._attempt, self._silences)

    def _put(self, item: SourceBlock | Heartbeat, size: int) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._closed or len(self._items) < ITEMS_AHEAD)
            self._items.append((item, size))
        self._arrived.set()
