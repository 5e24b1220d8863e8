"""One joiner unit over Kafka and Redis, in this process: what its checkpoints cost, and how fast it replays.

Its partition is filled by dispatchers, in this process too. Then the unit handles it live, without checkpoints and with
them, each with a log of its own; and a unit that has lost its checkpoint rebuilds its state from the log. CPU time is
compared, not the clock's: a broker beside it takes its share of the machine in either case, at other moments.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from bench.data import SIDES
from bench.kafka.bed import Bed, Burst
from bench.kafka.blocks import BlockSource, blocks_of
from bench.kafka.queries import EQUALITY, PARTITIONS, data_of, manifest
from bench.kafka.tiers import TrialFailed
from biclique.hosts.perform import Performer
from biclique.hosts.shuffle.packing import dispatcher_of
from biclique.hosts.units.founding import found
from biclique.plan.make import make_plan
from biclique.plan.model import Plan
from biclique.plan.table import first_table
from biclique.ports.checkpoints import CheckpointStore
from biclique.ports.control_folder import ControlFolder
from biclique.ports.kafka_log import KafkaLog, KafkaSettings
from biclique.ports.kafka_sources import SourceTopics
from biclique.ports.memory import MemoryStore
from biclique.ports.outlets import Outlets
from biclique.ports.redis_store import RedisStore, connected
from biclique.ports.wire import Wire
from biclique.query.compile import compile_manifest
from biclique.routing.table import RoutingTable
from biclique.tiers.effects import Commit, Loop, Orders, PublishManifest, Rest
from biclique.tiers.loops import Watch, dispatcher_loop, joiner_loop
from biclique.tiers.progress import SourcePartition

LIMIT_S = 120.0
QUIET_RESTS = 50  # so many rests in a row: everything has been handled

_serials = count()


@dataclass(frozen=True)
class UnitLog:
    """A query's log with everything dispatched and nothing joined."""

    plan: Plan
    log: KafkaLog
    table: RoutingTable


def dispatched(bed: Bed, data: Path, rows: int) -> UnitLog:
    name = f"unit-{next(_serials)}"
    bed.create({f"{name}-{side}": PARTITIONS for side in (*SIDES, "out")})
    text = manifest(EQUALITY, name, bed.kafka.bootstrap)
    plan = make_plan(compile_manifest(text))
    log = KafkaLog(KafkaSettings(bed.client, name), Wire(plan), Outlets(plan.query))
    control = ControlFolder(bed.scratch / name)
    found(plan, log, control, SourceTopics(plan.query, dict.fromkeys(range(len(SIDES)), bed.client)), 1, 1)
    source, burst = BlockSource(text), Burst(bed)
    for partition, value, headers in blocks_of(source, data_of(data, EQUALITY, rows)[0]):
        burst.write_messages(f"{name}.shuffled", partition, [(value, headers)])
    burst.show()
    made = UnitLog(plan, log, first_table(plan))
    for number in range(plan.dispatchers):
        parts = [SourcePartition(s, p) for s in range(len(SIDES)) for p in range(PARTITIONS)]
        own = [part for part in parts if dispatcher_of(part, plan.dispatchers) == number]
        _run(made, dispatcher_loop(plan, number, own), MemoryStore(), until_quiet=True)
    # Each has signalled last above the other's epochs, so that the units' frontier comes to the end.
    for number in range(plan.dispatchers):
        _run(made, dispatcher_loop(plan, number, []), MemoryStore(), commits=1)
    return made


def handled(made: UnitLog, store: CheckpointStore, checkpoints: int, of: int) -> float:
    """CPU seconds in which the unit of the left side comes to the end of its log. `checkpoints`: how many, at equal
    distances of `of` rows."""
    watch, due = Watch(), [of * (n + 1) // (checkpoints + 1) for n in range(checkpoints)]

    def orders() -> Orders:
        stored = watch.joiner.counters.stored if watch.joiner else 0
        return Orders(seal=bool(due) and stored >= due[0])

    def published() -> None:
        due.pop(0)

    unit = made.table.units()[0]
    began = time.process_time()
    _run(made, joiner_loop(made.plan, unit, watch=watch), store, orders=orders, published=published, until_quiet=True)
    spent = time.process_time() - began
    if due:
        raise TrialFailed(f"{len(due)} checkpoints of {checkpoints} were not made")
    return spent


def replayed(made: UnitLog) -> tuple[float, int]:
    """Wall seconds from the fence to the last row of state rebuilt from the log alone, and the rows."""
    watch, ended = Watch(), [0.0]
    began = time.perf_counter()

    def orders() -> Orders:
        if watch.joiner is not None and not watch.joiner.replaying:
            ended[0] = ended[0] or time.perf_counter()
        return Orders(stop=bool(ended[0]))

    unit = made.table.units()[0]
    _run(made, joiner_loop(made.plan, unit, watch=watch), MemoryStore(), orders=orders)
    assert watch.joiner is not None
    return ended[0] - began, sum(state.rows for state in watch.joiner.states.values())


def redis_store(bed: Bed) -> CheckpointStore:
    return RedisStore(connected(bed.redis.url), f"unit-{next(_serials)}")


def _run(
    made: UnitLog,
    loop: Loop,
    store: CheckpointStore,
    orders: Callable[[], Orders] = Orders,
    published: Callable[[], None] = lambda: None,
    commits: int | None = None,
    until_quiet: bool = False,
) -> None:
    client = made.log.client()
    performer = Performer(
        client,
        store,
        table=lambda version: made.table,
        orders=orders,
        clock_ms=lambda: time.time_ns() // 1_000_000,
        rest=lambda milliseconds: time.sleep(milliseconds / 1000),
    )
    deadline, rests = time.monotonic() + LIMIT_S, 0
    try:
        effect = next(loop)
        while time.monotonic() < deadline:
            answer = performer(effect)
            if isinstance(effect, PublishManifest):
                published()
            if isinstance(effect, Commit):
                rests = 0
                if commits is not None:
                    commits -= 1
                    if not commits:
                        return
            elif isinstance(effect, Rest):
                rests += 1
                if until_quiet and rests == QUIET_RESTS:
                    return
            effect = loop.send(answer)
        raise TrialFailed(f"a unit was not done after {LIMIT_S:.0f} s")
    except StopIteration:
        return
    finally:
        client.close()
