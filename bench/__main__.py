"""`python -m bench`: core, embedded engine, data plane and peers in one run; writes the pages and the pictures.

There are two pages: core, engine and peers (`docs/benchmarks.md`), and the data plane
(`docs/benchmarks-data-plane.md`). Ratios mean something only within one run, so a page among the documents is of one
run of all its parts at full size. Some of the parts (`--only`) or small sizes (`--quick`) show their tables and leave
page and pictures in `bench/out/`.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path

from bench.cases import CORE_CASES, SEMIJOIN_CASES, Case, Scale
from bench.casework import run_case
from bench.engines import Laboratory, Run
from bench.kafka.run import run_trials, scratch_folder
from bench.kafka.trials import TRIALS
from bench.machine import Machine, facts
from bench.peers import PEERS
from bench.peers.environment import cache_folder
from bench.plots import draw_data_plane, draw_engines
from bench.report import LINE_HEAD, RUN_HEAD, data_plane_page, engine_page, line_rows, run_rows, terminal
from bench.verdicts import CaseRun, Line, Verdict, core_lines, rival_lines
from bench.workloads import WORKLOADS

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "bench" / "out"
ENGINE_PARTS = {"core", "engine", "peers"}
PARTS = (*sorted(ENGINE_PARTS), "kafka")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description="The benchmarks, beside the peers.")
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that everything works")
    parser.add_argument("--only", choices=PARTS, action="append", help="a part of it; may be given more than once")
    parser.add_argument("--date", help="the date on the page; default: the commit's")
    asked = parser.parse_args()
    parts = set(asked.only or PARTS)
    machine = facts(ROOT, asked.date)
    print(f"{machine.processor}, {machine.cores} cores, {machine.memory_gib:.0f} GiB; load {machine.load_before:.1f}")
    if machine.busy:
        print("The machine is not idle: every figure below is doubtful.")
    lines: list[Line] = []
    if parts & ENGINE_PARTS:
        lines += _core_and_engines(machine, parts, asked.quick)
    if "kafka" in parts:
        lines += _data_plane(machine, asked.quick)
    return 1 if any(line.verdict is Verdict.NOT_MEASURED for line in lines) else 0


def _core_and_engines(machine: Machine, parts: set[str], quick: bool) -> list[Line]:
    """Rivals are not counted: a peer that is not installed has no figure."""
    cases = _cases(CORE_CASES, quick) if "core" in parts else []
    core = core_lines(cases, judged=not quick)
    if core:
        _show("Core, one thread", terminal(LINE_HEAD, line_rows(core)))
    runs = _engines(quick, "engine" in parts, "peers" in parts)
    rivals = rival_lines(runs, judged=not quick) if "engine" in parts else []
    if runs:
        _show("Engines, files to files", terminal(RUN_HEAD, run_rows(runs)))
    if rivals:
        _show("Biclique beside its peers: their seconds over ours", terminal(LINE_HEAD, line_rows(rivals)))
    whole = not quick and parts >= ENGINE_PARTS
    place = ROOT / "docs" if whole else OUT
    plots = draw_engines(place / "benchmarks", core, cases, runs)
    _write(place / "benchmarks.md", engine_page(machine, core, rivals, runs, plots, whole), len(plots))
    return core


def _data_plane(machine: Machine, quick: bool) -> list[Line]:
    cases = _cases(SEMIJOIN_CASES, quick)
    lines = core_lines([*_kafka(quick), *cases], judged=not quick)
    _show("The data plane, Kafka to Kafka", terminal(LINE_HEAD, line_rows(lines)))
    place = OUT if quick else ROOT / "docs"
    plots = draw_data_plane(place / "benchmarks", lines, cases)
    _write(place / "benchmarks-data-plane.md", data_plane_page(machine, lines, plots, not quick), len(plots))
    return lines


def _write(page: Path, text: str, pictures: int) -> None:
    page.write_text(text)
    print(f"\nwritten: {page.relative_to(ROOT)}, {pictures} pictures")


def _cases(cases: Iterable[Case], quick: bool) -> list[CaseRun]:
    runs = []
    for case in cases:
        print(f"  {case.name} …", file=sys.stderr, flush=True)
        runs.append(run_case(case, quick))
    return runs


def _kafka(quick: bool) -> list[CaseRun]:
    scratch = scratch_folder(OUT)
    try:
        return [run for runs in run_trials(TRIALS, Scale.QUICK if quick else Scale.FULL, scratch) for run in runs]
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _engines(quick: bool, biclique: bool, peers: bool) -> list[Run]:
    runs: list[Run] = []
    if not (biclique or peers):
        return runs
    scratch = OUT / f"scratch-{os.getpid()}"
    laboratory = Laboratory(cache_folder() / "bench", scratch, quick)
    try:
        for workload in WORKLOADS:
            if biclique:
                print(f"  {workload.name}: Biclique …", file=sys.stderr, flush=True)
                runs.append(laboratory.run_biclique(workload))
            for peer in PEERS if peers else ():
                if workload.name in peer.workloads:
                    print(f"  {workload.name}: {peer.name} …", file=sys.stderr, flush=True)
                    runs.append(laboratory.run_peer(peer, workload))
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return runs


def _show(title: str, table: str) -> None:
    print(f"\n{title}\n\n{table}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
