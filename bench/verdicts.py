"""From what was measured to what is said of it: one line for each promise, met or short, never left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from bench.cases import Case, Direction, Measured
from bench.engines import BICLIQUE, Run
from bench.workloads import RIVALS, Rival


class Verdict(Enum):
    MET = "met"
    SHORT = "short of target"
    NOT_MEASURED = "not measured"
    NOT_JUDGED = "not judged"  # small sizes, or nothing was promised


@dataclass(frozen=True)
class Line:
    """`share`: measured over target, whichever way is good; `good`: at least 1 where the target is met, for a plot."""

    name: str
    what: str
    target: str
    measured: str
    share: float | None
    good: float | None
    verdict: Verdict
    note: str


@dataclass(frozen=True)
class CaseRun:
    """`measured` None: `why` says why not."""

    case: Case
    measured: Measured | None
    why: str = ""


def core_lines(runs: Sequence[CaseRun], judged: bool) -> list[Line]:
    return [_core_line(run, judged) for run in runs]


def _core_line(run: CaseRun, judged: bool) -> Line:
    case, measured = run.case, run.measured
    sign = "≥" if case.direction is Direction.AT_LEAST else "≤"
    target = "—" if case.target is None else f"{sign} {quantity(case.target, case.unit)}"
    if measured is None:
        return Line(case.name, case.what, target, "—", None, None, Verdict.NOT_MEASURED, run.why)
    shown = quantity(measured.value, case.unit)
    if case.target is None:
        return Line(case.name, case.what, target, shown, None, None, Verdict.NOT_JUDGED, measured.note)
    share = measured.value / case.target
    good = share if case.direction is Direction.AT_LEAST else 1 / share
    return Line(case.name, case.what, target, shown, share, good, _verdict(good, judged), measured.note)


def rival_lines(runs: Sequence[Run], judged: bool) -> list[Line]:
    """How many times ours a rival's seconds are; where the rows differ, the line says so."""
    found = {(run.engine, run.workload): run for run in runs}
    return [
        _rival_line(rival, found.get((BICLIQUE, rival.workload)), found.get((rival.peer, rival.workload)), judged)
        for rival in RIVALS
    ]


def _rival_line(rival: Rival, ours: Run | None, theirs: Run | None, judged: bool) -> Line:
    name, target = f"{rival.workload}, beside {rival.peer}", f"≥ {rival.times:g} x"
    if ours is None or theirs is None or ours.seconds is None or theirs.seconds is None:
        failed = [f"{run.engine}: {run.why}" for run in (ours, theirs) if run and run.seconds is None]
        why = "; ".join(failed) or "not part of this run"
        return Line(name, "files to files", target, "—", None, None, Verdict.NOT_MEASURED, why)
    what = f"{ours.rows:,} rows a side"
    if ours.rows != theirs.rows:
        what += f", {rival.peer} {theirs.rows:,}"
    times = theirs.seconds / ours.seconds
    share = times / rival.times
    note = f"{ours.seconds:.1f} s and {theirs.seconds:.1f} s"
    return Line(name, what, target, f"{times:.2f} x", share, share, _verdict(share, judged), note)


def _verdict(good: float, judged: bool) -> Verdict:
    if not judged:
        return Verdict.NOT_JUDGED
    return Verdict.MET if good >= 1 else Verdict.SHORT


def quantity(value: float, unit: str) -> str:
    """Three digits and a prefix for rates: 3.21 M tuples/s."""
    if unit.endswith("/s"):
        for size, prefix in ((1e9, "G "), (1e6, "M "), (1e3, "k ")):
            if value >= size:
                return f"{value / size:.3g} {prefix}{unit}"
    return f"{value:.3g} {unit}"
