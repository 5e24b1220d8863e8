"""The tiers' loops over a real Kafka, keys first: payload is fetched from shuffled block by block, here and there, and
the results are those of whole tuples."""

from __future__ import annotations

import random
import time
import uuid
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from biclique.core.rows import Vector
from biclique.hosts.perform import Performer, start_unit
from biclique.plan.make import make_plan
from biclique.plan.table import first_table
from biclique.ports.kafka_log import KafkaLog, KafkaSettings
from biclique.ports.kafka_topics import ensure_topics, topics_of
from biclique.ports.memory import MemoryStore
from biclique.ports.wire import Wire
from biclique.query.compile import compile_manifest
from biclique.tiers.dispatcher import dispatcher_producer
from biclique.tiers.effects import Commit, Effect, Loop, Orders, Read
from biclique.tiers.joiner_limits import JoinerLimits
from biclique.tiers.loops import dispatcher_loop, joiner_loop
from biclique.tiers.messages import Address, Results, Topic
from biclique.tiers.progress import DispatcherProgress, SourcePartition
from biclique.tiers.shuffler import Shuffler
from infra.kafka_server import KafkaServer
from tests.unit.tiers.on_topics import on_topics

SQL, SCHEMA = "SELECT r.t, s.t AS u FROM r JOIN s ON r.k = s.k WITHIN 1 HOURS", "k BIGINT, t STRING"
BLOCKS, ROWS, SECONDS = 12, 20, 90.0


def joined(server: KafkaServer, transport: str, cache: int) -> tuple[Counter[tuple[str, str]], int]:
    """The pairs, and how many records of shuffled the units have read."""
    more = f"plan: {{transport: {transport}}}", "joiners: {replicas: 2}", "topics: {partitions: 1}"
    plan = make_plan(compile_manifest(on_topics(SQL, *more, r=SCHEMA, s=SCHEMA)))
    client, prefix = {"bootstrap.servers": server.bootstrap}, f"payload-{uuid.uuid4()}"
    ensure_topics(client, topics_of(plan, prefix, 2), 1)
    log, table = KafkaLog(KafkaSettings(client, prefix), Wire(plan)), first_table(plan)
    _feed(log, plan)
    found: Counter[tuple[str, str]] = Counter()
    fetched = [0]
    loops = []
    starter = log.client()
    start = dispatcher_producer(0)
    starter.fence(start)
    starter.commit(Commit(start, start, (), DispatcherProgress()))
    partitions = [SourcePartition(0, 0), SourcePartition(1, 0)]
    loops.append(_driver(log, plan, dispatcher_loop(plan, 0, partitions), found, None))
    for unit in table.units():
        start_unit(starter, unit, table, 0)
        limits = JoinerLimits(payload_bytes_max=cache)
        loops.append(_driver(log, plan, joiner_loop(plan, unit, limits), found, fetched))
    deadline, wanted = time.monotonic() + SECONDS, sum(_pairs().values())
    while found.total() < wanted and time.monotonic() < deadline:
        for step in loops:
            step()
    for step in loops:
        step()
    starter.close()
    return found, fetched[0]


def _rows(source: int) -> list[tuple[int, str]]:
    rng = random.Random(source)
    return [(rng.randrange(200), f"{source}/{n}" + "x" * 500) for n in range(BLOCKS * ROWS)]


def _pairs() -> Counter[tuple[str, str]]:
    left, right = _rows(0), _rows(1)
    return Counter((t, u) for k, t in left for other, u in right if k == other)


def _feed(log: KafkaLog, plan: Any) -> None:
    for first in range(0, BLOCKS * ROWS, ROWS):
        for source in (0, 1):
            part = _rows(source)[first : first + ROWS]
            columns = (
                Vector(np.array([k for k, _ in part], np.int64)),
                Vector(pa.array([text for _, text in part], pa.string())),
            )
            offsets = np.arange(first, first + ROWS)
            block = Shuffler(plan.query, source).pack(0, first - 1, offsets, offsets * 1_000, columns)
            log.append(Address(Topic.SHUFFLED, 0), [block])


def _driver(
    log: KafkaLog, plan: Any, loop: Loop, found: Counter[tuple[str, str]], fetched: list[int] | None
) -> Callable[[], None]:
    """Some effects of a loop. Results are taken from what it commits: no output topic is in the way."""
    client = log.client()
    performer = Performer(
        client,
        MemoryStore(),
        table=lambda version: first_table(plan),
        orders=Orders,
        clock_ms=lambda: time.time_ns() // 1_000_000,
        rest=lambda milliseconds: None,
    )
    state: dict[str, Any] = {"effect": None, "answer": None}

    def step() -> None:
        for _ in range(30):
            effect: Effect = loop.send(state["answer"])
            if isinstance(effect, Commit):
                results = [record for _, record in effect.sends if isinstance(record, Results)]
                kept = tuple(send for send in effect.sends if not isinstance(send[1], Results))
                answer = performer(Commit(effect.producer, effect.owner, kept, effect.progress))
                for record in results:
                    found.update(zip(*(pa.array(column.values).to_pylist() for column in record.columns), strict=True))
            else:
                answer = performer(effect)
            if isinstance(effect, Read) and effect.address.topic is Topic.SHUFFLED and fetched is not None:
                fetched[0] += len(answer.records)
            state["answer"] = answer

    return step


@pytest.mark.slow
@pytest.mark.long
def test_payload_is_fetched_and_the_results_are_those_of_whole_tuples(kafka_server: KafkaServer) -> None:
    wanted = _pairs()
    whole, nothing = joined(kafka_server, "tuples", 0)
    assert whole == wanted and nothing == 0
    keys, fetched = joined(kafka_server, "semijoin", 0)
    assert keys == wanted and fetched > BLOCKS
    cached, once = joined(kafka_server, "semijoin", 64 << 20)
    assert cached == wanted and BLOCKS < once <= fetched
