"""One joiner unit over Kafka and Redis, in this process: what its checkpoints cost, and how fast it replays.

Its partition is filled by dispatchers, in this process too. Then the unit handles it live, with a checkpoint after so
many rows each; and a unit that has lost its checkpoint rebuilds its state from the log.

What checkpoints cost is not the difference of two runs, which is a small one of two large numbers: the CPU time between
the effects of a checkpoint is counted, and that of Redis.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import redis

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
from biclique.tiers.effects import Commit, Effect, End, Loop, Orders, PublishManifest, PutBlob
from biclique.tiers.loops import Watch, dispatcher_loop, joiner_loop
from biclique.tiers.progress import SourcePartition

LIMIT_S = 120.0

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
    found(plan, log, control, SourceTopics(plan.query, dict.fromkeys(range(len(SIDES)), bed.client)), 1)
    source, burst, written = BlockSource(text), Burst(bed), Counter[int]()
    for partition, value, headers in blocks_of(source, data_of(data, EQUALITY, rows)[0]):
        burst.write_messages(f"{name}.shuffled", partition, [(value, headers)])
        written[partition] += 1
    burst.show()
    made = UnitLog(plan, log, first_table(plan))
    for number in range(plan.dispatchers):
        parts = [SourcePartition(s, p) for s in range(len(SIDES)) for p in range(PARTITIONS)]
        own = [part for part in parts if dispatcher_of(part, plan.dispatchers) == number]
        _dispatch(made, number, own, written[number])
    # Each has signalled last above the other's epochs, so that the units' frontier comes to the end.
    for number in range(plan.dispatchers):
        _run(made, dispatcher_loop(plan, number, []), MemoryStore(), until=lambda effect: isinstance(effect, Commit))
    return made


def _dispatch(made: UnitLog, number: int, partitions: list[SourcePartition], blocks: int) -> None:
    """`blocks`: all that its partition of shuffled holds, from offset 0 on."""
    watch = Watch()

    def all_sent(effect: Effect) -> bool:
        return watch.dispatcher is not None and watch.dispatcher.progress.offset >= blocks

    _run(made, dispatcher_loop(made.plan, number, partitions, watch=watch), MemoryStore(), until=all_sent)


@dataclass(frozen=True)
class Handled:
    """CPU seconds: of the unit in all, of its checkpoints within it, of Redis for them."""

    unit: float
    checkpoints: float
    redis: float

    @property
    def sealing(self) -> float:
        return self.checkpoints + self.redis

    @property
    def share(self) -> float:
        return self.sealing / (self.unit + self.redis)


def handled(bed: Bed, made: UnitLog, checkpoints: int, each: int) -> Handled:
    """The unit of the left side stores and probes all of its log: so many checkpoints, one after each so many rows."""
    watch, due = Watch(), [each * (n + 1) for n in range(checkpoints)]
    server = redis.Redis.from_url(bed.redis.url)
    sealing = _Sealing()

    def orders() -> Orders:
        stored = watch.joiner.counters.stored if watch.joiner else 0
        return Orders(seal=len(due) > sealing.published and stored >= due[sealing.published])

    def done(effect: Effect) -> bool:
        sealing.performed(effect)
        probed = watch.joiner.counters.probed if watch.joiner else 0
        return probed == checkpoints * each and sealing.published == checkpoints

    store = RedisStore(connected(bed.redis.url), f"unit-{next(_serials)}")
    loop = joiner_loop(made.plan, made.table.units()[0], watch=watch)
    redis_before, began = _cpu_of(server), time.process_time()
    _run(made, loop, store, orders=orders, until=done)
    spent, redis_spent = time.process_time() - began, _cpu_of(server) - redis_before
    return Handled(spent, sealing.spent, redis_spent)


def _cpu_of(server: redis.Redis) -> float:
    said = server.info("cpu")
    return float(said["used_cpu_user"]) + float(said["used_cpu_sys"])


@dataclass
class _Sealing:
    """What a checkpoint takes of the loop's thread: from the effect before a blob until the blob is put, and the
    same of the manifest: what makes them lies in between."""

    spent: float = 0.0
    published: int = 0
    _ended: float = field(default_factory=time.thread_time)

    def performed(self, effect: Effect) -> None:
        now = time.thread_time()
        if isinstance(effect, PutBlob | PublishManifest):
            self.spent += now - self._ended
        self.published += isinstance(effect, PublishManifest)
        self._ended = now


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


def _run(
    made: UnitLog,
    loop: Loop,
    store: CheckpointStore,
    orders: Callable[[], Orders] = Orders,
    until: Callable[[Effect], bool] = lambda effect: False,
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
    deadline = time.monotonic() + LIMIT_S
    try:
        effect = next(loop)
        while time.monotonic() < deadline:
            answer = performer(effect)
            if until(effect):
                return
            effect = loop.send(answer)
        raise TrialFailed(f"a unit was not done after {LIMIT_S:.0f} s")
    except StopIteration as stop:
        if stop.value is not End.STOPPED:
            raise TrialFailed(f"a unit ended: {stop.value}") from None
    finally:
        client.close()
