"""What runs found: a table for people, the same for programs."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict

from tests.chaos.run import Outcome, Place, Struck
from tests.chaos.stage import KEYS_FIRST
from tests.chaos.trimmed import Stopped

HEAD = """\
# Faults on real processes

Written by `make chaos`. A query runs as real processes over a Kafka and a Redis of its own, its input flows all the
while, a read-committed reader reads all the while, and a keeper starts again whatever ends, as the operator will.
Faults strike one after the other, at moments and on victims that a seed chooses. At the end, what was read is compared
with the oracle, row by row; late and dead rows with those that were made so. *Recovered*: from the end of the fault
until results are read whose rows were both made after it. *Rows*: how many of each side were in Kafka when the fault
struck, and when it was recovered from.

*Cut off*: every connection of a tier goes through a relay, which stops carrying bytes, one way or both, and tells
nobody; so a run needs no network of its own, and nobody has to be root.
"""
KEYS_FIRST_HEAD = """\
## Keys first

The query of pairs once more, with `plan.transport: semijoin`: units read payload from the shuffled topic when a pair
matches, also when they are cut off from it, replay, or have been replaced. The joiners of each side are a driver of
their own, so what strikes one leaves the other going, and results may be its sibling's while it recovers; all of them
are judged at the end. Of the faults, those that concern this.
"""
TRIMMED = """\
Last of all, each log is trimmed beyond what is still needed while its reader is down. Nothing can bring those records
back: the tier stops with a sentence, and nothing that was read is untrue.
"""


def summary(outcomes: Sequence[Outcome]) -> str:
    struck = [each for outcome in outcomes for each in outcome.struck]
    wrong = [f"  {outcome.shape}: {said}" for outcome in outcomes for said in outcome.wrong]
    lines = [table(struck), "", *map(_counted, outcomes), *wrong]
    kills = sum("kill -9" in each.fault for each in struck)
    lines.append(f"{len(struck)} faults, {kills} of them kills; {len(wrong)} promises broken")
    return "\n".join(lines)


def document(every: Sequence[Outcome]) -> str:
    outcomes = [outcome for outcome in every if outcome.shape != KEYS_FIRST.name]
    struck = [each for outcome in outcomes for each in outcome.struck]
    parts = [HEAD, table(struck), "", *(f"* {_counted(outcome)}" for outcome in outcomes), "", TRIMMED]
    parts += [f"* {stopped.tier}: `{stopped.sentence}`" for outcome in outcomes for stopped in outcome.stopped]
    parts += ["", *_verdict(outcomes)]
    page, apart = "\n".join(parts), [outcome for outcome in every if outcome.shape == KEYS_FIRST.name]
    return with_keys_first(page, apart) if apart else page


def with_keys_first(page: str, outcomes: Sequence[Outcome]) -> str:
    """A run of these alone leaves the rest of the page as it is."""
    before = page.partition(KEYS_FIRST_HEAD.splitlines()[0])[0].rstrip("\n")
    struck = [each for outcome in outcomes for each in outcome.struck]
    counted = [f"* {_counted(outcome)}" for outcome in outcomes]
    return "\n".join([before, "", KEYS_FIRST_HEAD, table(struck), "", *counted, "", *_verdict(outcomes)])


def _verdict(outcomes: Sequence[Outcome]) -> list[str]:
    found = [f"* {outcome.shape}: {said}" for outcome in outcomes for said in outcome.wrong]
    return ["Promises broken:" if found else "No promise was broken.", *found, ""]


def as_json(outcomes: Sequence[Outcome]) -> str:
    return json.dumps([asdict(outcome) for outcome in outcomes], indent=1)


def from_json(text: str) -> list[Outcome]:
    found = []
    for values in json.loads(text):
        struck = [
            Struck(**{**each, "before": Place(**each["before"]), "after": Place(**each["after"])})
            for each in values["struck"]
        ]
        stopped = [Stopped(**{**each, "words": tuple(each["words"])}) for each in values["stopped"]]
        found.append(Outcome(**{**values, "struck": struck, "stopped": stopped}))
    return found


def table(struck: Iterable[Struck]) -> str:
    """A line for each fault and victim."""
    cells: dict[tuple[str, str], list[Struck]] = {}
    for each in struck:
        cells.setdefault((each.fault, each.victim), []).append(each)
    rows = [("fault", "on", "times", "rows of r", "rows of s", "recovered s (median, worst)", "seen")]
    for (fault, victim), found in sorted(cells.items()):
        times = [each.recovered_s for each in found if each.recovered_s is not None]
        recovered = f"{statistics.median(times):.1f}, {max(times):.1f}" if len(times) == len(found) else "no"
        spans = (
            _spans([(each.before.r, each.after.r) for each in found]),
            _spans([(each.before.s, each.after.s) for each in found]),
        )
        seen = "; ".join(sorted({each.note for each in found if each.note}))
        rows.append((fault, victim, str(len(found)), *spans, recovered, seen))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in rows
    ]
    return "\n".join([lines[0], "|" + "|".join("-" * (width + 2) for width in widths) + "|", *lines[1:]])


def _spans(found: Sequence[tuple[int, int]]) -> str:
    told = ", ".join(f"{before:,} → {after:,}" for before, after in found[:2])
    return told + (f" and {len(found) - 2} more" if len(found) > 2 else "")


def _counted(outcome: Outcome) -> str:
    rows = " and ".join(f"{count:,}" for count in outcome.rows.values())
    ended = ", ".join(f"{count} × {what}" for what, count in sorted(outcome.restarts.items()))
    return (
        f"{outcome.shape}, seed {outcome.seed}: {rows or 'unknown'} rows, {outcome.results:,} results, "
        f"{outcome.late:,} late, {outcome.dead:,} dead, {outcome.seconds / 60:.0f} minutes, load of the "
        f"machine {outcome.load:.0f} at most; "
        f"tiers that ended, with their codes: {ended or 'none'}"
    )
