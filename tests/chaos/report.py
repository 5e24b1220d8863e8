"""What runs found: a table for people, the same for programs."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict

from tests.chaos.run import Outcome, Place, Struck
from tests.chaos.trimmed import Stopped

HEAD = """\
# Faults on real processes

Written by `make chaos`. A query runs as real processes over a Kafka and a Redis of its own, its input flows all the
while, a read-committed reader reads all the while, and a keeper starts again whatever ends, as the operator will.
Faults strike one after the other, at moments and on victims that a seed chooses. At the end, what was read is compared
with the oracle, row by row; late and dead rows with those that were made so. *Recovered*: from the end of the fault
until results are read whose rows were both made after it.
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


def document(outcomes: Sequence[Outcome]) -> str:
    struck = [each for outcome in outcomes for each in outcome.struck]
    parts = [HEAD, table(struck), "", *(f"* {_counted(outcome)}" for outcome in outcomes), "", TRIMMED]
    parts += [f"* {stopped.tier}: `{stopped.sentence}`" for outcome in outcomes for stopped in outcome.stopped]
    found = [f"* {outcome.shape}: {said}" for outcome in outcomes for said in outcome.wrong]
    parts += ["", "Promises broken:" if found else "No promise was broken.", *found, ""]
    return "\n".join(parts)


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
    rows = [("fault", "on", "times", "rows a side, before → after", "recovered s (median, worst)", "seen")]
    for (fault, victim), found in sorted(cells.items()):
        times = [each.recovered_s for each in found if each.recovered_s is not None]
        recovered = f"{statistics.median(times):.1f}, {max(times):.1f}" if len(times) == len(found) else "no"
        spans = ", ".join(f"{each.before.r:,} → {each.after.r:,}" for each in found[:2])
        more = f" and {len(found) - 2} more" if len(found) > 2 else ""
        seen = "; ".join(sorted({each.note for each in found if each.note}))
        rows.append((fault, victim, str(len(found)), spans + more, recovered, seen))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in rows
    ]
    return "\n".join([lines[0], "|" + "|".join("-" * (width + 2) for width in widths) + "|", *lines[1:]])


def _counted(outcome: Outcome) -> str:
    rows = " and ".join(f"{count:,}" for count in outcome.rows.values())
    ended = ", ".join(f"{count} × {what}" for what, count in sorted(outcome.restarts.items()))
    return (
        f"{outcome.shape}, seed {outcome.seed}: {rows or 'unknown'} rows, {outcome.results:,} results, "
        f"{outcome.late:,} late, {outcome.dead:,} dead, {outcome.seconds / 60:.0f} minutes; "
        f"tiers that ended, with their codes: {ended or 'none'}"
    )
