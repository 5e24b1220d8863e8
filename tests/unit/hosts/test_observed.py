"""What telemetry sees of the tiers at work: one trace from a source's record to the results, and measurements that
agree with what was put in."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from biclique.hosts.units.following import DispatcherFollowing
from biclique.hosts.units.observed import Clocks
from biclique.hosts.units.observing import observing
from biclique.plan.make import make_plan
from biclique.plan.model import Plan
from biclique.ports.memory import MemoryLog, MemoryStore
from biclique.ports.metrics import METRICS, Kind
from biclique.ports.telemetry import Identity
from biclique.ports.telemetry_memory import KeptSpan, MemoryTelemetry
from biclique.ports.trace_context import Context, context_of
from biclique.query.compile import compile_manifest
from biclique.tiers.effects import Commit, Effect, Fence, ReadProgress
from biclique.tiers.loops import Watch
from biclique.tiers.messages import Address, LateTuples, Producer, Results, SourceBlock, Topic
from biclique.tiers.progress import DispatcherProgress
from infra.collector import Collector
from tests.model.observed_tiers import ObservedTiers
from tests.unit.tiers.building import plan, source_block
from tests.unit.tiers.on_topics import on_topics

USER = Context(0xABC, 0xDEF, True)
OTHER = Context(0x123, 0x456, True)
JOIN = "SELECT r.v AS a, s.v AS b FROM r JOIN s ON r.k = s.k"
COUNT = "SELECT r.k, COUNT(*) AS n FROM r JOIN s ON r.k = s.k GROUP BY r.k"
CHAIN = "SELECT r.v AS a, t.v AS b FROM r JOIN s ON r.k = s.k JOIN t ON s.k = t.k"
SCHEMA = "k INT, v BIGINT"
SEMIJOIN = on_topics(JOIN, "plan: {transport: semijoin}", r=SCHEMA, s=SCHEMA)
TICK_NS = 100_000_000
Where = tuple[str, str, str]  # tier, unit, span


@dataclass
class World:
    plan: Plan
    log: MemoryLog = field(default_factory=MemoryLog)
    store: MemoryStore = field(default_factory=MemoryStore)
    ids: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    made: list[MemoryTelemetry] = field(default_factory=list)

    def __post_init__(self) -> None:
        steady = itertools.count(step=TICK_NS)  # a look at the facts comes every few effects
        self.clocks = Clocks(lambda: next(steady), time.time_ns)

    def telemetry(self, owner: Producer) -> MemoryTelemetry:
        self.made.append(MemoryTelemetry(Identity("q", *owner, 1), lambda: False, self.ids))
        return self.made[-1]

    def tiers(self, attempt: int = 1) -> ObservedTiers:
        return ObservedTiers(self.plan, self.log, self.store, self.telemetry, attempt, clocks=self.clocks)

    def feed(self, block: SourceBlock, trace: Context | None = None) -> None:
        followed = replace(block, trace="" if trace is None else str(trace))
        self.log.append(Address(Topic.SHUFFLED, block.source % self.plan.dispatchers), [followed])

    def spans(self) -> list[KeptSpan]:
        return [span for one in self.made for span in one.spans]

    def trace(self, of: Context) -> dict[Where, KeptSpan]:
        return {(s.tier, s.unit, s.name): s for s in self.spans() if s.trace_id == of.trace_id}

    def results(self) -> list[Results]:
        found = []
        for unit in (*map(str, self.tiers_units()), *(f"merger-{n}" for n in range(self.plan.mergers))):
            found += [r for _, r in self.log.client().read(Address(Topic.OUTPUT, unit), 0, 1000).records]
        return [record for record in found if isinstance(record, Results)]

    def tiers_units(self) -> list[object]:
        from biclique.plan.table import first_table

        return [unit._replace(generation=0) for unit in first_table(self.plan).units()]


def block(source: int, offsets: list[int], predecessor: int = -1, fields: int = 2) -> SourceBlock:
    return source_block(offsets, source=source, predecessor=predecessor, fields=fields)


def parents_of(trace: dict[Where, KeptSpan], user: Context) -> dict[Where, Where | None]:
    """Of each span the one above it; None: the user's."""
    by_id = {span.span_id: where for where, span in trace.items()}
    return {where: None if span.parent == user.span_id else by_id[span.parent] for where, span in trace.items()}


