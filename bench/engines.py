"""Runs of whole engines, files to files, each in a process of its own; Biclique's and its peers' by the same rules.

A run answers with seconds and a fingerprint of its pairs. One that cannot be installed, fails, takes too long or
answers wrongly has a sentence instead of seconds, and the others go on.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import yaml

from bench import peers
from bench.data import dataset
from bench.peers.environment import PeerIsMissing, interpreter
from bench.workloads import Fingerprint, Workload, expected, fingerprint

DRIVERS = Path(peers.__file__).parent
RUN_SECONDS_MAX = 600
BICLIQUE = "Biclique"


@dataclass(frozen=True)
class Run:
    """`seconds` None: no figure, and `why` says so. `process_seconds`: all that the clock left out as well, from the
    command to its exit: a JVM's start, imports, and for a peer its warm-up."""

    engine: str
    workload: str
    rows: int
    seconds: float | None = None
    process_seconds: float = 0.0
    pairs: int = 0
    version: str = ""
    how: str = ""
    why: str = ""
    batch: bool = False

    @property
    def tuples_per_second(self) -> float | None:
        return None if self.seconds is None else 2 * self.rows / self.seconds


class RunFailed(Exception):
    """The sentence says how."""


class Laboratory:
    """Data sets made once, expected answers computed once, output thrown away."""

    def __init__(self, data: Path, scratch: Path, quick: bool) -> None:
        self._data, self._scratch, self._quick = data, scratch, quick
        self._expected: dict[tuple[str, int], Fingerprint] = {}

    def run_peer(self, peer: peers.Peer, workload: Workload) -> Run:
        rows = workload.size(self._quick, workload.name in peer.nested)
        blank = Run(peer.name, workload.name, rows, batch=peer.batch)
        output = self._scratch / peer.name
        try:
            python = interpreter(peer)
            data, warm_up = self._sets(workload, rows)
            told = ["--workload", workload.name, "--rows", str(rows), "--data", str(data)]
            told += ["--warm-up", str(warm_up), "--output", str(output)]
            said, process_seconds = _finished([str(python), str(DRIVERS / peer.driver), *told])
            answer = _last_json(said)
            pairs = self._judged(workload, rows, peer.pairs.format(output=output))
        except PeerIsMissing as missing:
            return Run(**{**vars(blank), "why": f"missing: {missing}"})
        except RunFailed as failed:
            return Run(**{**vars(blank), "why": str(failed)})
        finally:
            shutil.rmtree(output, ignore_errors=True)
            shutil.rmtree(output.with_name(output.name + ".checkpoint"), ignore_errors=True)
        return Run(
            peer.name,
            workload.name,
            rows,
            float(answer["seconds"]),
            process_seconds,
            pairs,
            str(answer["version"]),
            str(answer["how"]),
            batch=peer.batch,
        )

    def run_biclique(self, workload: Workload) -> Run:
        """The command that a user types. Its warm-up is a run over little data before, which leaves compiled kernels in
        numba's cache; the seconds are its own account, from the start of reading to the last file committed."""
        rows = workload.size(self._quick, nested=False)
        output = self._scratch / BICLIQUE
        try:
            seconds, process_seconds = 0.0, 0.0
            for data in reversed(self._sets(workload, rows)):
                shutil.rmtree(output, ignore_errors=True)
                output.mkdir(parents=True)
                manifest = output / "join.yaml"
                manifest.write_text(yaml.safe_dump(_manifest(workload, data), sort_keys=False))
                command = [str(Path(sys.executable).with_name("biclique")), "run", str(manifest), "--json"]
                said, process_seconds = _finished(command)
                seconds = float(_last_json(said)["seconds"])
            pairs = self._judged(
                workload, rows, f"SELECT r_id, s_id FROM read_parquet('{output}/pairs/*.parquet', union_by_name = true)"
            )
        except RunFailed as failed:
            return Run(BICLIQUE, workload.name, rows, why=str(failed))
        finally:
            shutil.rmtree(output, ignore_errors=True)
        how = "biclique run, embedded engine, parquet to parquet, a result id beside every pair"
        return Run(BICLIQUE, workload.name, rows, seconds, process_seconds, pairs, version("biclique"), how)

    def _sets(self, workload: Workload, rows: int) -> tuple[Path, Path]:
        """The data and, a fiftieth of it, the warm-up."""
        return dataset(self._data, workload.kind, rows), dataset(self._data, workload.kind, rows // 50)

    def _judged(self, workload: Workload, rows: int, pairs: str) -> int:
        if (workload.name, rows) not in self._expected:
            self._expected[workload.name, rows] = expected(workload, dataset(self._data, workload.kind, rows))
        right, found = self._expected[workload.name, rows], fingerprint(pairs)
        if found != right:
            raise RunFailed(
                f"wrong answer: {found[0]:,} pairs with sums {found[1:]}, and not {right[0]:,} with {right[1:]}"
            )
        return found[0]


def _manifest(workload: Workload, data: Path) -> dict[str, Any]:
    schema = "serial INT, a INT" + (", b INT" if workload.kind == "dominance" else "")
    sources = [
        {"name": side, "schema": schema, "files": {"path": str(data / "parquet" / side), "format": "parquet"}}
        for side in ("r", "s")
    ]
    return {
        "apiVersion": "biclique.dev/v1alpha1",
        "kind": "JoinQuery",
        "metadata": {"name": "bench"},
        "spec": {
            "sources": sources,
            "sql": f"SELECT r.serial AS r_id, s.serial AS s_id FROM r JOIN s ON {workload.condition}",
            "output": {"files": {"path": "pairs", "format": "parquet"}},
        },
    }


def _finished(command: Sequence[str]) -> tuple[str, float]:
    """What the command printed, and its seconds in all. A group of its own: a JVM it started ends with it."""
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
    begin = time.perf_counter()
    try:
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
            start_new_session=True,
        )
    except FileNotFoundError:
        raise RunFailed(f"there is no {Path(command[0]).name}") from None
    try:
        said, complained = process.communicate(timeout=RUN_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        raise RunFailed(f"not finished after {RUN_SECONDS_MAX} s") from None
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    if process.returncode:
        last = (complained.strip() or said.strip() or "nothing said").splitlines()[-1]
        raise RunFailed(f"ended with {process.returncode}: {last[:300]}")
    return said, time.perf_counter() - begin


def _last_json(said: str) -> dict[str, Any]:
    for line in reversed(said.splitlines()):
        if line.startswith("{"):
            answer: dict[str, Any] = json.loads(line)
            return answer
    raise RunFailed("it gave no answer")
