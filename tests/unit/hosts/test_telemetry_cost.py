"""What telemetry costs: nearly nothing where nobody asked, and little where somebody did.

Times of whole runs say nothing on a machine that does other things too. So calls are counted in a run at full load, and
a single call's CPU time is measured on its own, many times over; together they are the share.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from biclique.core.rows import Vector
from biclique.hosts.units.observed import Observed
from biclique.plan.model import Plan
from biclique.ports.memory import MemoryLog, MemoryStore
from biclique.ports.telemetry import Identity
from biclique.ports.telemetry_memory import MemoryTelemetry
from biclique.tiers.effects import Consult, Effect, Fetched, Orders, Read, ReadTable
from biclique.tiers.loops import Watch
from biclique.tiers.messages import Address, Producer, SourceBlock, Topic
from biclique.tiers.phases import Phase, unheard
from tests.model.observed_tiers import ObservedTiers
from tests.unit.tiers.building import plan

ROWS, BLOCKS = 4096, 8
JOIN = "SELECT r.v AS a, s.v AS b FROM r JOIN s ON r.k = s.k"
SHARE = 0.01


def quiet(owner: Producer) -> MemoryTelemetry:
    return MemoryTelemetry(Identity("q", *owner, 1), tracing=False)


def block(source: int, number: int) -> SourceBlock:
    offsets = np.arange(number * ROWS, (number + 1) * ROWS, dtype=np.int64)
    keys = Vector(((offsets * 7919) % (ROWS * BLOCKS)).astype(np.int32))
    marks, times = np.zeros(ROWS, np.int8), np.zeros(ROWS, np.int64)
    return SourceBlock(source, 0, number * ROWS - 1, offsets, marks, times, (keys, Vector(offsets)))


def feed(query: Plan, log: MemoryLog, blocks: range) -> None:
    for number in blocks:
        for source in (0, 1):
            log.append(Address(Topic.SHUFFLED, source % query.dispatchers), [block(source, number)])


def cpu_of_one(call: Callable[[], Any], times: int = 20_000) -> float:
    """Seconds of one call, the least of several rounds: what disturbs only adds."""
    rounds = []
    for _ in range(5):
        began = time.thread_time()
        for _ in range(times):
            call()
        rounds.append((time.thread_time() - began) / times)
    return min(rounds)


def test_the_share_of_a_unit_at_full_load() -> None:
    query, log = plan(JOIN), MemoryLog()
    tiers = ObservedTiers(query, log, MemoryStore(), quiet)
    feed(query, log, range(1))
    tiers.settle()  # kernels are compiled
    calls = {"effects": 0, "marks": 0}
    for observed in tiers.observed:
        _count(observed, calls)
    began = time.thread_time()
    feed(query, log, range(1, BLOCKS))
    tiers.settle()
    spent = time.thread_time() - began
    joiners = [observed._watch.joiner for observed in tiers.observed]
    assert sum(joiner.counters.stored for joiner in joiners if joiner) == 2 * ROWS * BLOCKS
    assert calls["marks"] >= 6, "both joiners made steps"
    marking = calls["marks"] * cpu_of_one(lambda: unheard(Phase.PROBE)) / spent
    assert marking < SHARE, f"off: {marking:.4%}"
    observing = calls["effects"] * cost_of_observing() / spent
    assert observing < 5 * SHARE, f"on: {observing:.2%}"
    print(f"off {marking:.5%}, on {observing:.3%} of {spent:.2f} s")


def _count(observed: Observed, calls: dict[str, int]) -> None:
    perform, mark = observed._perform, observed._watch.mark

    def counted(effect: Effect) -> Any:
        calls["effects"] += 1
        return perform(effect)

    def counted_mark(phase: Phase) -> None:
        calls["marks"] += 1
        mark(phase)

    observed._perform = counted
    if observed._watch.joiner is not None:
        observed._watch.joiner.mark = counted_mark


def cost_of_observing() -> float:
    """Of an effect, over what the effect itself costs: a turn of a joiner that finds nothing."""
    nothing = Fetched((), 0, 0, 0)
    answers: dict[type, Any] = {Consult: Orders(), Read: nothing, ReadTable: None}

    def perform(effect: Effect) -> Any:
        return answers[type(effect)]

    observed = Observed(perform, quiet(Producer("joiner", "0L0.0")), plan(JOIN), "joiner", Watch(), 1)
    turn = (Consult(), Read(Address(Topic.UNIT, "0L0.0"), 0, 1), ReadTable())

    def bare() -> None:
        for effect in turn:
            perform(effect)

    def seen() -> None:
        for effect in turn:
            observed(effect)

    return (cpu_of_one(seen) - cpu_of_one(bare)) / len(turn)


def test_where_nobody_asked_nothing_of_it_is_loaded() -> None:
    """Redis' client loads OpenTelemetry's classes for itself; what counts is that none of ours make any of them."""
    program = """
import os, sys, threading
for name in [name for name in os.environ if name.startswith("OTEL_")]:
    del os.environ[name]
import biclique.hosts.units.application, biclique.hosts.units.process, biclique.hosts.shuffle.packing
from biclique.hosts.units.observing import observing
from biclique.plan.make import make_plan
from tests.unit.tiers.building import plan
perform = lambda effect: None
with observing(perform, plan("SELECT r.v FROM r JOIN s ON r.k = s.k"), "joiner", "0L0.0", 1, None) as given:
    assert given is perform
ours = ("biclique.ports.telemetry_otel", "prometheus_client")
print([name for name in sys.modules if name.startswith(ours)], threading.active_count())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "[] 1", done.stderr
