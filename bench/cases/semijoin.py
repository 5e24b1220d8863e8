"""What travels between dispatcher and joiners, whole and keys first: counted in bytes, so it holds on any machine.

The tiers run in this process over a log that counts. Every block, signal and source block is measured as the message
that Kafka would carry, headers included; a unit's fetches of payload count with every block that it reads. Two
relations of `ROWS` tuples with a payload of 1 kB, 4 units a side, routed by hash; source blocks are cut as the shuffler
does (plan/semijoin.py). A tuple of each side finds a partner with probability `share`, and partners come at random
distances.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from bench.cases import Measured, Scale
from biclique.core.rows import Vector
from biclique.hosts.perform import Performer, start_unit
from biclique.hosts.scheduler import Running, run_round
from biclique.hosts.shuffle.cutting import bytes_max_of, cut
from biclique.plan.make import make_plan
from biclique.plan.model import Plan
from biclique.plan.semijoin import Shipped, keys_first, whole
from biclique.plan.table import first_table
from biclique.ports.memory import MemoryLog, MemoryStore
from biclique.ports.wire import Message, Wire
from biclique.query.compile import compile_manifest
from biclique.tiers.dispatcher import HEARTBEAT_MS, dispatcher_producer
from biclique.tiers.effects import Commit, Effect, Fetched, Orders, Read
from biclique.tiers.inbox import joiner_producer
from biclique.tiers.loops import dispatcher_loop, joiner_loop
from biclique.tiers.messages import Address, Record, SourceBlock, Topic, unit_address
from biclique.tiers.progress import SourcePartition
from biclique.tiers.shuffler import Shuffler

PAYLOAD, UNITS, STEP_ROWS = 1_000, 4, 500
SHARES = (0.0, 0.01, 0.03, 0.1, 0.2, 0.3, 0.45, 0.6, 0.8, 1.0)
KEYS_BYTES = 8 + 8 + 8 + 8 + 8 + 4 + 4  # stamp, id, time, key, place, size, and where its text would begin
MANIFEST = """
apiVersion: biclique.dev/v1alpha1
kind: JoinQuery
metadata: {name: semijoin}
spec:
  sources:
    - {name: r, schema: "k BIGINT, t STRING", kafka: {bootstrapServers: "b:1", topic: r, format: json}}
    - {name: s, schema: "k BIGINT, t STRING", kafka: {bootstrapServers: "b:1", topic: s, format: json}}
  sql: "SELECT r.t, s.t AS u FROM r JOIN s ON r.k = s.k WITHIN 1 HOURS"
  plan: {strategy: hash, transport: TRANSPORT}
  joiners: {replicas: 4}
  topics: {partitions: 1}
  output: {kafka: {bootstrapServers: "b:1", topic: out, format: json}}
