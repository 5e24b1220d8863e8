"""One run: a query that flows, faults on it one after the other, and what came of it.

After each fault the run waits until results come whose rows were both made after it: a fault that is not recovered from
fails the run, whatever its results. The end is judged as a whole: all results against the oracle, late and dead rows
against what was made so. Then, last of all, what nothing can recover from: logs that were trimmed too far. There a tier
must stop with a sentence, and what was read must stay a part of the truth.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.chaos.faults import Durations, Striking
from tests.chaos.flow import Flow
from tests.chaos.reader import Reader
from tests.chaos.schedule import Due
from tests.chaos.set_aside import set_aside
from tests.chaos.stage import GROUPED, Shape, Stage
from tests.chaos.trimmed import Stopped, trim_too_far
from tests.chaos.truth import SIDES, Given

START_LIMIT_S, RECOVERY_LIMIT_S, END_LIMIT_S = 300.0, 180.0, 240.0
KEYS = 50_000


@dataclass(frozen=True)
class Place:
    """How far the query is: rows in Kafka, results read."""

    r: int
    s: int
    results: int


@dataclass(frozen=True)
class Struck:
    """`recovered_s`: from the end of the fault until results of rows that were made after it; None: not in time."""

    fault: str
    victim: str
    before: Place
    after: Place
    seconds: float
    recovered_s: float | None
    note: str


@dataclass
class Outcome:
    """`wrong`: promises that were broken, each a sentence. `restarts`: tiers that ended, by tier and code."""

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
            _judge(stage, flow, reader, outcome, say)
        if not outcome.wrong and setting.trimmed:
            outcome.stopped = trim_too_far(stage, flow, say)
            outcome.wrong += [said for stopped in outcome.stopped if (said := stopped.wrong())]
            outcome.wrong += _beyond(reader, flow.given)
        if not setting.trimmed:
            codes = stage.stop()
            outcome.wrong += [f"{tier}, asked to stop, ended with code {code}" for tier, code in codes.items() if code]
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
    for tier in stage.shape.tiers:
        stage.keeper.keep(tier)
    if not reader.wait_for(100, START_LIMIT_S):
        outcome.wrong.append(f"no results within {START_LIMIT_S:.0f} s of the start")
        return
    flow.set_aside.set()
    rng = random.Random(f"{setting.seed}/{stage.shape.name}/faults")
    for number, each in enumerate(due, 1):
        time.sleep(each.after_s)
        before, began, known = _place(flow, reader), time.monotonic(), len(stage.keeper.ended)
        note = each.fault.strike(Striking(stage, each.victim, rng, setting.durations))
        seconds, after = time.monotonic() - began, _place(flow, reader)
        recovered_s = _recovered(flow, reader)
        struck = Struck(each.fault.name, each.victim, before, after, seconds, recovered_s, note)
        outcome.struck.append(struck)
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


def _place(flow: Flow, reader: Reader) -> Place:
    return Place(flow.acknowledged["r"], flow.acknowledged["s"], reader.read)


def _recovered(flow: Flow, reader: Reader) -> float | None:
    """Results of rows of each side that were made after this call."""
    began, wanted = time.monotonic(), dict(flow.sent)
    while any(reader.newest[side] < wanted[side] for side in SIDES):
        if time.monotonic() > began + RECOVERY_LIMIT_S:
            return None
        time.sleep(0.05)
    return time.monotonic() - began


# --- judging ---------------------------------------------------------------------------------------------------------


def _judge(stage: Stage, flow: Flow, reader: Reader, outcome: Outcome, say: Callable[[str], None]) -> None:
    flow.pause()
    given = flow.given
    say(f"the input rests at {flow.sent['r']:,} and {flow.sent['s']:,} rows; judging")
    difference = _difference(reader, given)
    deadline, seen = time.monotonic() + END_LIMIT_S, -1
    while difference and time.monotonic() < deadline:
        time.sleep(5)
        if reader.read == seen and time.monotonic() > deadline - END_LIMIT_S + 60:
            break  # a minute, and nothing more comes
        seen, difference = reader.read, _difference(reader, given)
    outcome.wrong += [*reader.wrong, *difference]
    found_late, found_dead = set_aside(stage)
    wanted_late = Counter((side, number) for side in SIDES for number in given.late[side])
    wanted_dead = Counter(given.dead)
    outcome.wrong += compared("late rows", found_late, wanted_late) + compared("dead rows", found_dead, wanted_dead)
    say(f"judged: {len(outcome.wrong)} promises broken")
    outcome.rows, outcome.results = dict(flow.sent), reader.read
    outcome.late, outcome.dead = found_late.total(), found_dead.total()


def _difference(reader: Reader, given: Given) -> list[str]:
    pairs, found = reader.so_far()
    if not reader.by_groups:
        return compared("pairs", pairs, given.pairs())
    wanted = given.groups()
    wrong = {group for group in wanted.keys() | found.keys() if wanted.get(group) != found.get(group)}
    return [f"group {group}: {found.get(group)}, and {wanted.get(group)} is right" for group in sorted(wrong)[:3]]


def _beyond(reader: Reader, given: Given) -> list[str]:
    """What was read and is not true: nothing, also where a tier has stopped."""
    pairs, groups = reader.so_far()
    if reader.by_groups:
        wanted = given.groups()
        beyond = [group for group, found in groups.items() if found[0] > wanted.get(group, (0, 0))[0]]
        return [*reader.wrong, *(f"group {group} counts pairs that are none" for group in beyond[:3])]
    return [*reader.wrong, *(f"pair {pair} is none" for pair in list(pairs - given.pairs())[:3])]


def compared(what: str, found: Counter, wanted: Counter) -> list[str]:  # type: ignore[type-arg]
    said = []
    for word, wrong in (("missing", wanted - found), ("too many", found - wanted)):
        if wrong:
            said.append(f"{wrong.total():,} {what} {word} of {wanted.total():,}, first: {sorted(wrong)[:5]}")
    return said


def _last_words(stage: Stage) -> str:
    logs = [f"--- {tier}\n{stage.keeper.log_of(tier)[-3000:]}" for tier in stage.shape.tiers]
    return "\n".join(logs)
