"""Runs a core case in a process of its own, one thread, and takes its answer or the reason why there is none."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from bench.cases import Case, Measured, Scale
from bench.peers.environment import cache_folder
from bench.verdicts import CaseRun

ROOT = Path(__file__).resolve().parents[1]
CASE_SECONDS_MAX = 300
THREADS = ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "ARROW_NUM_THREADS")


def run_case(case: Case, quick: bool) -> CaseRun:
    scale = Scale.QUICK if quick else Scale.FULL
    environment = {**os.environ, **dict.fromkeys(THREADS, "1")}
    environment.setdefault("NUMBA_CACHE_DIR", str(cache_folder() / "numba"))
    command = [sys.executable, "-m", "bench.cases", case.name, scale.value]
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=CASE_SECONDS_MAX, check=False
        )
    except subprocess.TimeoutExpired:
        return CaseRun(case, None, f"not finished after {CASE_SECONDS_MAX} s")
    if done.returncode:
        return CaseRun(case, None, (done.stderr.strip() or "nothing said").splitlines()[-1][:300])
    answer = json.loads(done.stdout.splitlines()[-1])
    points = tuple((x, y) for x, y in answer["points"])
    return CaseRun(case, Measured(answer["value"], points, answer["note"]))