"""


def fewer_bytes(scale: Scale) -> Measured:
    """Whole over keys first, at one tuple in a hundred; the points: keys first over whole, by the share that match."""
    rows = scale.of(8_000, 2_000)
    tuples = travelled("tuples", rows, 0.01)
    keys = travelled("semijoin", rows, 0.01)
    points = tuple((share, ratio(rows, share)) for share in SHARES)
    per_tuple = {name: count / (2 * rows) for name, count in keys.items()}
    note = (
        f"{sum(tuples.values()) / (2 * rows):,.0f} bytes a tuple whole, {sum(per_tuple.values()):,.0f} keys first: "
        f"{per_tuple['sent']:,.0f} sent and {per_tuple['fetched']:,.0f} fetched"
    )
    return Measured(sum(tuples.values()) / sum(keys.values()), points, note)


def crossover(scale: Scale) -> Measured:
    """The share of matching tuples from which on whole tuples are fewer bytes, over the predicted one; the points:
    what the formulas say of keys first over whole."""
    rows = scale.of(8_000, 2_000)
    measured = crossing([(share, ratio(rows, share)) for share in SHARES])
    block_rows = rows_of_a_block()
    points = tuple((share, expected(share, block_rows)) for share in SHARES)
    predicted = crossing(points)
    alone = crossing([(share, expected(share, 1.0)) for share in SHARES])
    note = f"at {measured:.0%} of tuples, predicted {predicted:.0%}; fetched tuple by tuple it would be {alone:.0%}"
    return Measured(measured / predicted, points, note)


def rows_of_a_block() -> float:
    """As the shuffler cuts them."""
    world = _World(make_plan(compile_manifest(MANIFEST.replace("TRANSPORT", "semijoin"))))
    return STEP_ROWS / len(world.cut(0, 0, np.arange(STEP_ROWS)))


def ratio(rows: int, share: float) -> float:
    return sum(travelled("semijoin", rows, share).values()) / sum(travelled("tuples", rows, share).values())


def expected(share: float, block_rows: float) -> float:
    """(2') over (1). A pair is found once, by its newer tuple: of the tuples that match, half are new when they are
    found, and the others stored."""
    tuple_bytes = KEYS_BYTES - 12 + PAYLOAD
    shipped = Shipped(
        rate=1.0,
        rows=1.0,
        other_rate=1.0,
        other_rows=1.0,
        share=share / 2,
        whole_bytes=tuple_bytes,
        keys_bytes=KEYS_BYTES,
        units=2.0,
        fetching=2.0 * UNITS,
        block_rows=block_rows,
    )
    return keys_first(shipped) / whole(shipped)


def crossing(points: Sequence[tuple[float, float]]) -> float:
    for (x0, y0), (x1, y1) in pairwise(points):
        if y0 < 1 <= y1:
            return x0 + (x1 - x0) * (1 - y0) / (y1 - y0)
    return 1.0


def travelled(transport: str, rows: int, share: float) -> Counter[str]:
    """Bytes: `sent` to units, `fetched` by them."""
    plan = make_plan(compile_manifest(MANIFEST.replace("TRANSPORT", transport)))
    world = _World(plan)
    rng = np.random.default_rng(7)
    matching = rng.random(rows) < share
    keys = [np.arange(rows), np.where(matching, np.arange(rows), rows + np.arange(rows))]
    keys[1] = _shuffled_within(keys[1], rng, rows // 4)
    for first in range(0, rows, STEP_ROWS):
        for source in (0, 1):
            world.feed(source, first, keys[source][first : first + STEP_ROWS])
        world.run()
    world.finish()
    assert world.results == int(matching.sum()), f"{world.results} pairs"
    return world.bytes


def _shuffled_within(keys: np.ndarray[Any, Any], rng: np.random.Generator, distance: int) -> np.ndarray[Any, Any]:
    return keys[np.argsort(np.arange(len(keys)) + rng.integers(0, distance, len(keys)), kind="stable")]


class _World:
    def __init__(self, plan: Plan) -> None:
        self._plan, self._wire, self._log, self._now = plan, Wire(plan), MemoryLog(), 1_000
        self.bytes: Counter[str] = Counter(sent=0, fetched=0)
        self.results = 0
        self._shufflers = [Shuffler(plan.query, source) for source in (0, 1)]
        self._table = first_table(plan)
        client = self._log.client()
        loops = {dispatcher_producer(0): dispatcher_loop(plan, 0, [SourcePartition(0, 0), SourcePartition(1, 0)])}
        for unit in self._table.units():
            start_unit(client, unit, self._table, self._log.written_to(unit_address(unit)))
            loops[joiner_producer(unit)] = joiner_loop(plan, unit)
        self._loops = [
            Running(str(owner), loop, self._counting(owner.tier, self._performer())) for owner, loop in loops.items()
        ]

    def _performer(self) -> Performer:
        return Performer(
            self._log.client(),
            MemoryStore(),
            table=lambda version: self._table,
            orders=Orders,
            clock_ms=lambda: self._now,
            rest=lambda milliseconds: None,
        )

    def _counting(self, tier: str, perform: Performer) -> Any:
        def counting(effect: Effect) -> object:
            answer = perform(effect)
            if isinstance(effect, Commit):
                for address, record in effect.sends:
                    if address.topic is Topic.UNIT:
                        self.bytes["sent"] += self._size(record)
                    elif address.topic is Topic.OUTPUT:
                        self.results += len(record.times)  # type: ignore[union-attr]
            elif isinstance(effect, Read) and effect.address.topic is Topic.SHUFFLED and tier == "joiner":
                assert isinstance(answer, Fetched)
                self.bytes["fetched"] += sum(self._size(record) for _, record in answer.records)
            return answer

        return counting

    def _size(self, record: Record) -> int:
        message: Message = self._wire.encode(record)
        return len(message.value) + sum(len(name) + len(value) for name, value in message.headers.items())

    def feed(self, source: int, first: int, keys: np.ndarray[Any, Any]) -> None:
        self._log.append(Address(Topic.SHUFFLED, 0), self.cut(source, first, keys))

    def cut(self, source: int, first: int, keys: np.ndarray[Any, Any]) -> list[SourceBlock]:
        texts = pa.array(["x" * PAYLOAD] * len(keys), pa.string())
        offsets = np.arange(first, first + len(keys))
        columns = (Vector(keys.astype(np.int64)), Vector(texts))
        whole_block: SourceBlock = self._shufflers[source].pack(0, first - 1, offsets, offsets * 1_000, columns)
        most = bytes_max_of(whole_block, self._plan.fetched_from(source))
        return [block for block, _ in cut(whole_block, self._wire.encode, bytes_max=most)]

    def run(self) -> None:
        self._now += 20
        while run_round(self._loops):
            pass

    def finish(self) -> None:
        for _ in range(3):
            self._now += HEARTBEAT_MS
            self.run()
