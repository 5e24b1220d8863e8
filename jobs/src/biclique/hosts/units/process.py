"""One unit in one process: its loop, over Kafka and Redis, until it is asked to stop or somebody took its place.

The same loops as in the embedded engine and in the simulator (tiers/loops.py). Everything here is made in the process
that uses it: clients do not survive a fork.
"""

from __future__ import annotations

import gc
import time
from contextlib import closing
from dataclasses import replace
from functools import partial

from biclique.hosts.perform import Performer
from biclique.hosts.shuffle.packing import dispatcher_of
from biclique.hosts.units import limits
from biclique.hosts.units.checkpoints import Checkpoints
from biclique.hosts.units.condition import Conditions
from biclique.hosts.units.connections import checkpoint_store, kafka_settings, source_topics
from biclique.hosts.units.ending import Ending, ending_of
from biclique.hosts.units.memory import ProcessMemory
from biclique.hosts.units.observing import Perform, observing
from biclique.hosts.units.outside import Outside
from biclique.hosts.units.resting import Resting
from biclique.hosts.units.spec import UnitSpec
from biclique.plan.make import make_plan
from biclique.plan.model import Plan
from biclique.plan.table import first_table
from biclique.ports.control import Control
from biclique.ports.controls import open_control
from biclique.ports.kafka_log import PROGRESS, KafkaLog, input_of, topic_of
from biclique.ports.kafka_receivers import Receivers
from biclique.ports.outlets import Outlets
from biclique.ports.refusals import Refused
from biclique.ports.wire import Wire
from biclique.query.compile import compile_manifest
from biclique.routing.table import UnitId
from biclique.tiers.effects import Effect, End, Loop, PublishManifest, PutBlob
from biclique.tiers.loops import MissingProgress, Watch, dispatcher_loop, joiner_loop, merger_loop
from biclique.tiers.messages import Producer
from biclique.tiers.pressure import MemoryBudget
from biclique.tiers.reading_on import TrimmedTooFar
from biclique.tiers.waiting import SHARES_MAX


def run_unit(spec: UnitSpec) -> Ending:
    return ending_of(lambda: _run(spec))


def _run(spec: UnitSpec) -> End:
    around = spec.surroundings
    plan = make_plan(compile_manifest(spec.manifest))
    with closing(open_control(around.control, around.token)) as control:
        return _run_under(control, plan, spec)


def _run_under(control: Control, plan: Plan, spec: UnitSpec) -> End:
    around, name = spec.surroundings, f"{spec.tier} {spec.name}"
    attempt = control.next_attempt(name)
    settings = replace(kafka_settings(around, attempt), read_bytes=limits.read_bytes(plan, spec.tier))
    log = KafkaLog(settings, Wire(plan), Outlets(plan.query))
    owner = Producer(spec.tier, spec.name)
    store = checkpoint_store(around, plan.query, name, log.identity(input_of(owner)))
    client = log.client()
    checkpoints = Checkpoints(around.checkpoint_s, time.monotonic)
    watch, budget = Watch(), limits.budget_of(plan, spec.tier)
    memory = ProcessMemory(budget, time.monotonic)
    conditions = Conditions(control, spec.tier, spec.name, budget, memory, time.monotonic)
    receivers = Receivers(settings, time.monotonic)
    outside = Outside(plan, owner, control, checkpoints, conditions, memory, receivers, watch, time.monotonic)
    performer = Performer(
        client,
        store,
        table=control.table,
        orders=outside.orders,
        clock_ms=lambda: time.time_ns() // 1_000_000,
        rest=Resting(client.wait),
    )
    try:
        if client.read_progress(owner) is None:
            topic, partition = topic_of(around.prefix, input_of(owner))
            raise MissingProgress(
                f"the progress of {owner} is gone from partition {partition} of topic {topic}{PROGRESS}: going on "
                "would lose or double results; restore the topic, or begin the query anew under another BICLIQUE_PREFIX"
            )
        gc.freeze()  # what stays for good is not looked through again and again: a full collection takes 60 ms
        performed, show = outside.timed(performer), partial(control.show, name)
        with observing(performed, plan, spec.tier, spec.name, attempt, watch, show) as perform:
            end = _driven(_loop_of(plan, spec, budget, watch), perform, checkpoints)
        if end is End.FENCED and control.attempts(name) == attempt:
            # Nobody has begun after this one: the coordinator gave up on a transaction that was open too long, as when
            # this process stood still.
            return End.UNKNOWN
        if end is End.UNKNOWN and client.undecided is not None:
            raise client.undecided
        return end
    except TrimmedTooFar as stop:
        topic, partition = topic_of(around.prefix, stop.address)
        raise Refused(f"partition {partition} of topic {topic} was trimmed too far: {stop}") from stop
    finally:
        store.close()
        receivers.close()
        client.close()


def unit_of(plan: Plan, name: str) -> UnitId:
    return next(unit for unit in first_table(plan).units() if str(unit) == name)


def _loop_of(plan: Plan, spec: UnitSpec, budget: MemoryBudget, watch: Watch) -> Loop:
    match spec.tier:
        case "dispatcher":
            number = int(spec.name)
            topics = source_topics(spec.surroundings, plan.query)
            partitions = [key for key in topics.partitions() if dispatcher_of(key, plan.dispatchers) == number]
            return dispatcher_loop(plan, number, partitions, limits.reads(spec.halvings, plan), watch)
        case "joiner":
            return joiner_loop(plan, unit_of(plan, spec.name), limits.joining(spec.halvings, budget), watch=watch)
        case "merger":
            return merger_loop(
                plan,
                int(spec.name),
                written_max=limits.writing(spec.halvings, budget),
                shares_max=min(SHARES_MAX, budget.step_bytes),
                memory=budget,
                watch=watch,
            )
        case tier:
            raise AssertionError(tier)


def _driven(loop: Loop, perform: Perform, checkpoints: Checkpoints) -> End:
    try:
        effect: Effect = next(loop)
        while True:
            answer = perform(effect)
            if isinstance(effect, PublishManifest | PutBlob):
                checkpoints.answered(answer)
            effect = loop.send(answer)
    except StopIteration as stop:
        end: End = stop.value
        return end