def test_one_trace_from_the_record_to_the_result() -> None:
    world = World(plan(JOIN))
    tiers = world.tiers()
    tiers.settle()
    world.feed(block(1, [0, 1]))
    tiers.settle()
    world.feed(block(0, [0, 1]), USER)
    tiers.settle()
    dispatch, stored, probed = ("dispatcher", "0", "dispatch"), ("joiner", "0L0.0", "join"), ("joiner", "0R0.0", "join")
    assert parents_of(world.trace(USER), USER) == {
        dispatch: None,
        ("dispatcher", "0", "read"): dispatch,
        ("dispatcher", "0", "route"): dispatch,
        ("dispatcher", "0", "commit"): dispatch,
        stored: dispatch,
        ("joiner", "0L0.0", "read"): stored,
        ("joiner", "0L0.0", "store"): stored,
        ("joiner", "0L0.0", "commit"): stored,
        probed: dispatch,
        ("joiner", "0R0.0", "read"): probed,
        ("joiner", "0R0.0", "probe"): probed,
        ("joiner", "0R0.0", "emit"): probed,
        ("joiner", "0R0.0", "commit"): probed,
    }
    (result,) = world.results()
    assert len(result.times) == 4
    assert context_of(result.trace) == Context(USER.trace_id, world.trace(USER)[probed].span_id, True)
    for where, span in world.trace(USER).items():
        above = parents_of(world.trace(USER), USER)[where]
        if above is not None and above[:2] == where[:2]:
            outer = world.trace(USER)[above]
            assert outer.started_ns <= span.started_ns <= span.ended_ns <= outer.ended_ns


def test_a_stored_tuple_is_not_what_caused_a_result() -> None:
    world = World(plan(JOIN))
    tiers = world.tiers()
    world.feed(block(1, [0, 1]), USER)
    tiers.settle()
    world.feed(block(0, [0, 1]))
    tiers.settle()
    assert [result.trace for result in world.results()] == [""]
    assert ("joiner", "0R0.0", "store") in world.trace(USER)
    assert ("joiner", "0R0.0", "emit") not in world.trace(USER)


def test_blocks_that_merge_keep_a_trace_each_and_link_to_each_other() -> None:
    world = World(plan(JOIN))
    tiers = world.tiers()
    tiers.settle()
    world.feed(block(1, [0]))
    tiers.settle()
    world.feed(block(0, [0]), USER)
    world.feed(block(0, [1], 0), OTHER)
    tiers.settle()
    probing = ("joiner", "0R0.0", "join")
    ours, theirs = world.trace(USER)[probing], world.trace(OTHER)[probing]
    above = {one: {s.span_id for s in world.trace(one).values() if s.name == "dispatch"} for one in (USER, OTHER)}
    assert set(ours.links) == above[OTHER] and set(theirs.links) == above[USER]
    (result,) = world.results()
    context = context_of(result.trace)
    assert context is not None and context.trace_id == USER.trace_id
    # A block of a turn that took two source blocks goes by the one that its tuples came from.
    assert ours.parent in above[USER] and theirs.parent in above[OTHER]


@pytest.mark.parametrize(("sql", "sources", "last"), [(COUNT, "rs", "merge"), (CHAIN, "rst", "join")])
def test_through_partial_results(sql: str, sources: str, last: str) -> None:
    world = World(plan(sql, sources))
    fields = {"rs": (1, 1), "rst": (2, 1, 2)}[sources]
    tiers = world.tiers()
    tiers.settle()
    for source in range(1, len(sources)):
        world.feed(block(source, [0], fields=fields[source]))
        tiers.settle()
    world.feed(block(0, [0], fields=fields[0]), USER)
    tiers.settle()
    (result,) = world.results()
    found = context_of(result.trace)
    assert found is not None and found.trace_id == USER.trace_id
    spans = {span.span_id: span for span in world.spans()}
    chain, at = [], spans[found.span_id]
    while True:
        chain.append(at.name)
        if at.parent == USER.span_id:
            break
        at = spans[at.parent]
    assert chain == [last, "join", "dispatch"]


def test_what_nobody_follows_leaves_no_span() -> None:
    world = World(plan(JOIN))
    tiers = world.tiers()
    world.feed(block(1, [0]))
    world.feed(block(0, [0]), USER._replace(sampled=False))
    tiers.settle()
    assert {span.name for span in world.spans()} <= {"restore", "replay", "fence", "progress", "manifests"}
    assert [result.trace for result in world.results()] == [""]


