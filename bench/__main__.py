"""`python -m bench`: core, embedded engine, data plane and peers in one run; writes the page and the pictures.

Only a whole run at full size writes `docs/benchmarks.md`: ratios mean something only within one run. A part of it
(`--only`) or small sizes (`--quick`) show their tables and leave page and pictures in `bench/out/`.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from pathlib import Path

from bench.cases import CASES, Scale
from bench.casework import run_case
from bench.engines import Laboratory, Run
from bench.kafka.run import run_trials, scratch_folder
from bench.kafka.trials import TRIALS
from bench.machine import facts
from bench.peers import PEERS
from bench.peers.environment import cache_folder
from bench.plots import draw
from bench.report import LINE_HEAD, RUN_HEAD, line_rows, page, run_rows, terminal
from bench.verdicts import CaseRun, Verdict, core_lines, rival_lines
from bench.workloads import WORKLOADS

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "bench" / "out"
PARTS = ("core", "engine", "peers", "kafka")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description="The benchmarks, beside the peers.")
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that everything works")
    parser.add_argument("--only", choices=PARTS, action="append", help="a part of it; may be given more than once")
    parser.add_argument("--date", help="the date on the page; default: the commit's")
    asked = parser.parse_args()
    parts = asked.only or PARTS
    whole = not asked.quick and set(parts) == set(PARTS)
    machine = facts(ROOT, asked.date)
    print(f"{machine.processor}, {machine.cores} cores, {machine.memory_gib:.0f} GiB; load {machine.load_before:.1f}")
    if machine.busy:
        print("The machine is not idle: every figure below is doubtful.")

    cases = _core(asked.quick) if "core" in parts else []
    core = core_lines(cases, judged=not asked.quick)
    if core:
        _show("Core, one thread", terminal(LINE_HEAD, line_rows(core)))
    runs = _engines(asked.quick, "engine" in parts, "peers" in parts)
    rivals = rival_lines(runs, judged=not asked.quick) if "engine" in parts else []
    if runs:
        _show("Engines, files to files", terminal(RUN_HEAD, run_rows(runs)))
    if rivals:
        _show("Biclique beside its peers: their seconds over ours", terminal(LINE_HEAD, line_rows(rivals)))

    kafka = core_lines(_kafka(asked.quick), judged=not asked.quick) if "kafka" in parts else []
    if kafka:
        _show("The data plane, Kafka to Kafka", terminal(LINE_HEAD, line_rows(kafka)))

    place = ROOT / "docs" if whole else OUT
    plots = draw(place / "benchmarks", core, cases, runs, kafka)
    (place / "benchmarks.md").write_text(page(machine, core, rivals, runs, kafka, plots, whole))
    print(f"\nwritten: {(place / 'benchmarks.md').relative_to(ROOT)}, {len(plots)} pictures")
    return 1 if any(line.verdict is Verdict.NOT_MEASURED for line in (*core, *kafka)) else 0


def _core(quick: bool) -> list[CaseRun]:
    runs = []
    for case in CASES:
        print(f"  core: {case.name} …", file=sys.stderr, flush=True)
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
