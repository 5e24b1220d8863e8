"""One run: a query that flows, faults on it one after the other, and what came of it.

After each fault the run waits until results come whose rows were both made after it: a fault that is not recovered from
fails the run, whatever its results. The end is judged as a whole: all results against the oracle, late and dead rows
against what was made so. Then, last of all, what nothing can recover from: logs that were trimmed too far. There a tier
must stop with a sentence, and what was read must stay a part of the truth.
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.chaos.faults import Durations, Striking
from tests.chaos.flow import Flow
from tests.chaos.judging import beyond, difference, judge
from tests.chaos.reader import Reader
from tests.chaos.schedule import Due
from tests.chaos.stage import GROUPED, Shape, Stage
from tests.chaos.trimmed import STRUCK, Stopped, trim_too_far
from tests.chaos.truth import SIDES

START_LIMIT_S, RECOVERY_LIMIT_S = 300.0, 180.0
KEYS = 50_000
SETTLE_S = 5.0


@dataclass(frozen=True)
class Place:
    """How far the query is: rows in Kafka, results read."""

    r: int
    s: int
    results: int


@dataclass(frozen=True)
class Struck:
    """`after`: when it was over and recovered from. `recovered_s`: from its end until results of rows that were made
    after it; None: not in time."""

    fault: str
    victim: str
    before: Place
    after: Place
    seconds: float
    recovered_s: float | None
    note: str


@dataclass
class Outcome:
    """`wrong`: promises that were broken, each a sentence. `restarts`: tiers that ended, by tier and code. `load`: the
    most that the machine had to do, over a minute: who recovers shares its cores with it."""

    shape: str
    seed: int
    struck: list[Struck] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    restarts: dict[str, int] = field(default_factory=dict)
    stopped: list[Stopped] = field(default_factory=list)
    rows: dict[str, int] = field(default_factory=dict)
    results: int = 0
    late: int = 0
    dead: int = 0
    seconds: float = 0.0
    load: float = 0.0


@dataclass(frozen=True)
class Setting:
    """`rate`: rows a second and side. `rows`: of a side at least, however few faults there are."""

    seed: int
    rate: int
    rows: int
    durations: Durations
    trimmed: bool = True


def play(
    folder: Path, shape: Shape, due: Sequence[Due], setting: Setting, say: Callable[[str], None] = lambda text: None
) -> Outcome:
    outcome, began = Outcome(shape.name, setting.seed), time.monotonic()
    stage = Stage(folder, shape)
    flow = Flow(stage.kafka.bootstrap, stage.name, setting.rate, KEYS, random.Random(f"{setting.seed}/flow"))
    reader = Reader(stage.kafka.bootstrap, f"{stage.name}-out", shape is GROUPED)
    try:
        _strike_all(stage, flow, reader, due, setting, outcome, say)
        if not outcome.wrong:
            judged = judge(flow, reader, stage.kafka.bootstrap, stage.name, say)
            outcome.wrong += judged.wrong
            outcome.rows, outcome.results = dict(flow.sent), reader.read
            outcome.late, outcome.dead = judged.late, judged.dead
        if not outcome.wrong and setting.trimmed:
            outcome.stopped = trim_too_far(stage, flow, STRUCK[shape.name], say)
            outcome.wrong += [said for stopped in outcome.stopped if (said := stopped.wrong())]
            outcome.wrong += beyond(reader, flow.given)
        if not setting.trimmed:
            codes = stage.stop()
            outcome.wrong += [f"{tier}, asked to stop, ended with code {code}" for tier, code in codes.items() if code]
            if not outcome.wrong:
                time.sleep(SETTLE_S)  # what the tiers wrote last is read, too
                outcome.wrong += [*reader.wrong, *difference(reader, flow.given)]
    except BaseException:
        say(_last_words(stage))
        raise
    finally:
        flow.stop()
        reader.stop()
        stage.keeper.stop(lambda: None, limit_s=0.1)
        outcome.restarts = dict(Counter(f"{ended.tier} {ended.code}" for ended in stage.keeper.ended))
        stage.close()
    if outcome.wrong:
        say(_last_words(stage))
    outcome.seconds = time.monotonic() - began
    return outcome


def _strike_all(
    stage: Stage,
    flow: Flow,
    reader: Reader,
    due: Sequence[Due],
    setting: Setting,
    outcome: Outcome,
    say: Callable[[str], None],
) -> None:
    for tier in stage.shape.processes:
        stage.keeper.keep(tier)
    if not reader.wait_for(100, START_LIMIT_S):
        outcome.wrong.append(f"no results within {START_LIMIT_S:.0f} s of the start")
        return
    flow.set_aside.set()
    rng = random.Random(f"{setting.seed}/{stage.shape.name}/faults")
    for number, each in enumerate(due, 1):
        time.sleep(each.after_s)
        before, began, known = place_of(flow, reader), time.monotonic(), len(stage.keeper.ended)
        note = each.fault.strike(Striking(stage, each.victim, rng, setting.durations))
        seconds = time.monotonic() - began
        recovered_s = _recovered(flow, reader)
        struck = Struck(each.fault.name, each.victim, before, place_of(flow, reader), seconds, recovered_s, note)
        outcome.struck.append(struck)
        outcome.load = max(outcome.load, os.getloadavg()[0])
        say(f"{number} of {len(due)}: {told(struck)}")
        for ended in stage.keeper.ended[known:]:
            if ended.code >= 0:
                say(f"  {ended.tier} ended with code {ended.code}: {ended.sentence}")
        outcome.wrong += reader.wrong
        if recovered_s is None:
            outcome.wrong.append(f"{told(struck)}: not recovered within {RECOVERY_LIMIT_S:.0f} s")
        if outcome.wrong:
            return
    while min(flow.sent.values()) < setting.rows:
        time.sleep(0.5)


def told(struck: Struck) -> str:
    recovered = "-" if struck.recovered_s is None else f"{struck.recovered_s:.1f} s"
    note = f" ({struck.note})" if struck.note else ""
    return (
        f"{struck.victim}: {struck.fault}, {struck.seconds:.1f} s, rows {struck.before.r:,} to {struck.after.r:,}, "
        f"results {struck.before.results:,} to {struck.after.results:,}, recovered in {recovered}{note}"
    )


def place_of(flow: Flow, reader: Reader) -> Place:
    return Place(flow.acknowledged["r"], flow.acknowledged["s"], reader.read)


def _recovered(flow: Flow, reader: Reader) -> float | None:
    """Results of rows of each side that were made after this call."""
    began, wanted = time.monotonic(), dict(flow.sent)
    while any(reader.newest[side] < wanted[side] for side in SIDES):
        if time.monotonic() > began + RECOVERY_LIMIT_S:
            return None
        time.sleep(0.05)
    return time.monotonic() - began


def _last_words(stage: Stage) -> str:
    logs = [f"--- {tier}\n{stage.keeper.log_of(tier)[-3000:]}" for tier in stage.shape.processes]
    return "\n".join(logs)