def test_a_restart_follows_nothing_twice_and_tells_what_it_restored() -> None:
    world = World(plan(JOIN))
    tiers = world.tiers()
    world.feed(block(1, [0]), USER)
    tiers.settle()
    tiers.seal()
    world.feed(block(1, [1], 0), USER)
    tiers.settle()
    before = len([span for span in world.spans() if span.name == "join"])
    world.tiers(attempt=2).settle()
    assert len([span for span in world.spans() if span.name == "join"]) == before
    checkpoints = [span for span in world.spans() if span.name == "checkpoint"]
    assert {span.unit for span in checkpoints} == {"0L0.0", "0R0.0"}
    assert max(span.attributes["biclique.bytes"] for span in checkpoints) > 0  # type: ignore[type-var]
    restored = [span for span in world.spans() if span.unit == "0R0.0" and span.name == "restore"]
    replayed = [span for span in world.spans() if span.unit == "0R0.0" and span.name == "replay"]
    assert len(restored) == len(replayed) == 2, "once a start"
    assert [span.parent for span in replayed] == [span.span_id for span in restored]
    blobs = [span for span in world.spans() if span.name == "blob"]
    assert {span.parent for span in blobs} == {restored[1].span_id}


def test_measurements_agree_with_what_was_put_in() -> None:
    world = World(plan(JOIN))
    tiers = world.tiers()
    tiers.settle()
    world.feed(source_block([0, 1, 2, 3], source=1, fields=2, filtered=[1], dead=[2]))
    tiers.settle()
    world.feed(block(0, [0, 1]))
    tiers.settle()
    tiers.seal()
    tiers.settle()
    seen: dict[str, float] = {}
    names = set()
    for one in world.made:
        names |= {name for name, _ in (*one.counts, *one.recorded)}
        for (name, attributes), value in one.shown().items():
            names.add(name)
            told = dict(attributes)
            seen[f"{name} {one.identity.unit} {' '.join(str(v) for _, v in sorted(told.items()))}".strip()] = value
    assert seen["biclique.tuples 1 good s"] == 2
    assert seen["biclique.tuples 1 filtered s"] == 1
    assert seen["biclique.tuples 1 dead s"] == 1
    assert seen["biclique.tuples 0 good r"] == 2
    assert seen["biclique.matches 0R0.0"] == 4
    assert seen["biclique.tuples.stored 0R0.0"] == 2
    assert seen["biclique.state.rows 0R0.0 right"] == 2
    assert seen["biclique.state.size 0R0.0 right"] > 0
    assert seen["biclique.log.lag 0R0.0"] == 0
    assert seen["biclique.restarts 0R0.0"] == 0
    assert 0 <= seen["biclique.load 0R0.0"] <= 1
    assert seen["biclique.checkpoint.size 0R0.0"] > 0
    assert sum(one.counts.get(("biclique.results", ()), 0) for one in world.made) == 4
    names.add("biclique.fetch.duration")  # of semijoin transport: see below
    joiner = {m.name for m in METRICS if "joiner" in m.tiers} | {m.name for m in METRICS if "dispatcher" in m.tiers}
    assert names == joiner, "each metric of these tiers is told, and no other"


def test_every_metric_of_a_merger_is_told() -> None:
    world = World(plan(COUNT))
    tiers = world.tiers()
    tiers.settle()
    world.feed(block(1, [0], fields=1))
    world.feed(block(0, [0], fields=1))
    tiers.settle()
    tiers.seal()
    tiers.settle()
    one = next(made for made in world.made if made.identity.tier == "merger")
    shown = {name for name, _ in one.shown()}
    told = {name for name, _ in (*one.counts, *one.recorded)}
    assert shown | told == {metric.name for metric in METRICS if "merger" in metric.tiers}
    kinds = {metric.name: metric.kind for metric in METRICS}
    assert {kinds[name] for name in shown} == {Kind.TOTAL, Kind.GAUGE}


class FullStore(MemoryStore):
    """Takes no blob."""

    def put(self, name: str, data: bytes) -> bool:
        return False


