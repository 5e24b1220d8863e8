"""`python -m bench.kafka [NAME …]`: trials by name, or all of them; a table, or with `--json` one line a figure."""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import sys
from dataclasses import asdict
from pathlib import Path

from bench.cases import Scale
from bench.kafka.run import run_trials, scratch_folder
from bench.kafka.trials import TRIALS
from bench.report import LINE_HEAD, line_rows, terminal
from bench.verdicts import Line, Verdict, core_lines

OUT = Path(__file__).resolve().parents[1] / "out"


def main() -> int:
    names = [trial.name for trial in TRIALS]
    parser = argparse.ArgumentParser(prog="python -m bench.kafka", description=__doc__)
    parser.add_argument("name", nargs="*", help=f"of {', '.join(names)}; default: all")
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that everything works")
    parser.add_argument("--json", action="store_true", help="a JSON object a figure, and no table")
    parser.add_argument("--list", action="store_true", help="names of trials and figures")
    asked = parser.parse_args()
    if asked.list:
        for trial in TRIALS:
            print(f"{trial.name:<18} {'; '.join(figure.name for figure in trial.figures)}")
        return 0
    if unknown := set(asked.name) - set(names):
        parser.error(f"there is no {', '.join(sorted(unknown))}: choose from {', '.join(names)}")
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # servers and tiers end with us
    scale, scratch = Scale.QUICK if asked.quick else Scale.FULL, scratch_folder(OUT)
    try:
        chosen = [trial for trial in TRIALS if not asked.name or trial.name in asked.name]
        lines: list[Line] = []
        for runs in run_trials(chosen, scale, scratch, OUT / "logs"):
            fresh = core_lines(runs, judged=not asked.quick)
            lines += fresh
            for line in fresh if asked.json else ():
                print(json.dumps({**asdict(line), "verdict": line.verdict.value}, ensure_ascii=False), flush=True)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    if not asked.json:
        print(terminal(LINE_HEAD, line_rows(lines)))
    return 1 if any(line.verdict is Verdict.NOT_MEASURED for line in lines) else 0


if __name__ == "__main__":
    sys.exit(main())
