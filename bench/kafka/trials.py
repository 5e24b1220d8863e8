"""What is measured, and which figure is good enough: a trial makes some figures, each of them a line of the page.

A trial that fails leaves its figures "not measured", with the reason, and the others go on. Flink's runs are trials'
parts: a ratio comes from one trial, so from one machine within minutes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from bench.cases import Case, Direction, Measured, Scale
from bench.kafka import latency as latencies
from bench.kafka.bed import Bed, warm_up
from bench.kafka.blocks import block_latency, block_throughput
from bench.kafka.engines import Biclique, Flink
from bench.kafka.idle import idle_cores
from bench.kafka.queries import BAND, EQUALITY, TWO_INEQUALITIES, Query
from bench.kafka.recovery import Recovery
from bench.kafka.throughput import Throughput, throughput
from bench.kafka.tiers import TrialFailed
from bench.kafka.unit import dispatched, handled, replayed
from bench.verdicts import quantity

LEAST, MOST = Direction.AT_LEAST, Direction.AT_MOST
Found = Mapping[str, Measured | str]  # a figure's name -> the figure, or why there is none
CHECKPOINTS, CHECKPOINT_RUNS = 4, 3
LATENCY_WITHOUT = 5_000  # tuples a second and side at which latency is measured without checkpoints, too
NO_CHECKPOINTS = {"BICLIQUE_REDIS": "redis://127.0.0.1:1/0"}  # nobody is there: each is skipped, and the query runs on


@dataclass(frozen=True)
class Trial:
    """`run` answers for each figure by its name."""

    name: str
    figures: tuple[Case, ...]
    run: Callable[[Bed, Path, Scale], Found]


def _figure(name: str, what: str, unit: str, target: float | None, direction: Direction) -> Case:
    return Case(name, what, unit, target, direction, "")


def _beside_flink(query: Query, rate: str | None, ratio: str) -> Callable[[Bed, Path, Scale], Found]:
    def run(bed: Bed, data: Path, scale: Scale) -> Found:
        found: dict[str, Measured | str] = {}
        warm_up(bed)
        ours = throughput(bed, data, Biclique(), query, scale.of(query.rows, query.rows // 20))
        if rate is not None:
            found[rate] = Measured(ours.tuples_per_second, (), _said(ours))
        try:
            theirs = throughput(bed, data, Flink(), query, scale.of(query.flink_rows, query.flink_rows // 20))
        except TrialFailed as failure:
            return {**found, ratio: f"Flink: {failure}"}
        times = ours.tuples_per_second / theirs.tuples_per_second
        return {**found, ratio: Measured(times, (), f"{_said(ours)}; Flink {_said(theirs)}")}

    return run


def _said(run: Throughput) -> str:
    rate = quantity(run.tuples_per_second, "tuples/s")
    return f"{rate}, {run.rows:,} rows a side in {run.seconds:.2f} s, {run.pairs:,} pairs"


def _latency(rate: int) -> Callable[[Bed, Path, Scale], Found]:
    def run(bed: Bed, data: Path, scale: Scale) -> Found:
        seconds = scale.of(40, 10)
        ours = latencies.latency(bed, Biclique(), rate, seconds)
        try:
            theirs = latencies.latency(bed, Flink(), rate, seconds)
            beside = f"Flink: p50 {theirs.p50:.2f} s, p99 {theirs.p99:.2f} s"
        except TrialFailed as failure:
            beside = f"Flink: {failure}"
        note = f"{ours.results:,} results; {ours.note}; {beside}"
        found: dict[str, Measured | str] = {
            f"latency p50 at {rate // 1000}k": Measured(ours.p50, (), note),
            f"latency p99 at {rate // 1000}k": Measured(ours.p99, (), note),
        }
        if rate == LATENCY_WITHOUT:
            # Who waits for a store begins later, and partitions are idle until then: what follows them is not late.
            without = latencies.latency(bed, Biclique(NO_CHECKPOINTS, lateness="1m"), rate, seconds)
            told = f"p50 {ours.p50:.3f} s, p99 {ours.p99:.3f} s; without {without.p50:.3f} s, {without.p99:.3f} s"
            found["latency p99, checkpoints"] = Measured(ours.p99 / without.p99, (), told)
        return found

    return run


def _blocks(bed: Bed, data: Path, scale: Scale) -> Found:
    ours = block_throughput(bed, data, scale.of(2_000_000, 100_000))
    found: dict[str, Measured | str] = {"blocks": Measured(ours.tuples_per_second, (), f"{_said(ours)}; {ours.note}")}
    rate = 50_000
    try:
        p50, p99, results = block_latency(bed, rate, scale.of(30, 5))
    except TrialFailed as failure:
        return {**found, "blocks, p99": str(failure)}
    return {**found, "blocks, p99": Measured(1000 * p99, (), f"{results:,} results, p50 {1000 * p50:.0f} ms")}


def _recovery(bed: Bed, data: Path, scale: Scale) -> Found:
    found: dict[str, Measured | str] = {}
    recovery = Recovery(bed, data, scale.of(1_000_000, 50_000))
    kills = (
        ("unit killed", (recovery.kill_a_worker,)),
        ("joiner tier killed", (recovery.kill_the_tier,)),
        ("joiner tier killed, Redis lost", (recovery.lose_redis, recovery.kill_the_tier)),
    )
    try:
        for name, faults in kills:
            try:
                for fault in faults:
                    fault()
                found[name] = Measured(recovery.seconds_to_a_new_result(60.0))
            except TrialFailed as failure:
                found[name] = str(failure)
    finally:
        recovery.close()
    return found


def _unit(bed: Bed, data: Path, scale: Scale) -> Found:
    rows = scale.of(1_000_000, 100_000)
    log = dispatched(bed, data, rows)
    handled(bed, log, 1, rows)  # compiles, and is not counted
    seconds, stored = replayed(log)
    rate = 2 * stored / seconds  # a unit a side: while this one rebuilds its rows, the other does
    runs = [handled(bed, dispatched(bed, data, CHECKPOINTS * rows), CHECKPOINTS, rows) for _ in range(CHECKPOINT_RUNS)]
    live = throughput(bed, data, Biclique(), EQUALITY, rows).tuples_per_second
    # A unit a side: each seals what it stores, so what one spends on a row of its own is what a tuple costs.
    machine = (os.cpu_count() or 1) / live * CHECKPOINTS * rows
    shares = [100 * run.sealing / machine for run in runs]
    said = ", ".join(f"{share:.2g} %" for share in shares)
    of_unit = ", ".join(f"{100 * run.share:.2g} %" for run in runs)
    each = f"{CHECKPOINTS} checkpoints, one a {rows:,} rows"
    note = f"{each}, {CHECKPOINT_RUNS} runs: {said} at {quantity(live, 'tuples/s')}"
    return {
        "checkpoints": Measured(median(shares), (), f"{note}; of what a unit alone spends on its rows: {of_unit}"),
        "replay": Measured(
            rate / live, (), f"{stored:,} rows of one unit in {seconds:.2f} s; live: {quantity(live, 'tuples/s')}"
        ),
    }


def _idle(bed: Bed, data: Path, scale: Scale) -> Found:
    cores = idle_cores(bed, scale.of(60, 10))
    said = ", ".join(f"{tier} {share:.3f}" for tier, share in cores.items())
    return {"idle": Measured(sum(cores.values()), (), said)}


JSON_TO_JSON = "Kafka to Kafka, exactly once, JSON in and out"
TRIALS: tuple[Trial, ...] = (
    Trial(
        "band",
        (
            _figure("band, Kafka", f"{JSON_TO_JSON}, two subgroups a side", "tuples/s", 90e3, LEAST),
            _figure("band, Kafka, beside Flink", "Flink: bucket rewrite as an interval join", "x", 1.5, LEAST),
        ),
        _beside_flink(BAND, "band, Kafka", "band, Kafka, beside Flink"),
    ),
    Trial(
        "equality",
        (_figure("equality, Kafka, beside Flink", f"{JSON_TO_JSON}; Flink: interval join", "x", 1.3, LEAST),),
        _beside_flink(EQUALITY, None, "equality, Kafka, beside Flink"),
    ),
    Trial(
        "two-inequalities",
        (
            _figure(
                "two inequalities, Kafka, beside Flink",
                "Flink compares every row with every other, so it has a fifth of the rows",
                "x",
                100,
                LEAST,
            ),
        ),
        _beside_flink(TWO_INEQUALITIES, None, "two inequalities, Kafka, beside Flink"),
    ),
    Trial(
        "latency-5k",
        (
            _figure("latency p50 at 5k", "5,000 tuples/s a side, append to read", "s", 0.7, MOST),
            _figure("latency p99 at 5k", "5,000 tuples/s a side, append to read", "s", 1.3, MOST),
            _figure("latency p99, checkpoints", "the same, over that of a run without checkpoints", "x", 1.25, MOST),
        ),
        _latency(5_000),
    ),
    Trial(
        "latency-20k",
        (
            _figure("latency p50 at 20k", "20,000 tuples/s a side, append to read", "s", None, MOST),
            _figure("latency p99 at 20k", "20,000 tuples/s a side, append to read", "s", 2, MOST),
        ),
        _latency(20_000),
    ),
    Trial(
        "blocks",
        (
            _figure("blocks", "dispatchers' input to joiners' output, blocks in and out", "tuples/s", 500e3, LEAST),
            _figure("blocks, p99", "the same at a tenth of that rate", "ms", 100, MOST),
        ),
        _blocks,
    ),
    Trial(
        "recovery",
        (
            _figure("unit killed", "2M rows of state; the first new result", "s", 15, MOST),
            _figure("joiner tier killed", "driver and all; the first new result", "s", 15, MOST),
            _figure("joiner tier killed, Redis lost", "the state comes from the log", "s", None, MOST),
        ),
        _recovery,
    ),
    Trial(
        "unit",
        (
            _figure(
                "checkpoints",
                "CPU time of units and of Redis for them, of all the machine has at the query's rate",
                "%",
                5,
                MOST,
            ),
            _figure("replay", "a unit without a checkpoint: its rate over the query's live rate", "x", 3, LEAST),
        ),
        _unit,
    ),
    Trial("idle", (_figure("idle", "a query without input, all tiers together", "cores", 0.1, MOST),), _idle),
)
