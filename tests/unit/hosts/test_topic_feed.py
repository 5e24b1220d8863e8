"""The embedded engine on topics, over a topic in memory: what comes out is what the oracle says, wherever it was
stopped and gone on with."""

from __future__ import annotations

import itertools
import json
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from biclique.hosts import topic_feed
from biclique.hosts.embedded import Ending, Engine, Options
from biclique.hosts.topic_feed import TopicFeed, spans_of
from biclique.plan.make import make_plan
from biclique.ports.kafka_input import Input
from biclique.ports.log import Bounds
from biclique.ports.run_state import SourceState, Span
from biclique.query.compile import compile_manifest
from biclique.query.errors import QueryError
from biclique.query.model import Query
from biclique.tiers.messages import UNREAD, Heartbeat
from biclique.tiers.progress import SourcePartition

MANIFEST = """
apiVersion: biclique.dev/v1alpha1
kind: JoinQuery
metadata: {{name: topical}}
spec:
  sources:
    - name: r
      schema: "k INT, v BIGINT, at TIMESTAMP"
      eventTime: {{column: at, lateness: 1h, maxFutureSkew: 100d, idleAfter: 1s}}
      onBadRecord: {bad}
      kafka: {{bootstrapServers: "b:1", topic: r, startingOffsets: {begin}}}
    - name: s
      schema: "k INT, v BIGINT, at TIMESTAMP"
      eventTime: {{column: at, lateness: 1h, idleAfter: 1s}}
      kafka: {{bootstrapServers: "b:1", topic: s, format: csv}}
  sql: "SELECT r.v AS rv, s.v AS sv FROM r JOIN s ON r.k = s.k WITHIN 1 MINUTE"
  output: {{files: {{path: {out}, format: json}}}}
"""
START_US = 1_767_225_600_000_000  # 2026-01-01


@dataclass
class Broker:
    """Topics of all sources; offsets in steps of two, as where markers stand between."""

    values: dict[SourcePartition, list[bytes]] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)
    open: frozenset[SourcePartition] = frozenset()  # those with a transaction that is not decided

    def add(self, key: SourcePartition, *values: bytes) -> None:
        with self.lock:
            self.values.setdefault(key, []).extend(values)

    def partitions(self) -> tuple[SourcePartition, ...]:
        with self.lock:
            return tuple(sorted(self.values))

    def bounds(self, keys: Iterable[SourcePartition]) -> dict[SourcePartition, Bounds]:
        return {key: Bounds(0, end) for key, end in self.ends(keys).items()}

    def ends(self, keys: Iterable[SourcePartition]) -> dict[SourcePartition, int]:
        with self.lock:
            return {key: 2 * len(self.values[key]) for key in keys}

    def undecided(self, ends: Mapping[SourcePartition, int]) -> frozenset[SourcePartition]:
        return self.open & ends.keys()

    def from_time(self, keys: Iterable[SourcePartition], time_ms: int) -> dict[SourcePartition, int]:
        return self.ends(keys)


class Reading:
    """A few messages at a time."""

    def __init__(self, broker: Broker, source: int, begins: Mapping[int, int]) -> None:
        self.position, self._broker, self._source = dict(begins), broker, source
        self._still = set(begins)

    def read(self, limit: int, patience_s: float) -> dict[int, list[Input]]:
        found: dict[int, list[Input]] = {}
        with self._broker.lock:
            for number in self._still:
                values = self._broker.values[SourcePartition(self._source, number)]
                first = (self.position[number] + 1) // 2
                last = min(first + 25, len(values))
                if first < last:
                    found[number] = [Input(2 * n, START_US, values[n]) for n in range(first, last)]
                self.position[number] = 2 * last
        return found

    def add(self, begins: Mapping[int, int]) -> None:
        self.position |= begins
        self._still |= set(begins)

    def drop(self, partition: int) -> None:
        self._still.remove(partition)

    def close(self) -> None:
        self._still.clear()


@dataclass
class Bench:
    folder: Path
    broker: Broker = field(default_factory=Broker)
    begin: str = "earliest"
    bad: str = "deadLetter"
    rows: dict[str, list[tuple[int, int]]] = field(default_factory=lambda: {"r": [], "s": []})  # key, second

    def produce(self, name: str, partition: int, count: int, rng: random.Random) -> None:
        for _ in range(count):
            number, key, second = len(self.rows[name]), rng.randrange(8), rng.randrange(300)
            self.rows[name].append((key, second))
            at = f"2026-01-01T00:{second // 60:02d}:{second % 60:02d}Z"
            value = json.dumps({"k": key, "v": number, "at": at}) if name == "r" else f"{key},{number},{at}"
            self.broker.add(SourcePartition("rs".index(name), partition), value.encode())

    @property
    def query(self) -> Query:
        return compile_manifest(MANIFEST.format(out=self.folder / "out", begin=self.begin, bad=self.bad))

    def run(self, stop: Callable[[], bool] = lambda: False, follow: bool = False) -> Ending:
        def topics(query: Query, source: int) -> tuple[Broker, Callable[[Mapping[int, int]], Reading]]:
            return self.broker, lambda begins: Reading(self.broker, source, begins)

        options = Options(follow=follow, barrier_seconds=0.3, look_seconds=0.02)
        return Engine(make_plan(self.query), options, stop, lambda facts: None, topics=topics).run().ending

    def found(self) -> Counter[tuple[int, int]]:
        lines = (line for path in (self.folder / "out").glob("part-*") for line in path.read_text().splitlines())
        return Counter((row["rv"], row["sv"]) for row in map(json.loads, lines))

    def aside(self) -> list[dict[str, object]]:
        return [
            json.loads(line)
            for path in sorted((self.folder / "out" / "_dead").glob("part-*"))
            for line in path.read_text().splitlines()
        ]

    def wanted(self, first_left: int = 0) -> Counter[tuple[int, int]]:
        return Counter(
            (left, right)
            for left, (key, second) in enumerate(self.rows["r"])
            for right, (other, at) in enumerate(self.rows["s"])
            if left >= first_left and key == other and abs(second - at) <= 60
        )


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    made, rng = Bench(tmp_path), random.Random(9)
    for partition in range(3):
        made.produce("r", partition, 60, rng)
    made.produce("s", 0, 150, rng)
    return made


