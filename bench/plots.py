"""The pictures of `docs/benchmarks/`: the same numbers give the same bytes, so one changes only when a figure does."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("svg")

import matplotlib.pyplot as plt
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator

from bench.engines import BICLIQUE, Run
from bench.verdicts import CaseRun, Line, quantity
from bench.workloads import WORKLOADS

OURS, THEIRS, BATCH, MET, SHORT = "#1b6e53", "#8a94a6", "#cfd5df", "#1b6e53", "#c0504d"
STYLE: Any = {"svg.hashsalt": "biclique", "font.size": 9, "axes.spines.top": False, "axes.spines.right": False}


def draw_engines(folder: Path, core: Sequence[Line], cases: Sequence[CaseRun], runs: Sequence[Run]) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    drawn = []
    with plt.rc_context(STYLE):
        if any(line.good for line in core):
            drawn.append(_saved(_targets(core), folder / "core.svg"))
        if growth := _curves(cases):
            drawn.append(_saved(_growth(growth), folder / "growth.svg"))
        if any(run.seconds for run in runs):
            drawn.append(_saved(_engines(runs), folder / "engines.svg"))
    return drawn


def draw_data_plane(folder: Path, lines: Sequence[Line], cases: Sequence[CaseRun]) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    drawn = []
    with plt.rc_context(STYLE):
        if any(line.good for line in lines):
            drawn.append(_saved(_targets(lines), folder / "data-plane.svg"))
        if curves := _curves(cases):
            drawn.append(_saved(_semijoin(curves), folder / "semijoin.svg"))
    return drawn


def _curves(cases: Sequence[CaseRun]) -> list[CaseRun]:
    return [case for case in cases if case.measured and case.measured.points]


def _saved(figure: Figure, path: Path) -> Path:
    figure.savefig(path, metadata={"Date": None, "Creator": None}, bbox_inches="tight")
    plt.close(figure)
    return path


def _targets(lines: Sequence[Line]) -> Figure:
    """How far each figure is beyond its target, or short of it."""
    shown = [line for line in reversed(lines) if line.good]
    figure, axes = plt.subplots(figsize=(8, 0.32 * len(shown) + 1))
    values = [line.good or 0.0 for line in shown]
    colors = [MET if value >= 1 else SHORT for value in values]
    bars = axes.barh([line.name for line in shown], values, color=colors, height=0.65)
    axes.bar_label(bars, [line.measured for line in shown], padding=4, fontsize=8)
    axes.axvline(1, color="black", linewidth=1)
    axes.set_xscale("log")
    axes.set_xlim(min(*values, 1) / 1.5, max(*values, 1) * 4)
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel("times as good as the target")
    return figure


def _growth(cases: Sequence[CaseRun]) -> Figure:
    figure, axes = plt.subplots(figsize=(5, 3))
    for run, color in zip((c for c in cases if c.measured and c.measured.points), (OURS, THEIRS), strict=False):
        assert run.measured is not None
        axes.plot(*zip(*run.measured.points, strict=True), marker="o", color=color, label=run.case.name)
    axes.set_xscale("log")
    axes.set_ylim(bottom=0)
    axes.set_xlabel("rows stored, at equal matches")
    axes.set_ylabel("nanoseconds a probe")
    axes.legend(frameon=False)
    return figure


def _semijoin(cases: Sequence[CaseRun]) -> Figure:
    """Bytes keys first over bytes whole: below 1 the first is fewer. The first case is measured, the second the
    formulas'."""
    figure, axes = plt.subplots(figsize=(5, 3))
    ways = (("measured", OURS, "o"), ("predicted by (2') and blocks", THEIRS, ""))
    for run, (label, color, marker) in zip(cases, ways, strict=False):
        assert run.measured is not None
        axes.plot(*zip(*run.measured.points, strict=True), marker=marker, markersize=4, color=color, label=label)
    axes.axhline(1, color="black", linewidth=1)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("share of tuples that match")
    axes.set_ylabel("bytes, keys first over whole")
    axes.legend(frameon=False)
    return figure


def _engines(runs: Sequence[Run]) -> Figure:
    shown = [workload for workload in WORKLOADS if any(r.workload == workload.name and r.seconds for r in runs)]
    figure, all_axes = plt.subplots(1, len(shown), figsize=(4 * len(shown), 2.6), squeeze=False)
    for axes, workload in zip(all_axes[0], shown, strict=True):
        # A batch engine saw all rows at once: beside the others, but paler.
        found = [run for run in reversed(runs) if run.workload == workload.name and run.seconds]
        labels = [f"{run.engine}, {_rows(run.rows)}" for run in found]
        colors = [OURS if run.engine == BICLIQUE else BATCH if run.batch else THEIRS for run in found]
        values = [run.tuples_per_second or 0.0 for run in found]
        bars = axes.barh(labels, values, color=colors, height=0.65)
        axes.bar_label(bars, [quantity(v, "/s").replace(" /s", "") for v in values], padding=4, fontsize=8)
        axes.set_xlim(0, max(values) * 1.3)  # from zero: a bar's length is the rate
        axes.set_xticks([])
        axes.spines["bottom"].set_visible(False)
        axes.set_title(f"{workload.name}, tuples a second")
    figure.tight_layout()
    return figure


def _rows(rows: int) -> str:
    return f"{rows // 1_000_000}M" if rows % 1_000_000 == 0 else f"{rows // 1000}k"