def test_a_checkpoint_that_its_store_does_not_take_is_seen_to_fail() -> None:
    world = World(plan(JOIN), store=FullStore())
    tiers = world.tiers()
    world.feed(block(1, [0]))
    tiers.settle()
    tiers.ask_to_seal()
    tiers.settle(1)
    failures = [span.failure for span in world.spans() if span.name == "checkpoint" and span.unit == "0R0.0"]
    assert failures[0] == "the store cannot be reached, or takes nothing"
    assert "" not in failures
    shown = next(made for made in world.made if made.identity.unit == "0R0.0").shown()
    assert shown["biclique.checkpoint.size", ()] == 0


def test_payload_that_is_fetched_is_seen() -> None:
    world = World(make_plan(compile_manifest(SEMIJOIN)))
    tiers = world.tiers()
    tiers.settle()
    world.feed(block(1, [0, 1]))
    tiers.settle()
    world.feed(block(0, [0, 1]), USER)
    tiers.settle()
    assert sum(len(result.times) for result in world.results()) == 4
    probing = next(made for made in world.made if made.identity.unit == "0R0.0")
    (fetching,) = probing.recorded["biclique.fetch.duration", ()]
    assert fetching > 0
    shown = probing.shown()
    assert shown["biclique.payload.read", ()] > 0 and shown["biclique.payload.io", ()] > 0
    trace = world.trace(USER)
    fetch = trace["joiner", "0R0.0", "fetch"]
    assert fetch.parent == trace["joiner", "0R0.0", "join"].span_id


def test_a_block_that_is_read_with_others_waits_for_its_own_turn() -> None:
    """A dispatcher cuts what it has read into turns: each followed block is told of in the one that took it."""
    telemetry = MemoryTelemetry(Identity("q", "dispatcher", "0", 1))
    following = DispatcherFollowing(telemetry, plan(JOIN))
    blocks = [replace(block(0, [n], n - 1), trace=str(context)) for n, context in enumerate((USER, OTHER))]
    following.read(enumerate(blocks), 1, 2, -1)
    me = Producer("dispatcher", "0")
    for taken, context in ((1, USER), (2, OTHER)):
        late = LateTuples(0, 0, np.array([taken - 1]), np.array([0]), (), 0)
        commit = Commit(me, me, ((Address(Topic.LATE, 0), late),), DispatcherProgress(taken))
        sent = following.sending(commit, 3, 4, lambda steady: steady)
        following.sent(sent, 4, 5, lambda steady: steady, "")
        (span,) = [s for s in telemetry.spans if s.name == "dispatch" and s.trace_id == context.trace_id]
        assert [record.trace for _, record in sent.sends] == [str(Context(context.trace_id, span.span_id, True))]
    assert len([s for s in telemetry.spans if s.name == "dispatch"]) == 2


class Away(Exception):
    pass


def test_a_start_that_fails_is_told_with_what_broke_it_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its spans had no end, so the trace of a unit that could not restore was never seen."""
    collector = Collector().start()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.endpoint)

    def perform(effect: Effect) -> int:
        if isinstance(effect, Fence):
            return 1
        raise Away("Kafka is away")

    def start() -> None:
        owner = Producer("joiner", "0L0.0")
        with observing(perform, plan(JOIN), "joiner", "0L0.0", 1, Watch()) as observed:
            observed(Fence(owner))
            observed(ReadProgress(owner))

    with pytest.raises(Away):
        start()
    collector.stop()
    told = {span.name: (span.failure, span.parent) for span in collector.spans}
    restore = next(span.span for span in collector.spans if span.name == "restore")
    assert told == {"restore": ("Kafka is away", ""), "fence": ("", restore)}


def test_a_transaction_that_nobody_answers_is_told() -> None:
    world = World(plan(JOIN))
    telemetry = world.telemetry(Producer("dispatcher", "0"))
    following = DispatcherFollowing(telemetry, world.plan)
    following.read([(0, replace(block(0, [0, 1]), trace=str(USER)))], 1, 2, -1)
    owner = Producer("dispatcher", "0")
    following.sending(Commit(owner, owner, (), DispatcherProgress(1)), 2, 3, lambda at: at)
    assert [span.name for span in telemetry.spans] == ["read", "route"]
    following.end(9, lambda at: at, "cut off")
    assert [(span.name, span.ended_ns, span.failure) for span in telemetry.spans[2:]] == [("dispatch", 9, "cut off")]