def test_a_run_reads_up_to_where_the_topics_end_and_is_done(bench: Bench) -> None:
    assert bench.run() is Ending.FINISHED
    assert bench.found() == bench.wanted()
    bench.produce("r", 0, 5, random.Random(1))
    assert bench.run() is Ending.NOTHING_TO_DO


def after(count: int) -> Callable[[], bool]:
    asked = itertools.count()
    return lambda: next(asked) >= count


def test_stopped_anywhere_it_goes_on_and_ends_where_the_topics_ended_at_first(bench: Bench) -> None:
    wanted, rng = bench.wanted(), random.Random(2)
    stops = 0
    while bench.run(stop=after(30 * (stops + 1))) is Ending.STOPPED:
        stops += 1
        bench.produce("r", 1, 3, rng)
        bench.produce("s", 0, 3, rng)
    assert stops
    assert bench.found() == wanted


def test_a_run_that_follows_takes_what_comes_and_partitions_that_are_added(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic_feed, "LOOK_S", 0.0)
    rng, phase = random.Random(3), itertools.count()

    def stop() -> bool:
        turn = next(phase)
        if turn == 30:
            bench.produce("s", 0, 20, rng)
            bench.produce("r", 3, 20, rng)
        time.sleep(0.002 * (turn >= 30))  # a slow engine: heartbeats of a source at its end wait for it at all times
        return turn > 60 and bench.found() == bench.wanted()

    assert bench.run(stop, follow=True) is Ending.STOPPED
    assert bench.found() == bench.wanted()
    bench.produce("r", 3, 5, rng)
    assert bench.run() is Ending.FINISHED
    assert bench.found() == bench.wanted(), "without following it ends where the topics end now"


def test_latest_is_chosen_once(bench: Bench) -> None:
    bench.begin = "latest"
    before = len(bench.rows["r"])
    assert bench.run(stop=lambda: True, follow=True) is Ending.STOPPED
    bench.produce("r", 0, 30, random.Random(4))
    assert bench.run() is Ending.FINISHED
    assert bench.found() == bench.wanted(before)


def test_bad_records_are_set_aside_with_their_place_or_stop_the_run(bench: Bench) -> None:
    bench.broker.add(SourcePartition(0, 2), b"bad", b'{"at": "2027-01-01"}')
    bench.bad = "fail"
    with pytest.raises(QueryError, match="r, partition 2, offset 120: no JSON"):
        bench.run()
    bench.bad = "deadLetter"
    assert bench.run() is Ending.FINISHED
    assert bench.found() == bench.wanted()
    aside = [(row["source"], row["partition"], row["offset"], row["raw"]) for row in bench.aside()]
    assert aside == [("r", 2, 120, "bad"), ("r", 2, 122, '{"at": "2027-01-01"}')]
    assert "maxFutureSkew" in str(bench.aside()[1]["reason"])


def test_what_a_run_is_about_is_kept(bench: Bench) -> None:
    known = spans_of(bench.query, 0, bench.broker, (), follow=False)
    assert known == tuple(Span(number, 0, 120) for number in range(3))
    bench.produce("r", 0, 5, random.Random(5))
    assert spans_of(bench.query, 0, bench.broker, known, follow=False) == known
    endless = spans_of(bench.query, 0, bench.broker, known, follow=True)
    assert endless == tuple(Span(number, 0, None) for number in range(3))
    assert spans_of(bench.query, 0, bench.broker, endless, follow=False)[0] == Span(0, 0, 130)


def test_a_partition_with_an_open_transaction_is_not_said_to_be_read_to_its_end(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("biclique.hosts.topic_feed.LOOK_S", 0.01)
    bench.broker.open, source = frozenset({SourcePartition(0, 1)}), 0

    def opened(begins: Mapping[int, int]) -> Reading:
        return Reading(bench.broker, source, begins)

    feed = TopicFeed(bench.query, source, bench.broker, opened, SourceState(), True, {}, 1, threading.Event())
    feed.start()
    beats, deadline = dict[int, int](), time.monotonic() + 30
    try:
        while len(beats) < 3:
            assert time.monotonic() < deadline
            for item in feed.take():
                if isinstance(item, Heartbeat):
                    beats[item.partition] = item.position
            time.sleep(0.001)
    finally:
        feed.close()
    assert beats[1] == UNREAD and min(beats[0], beats[2]) >= 0
