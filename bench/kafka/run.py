"""Runs trials one after the other, each on servers of its own, so that none inherits another's load."""

from __future__ import annotations

import os
import shutil
import sys
import traceback
from collections.abc import Iterable, Iterator
from pathlib import Path

from bench.cases import Scale
from bench.kafka.bed import bed
from bench.kafka.tiers import TrialFailed
from bench.kafka.trials import Trial
from bench.peers.environment import cache_folder
from bench.verdicts import CaseRun
from infra.jars import NoJars
from infra.processes import DidNotStart


def run_trials(
    trials: Iterable[Trial], scale: Scale, scratch: Path, keep_logs: Path | None = None
) -> Iterator[list[CaseRun]]:
    """Each trial's figures when it is over."""
    for trial in trials:
        print(f"  Kafka: {trial.name} …", file=sys.stderr, flush=True)
        yield _run(trial, scale, scratch / trial.name, keep_logs)


def _run(trial: Trial, scale: Scale, scratch: Path, keep_logs: Path | None) -> list[CaseRun]:
    scratch.mkdir(parents=True)
    try:
        with bed(scratch) as made:
            found = trial.run(made, cache_folder() / "bench", scale)
    except (TrialFailed, DidNotStart, NoJars) as failure:
        found = {figure.name: str(failure) for figure in trial.figures}
    except Exception as failure:  # a fault of the trial's own: the other trials go on
        traceback.print_exc()
        found = {figure.name: f"the trial broke: {type(failure).__name__}: {failure}"[:300] for figure in trial.figures}
    finally:
        if keep_logs is not None:
            _keep(scratch, keep_logs / trial.name)
        shutil.rmtree(scratch, ignore_errors=True)
    runs = []
    for figure in trial.figures:
        answer = found.get(figure.name, "the trial did not come to it")
        runs.append(CaseRun(figure, None, answer) if isinstance(answer, str) else CaseRun(figure, answer))
    return runs


def _keep(scratch: Path, target: Path) -> None:
    for log in (*scratch.glob("*/*.log"), *scratch.glob("flink-*/log")):
        target.mkdir(parents=True, exist_ok=True)
        shutil.copy(log, target / f"{log.parent.name}-{log.name}")


def scratch_folder(out: Path) -> Path:
    return out / f"kafka-{os.getpid()}"
