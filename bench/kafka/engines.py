"""The engines of a trial behind one face: up and warm, then fed, then stopped."""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Protocol

from bench import peers
from bench.kafka.bed import Bed
from bench.kafka.queries import WITHIN, Query, manifest
from bench.kafka.tiers import Tiers, TrialFailed
from bench.peers import PEERS
from bench.peers.environment import PeerIsMissing, interpreter
from infra.jars import FLINK, NoJars, jars_of

START_S = 120.0


class Engine(Protocol):
    """`start` returns when the engine runs, `alive` raises TrialFailed when it does not any more."""

    name: str

    def start(self, bed: Bed, name: str, query: Query, within: str = WITHIN) -> None: ...
    def alive(self) -> None: ...
    def cpu(self) -> str: ...
    def stop(self) -> None: ...


class Biclique:
    name = "Biclique"

    def __init__(self, settings: Mapping[str, str] | None = None, lateness: str = "0s") -> None:
        self._settings, self._lateness = settings or {}, lateness
        self.tiers: Tiers | None = None

    @property
    def about(self) -> str:
        return f"{self.name} {version('biclique')}"

    def start(self, bed: Bed, name: str, query: Query, within: str = WITHIN) -> None:
        written = manifest(query, name, bed.kafka.bootstrap, within=within, lateness=self._lateness)
        self.tiers = Tiers(bed, name, written, self._settings)
        self.tiers.start()

    def alive(self) -> None:
        assert self.tiers is not None
        self.tiers.alive()

    def cpu(self) -> str:
        assert self.tiers is not None
        return ", ".join(f"{tier} {seconds:.1f}" for tier, seconds in self.tiers.cpu_seconds().items())

    def stop(self) -> None:
        if self.tiers is not None:
            self.tiers.stop()


class Flink:
    name = "Flink"

    def __init__(self, backend: str = "hashmap") -> None:
        self._backend = backend
        self._process: subprocess.Popen[bytes] | None = None
        self._folder: Path | None = None

    def start(self, bed: Bed, name: str, query: Query, within: str = WITHIN) -> None:
        peer = next(peer for peer in PEERS if peer.name == self.name)
        try:
            python, (jar,) = interpreter(peer), jars_of(FLINK).glob("*.jar")
        except (PeerIsMissing, NoJars) as missing:
            raise TrialFailed(f"Flink is missing: {missing}") from None
        self._folder = Path(tempfile.mkdtemp(prefix="flink-", dir=bed.scratch))
        driver = Path(peers.__file__).with_name("flink_kafka.py")
        told = ["--workload", query.workload.name, "--columns", query.columns, "--brokers", bed.kafka.bootstrap]
        told += ["--name", name, "--jar", str(jar), "--checkpoints", str(self._folder), "--within", within]
        told += ["--backend", self._backend]
        with (self._folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [python, driver, *told],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                env={**os.environ, "PYTHONWARNINGS": "ignore", "PYTHONPATH": ""},
                start_new_session=True,
            )
        self._wait_until_it_runs()

    def _wait_until_it_runs(self) -> None:
        assert self._process is not None and self._process.stdout is not None
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            if select.select([self._process.stdout], [], [], 1.0)[0]:
                line = self._process.stdout.readline()
                if line.startswith(b"{") and json.loads(line).get("running"):
                    return
                if not line:
                    break
        self.alive()
        raise TrialFailed(f"Flink did not run after {START_S:.0f} s")

    def alive(self) -> None:
        assert self._process is not None and self._folder is not None
        if self._process.poll() is not None:
            said = (self._folder / "log").read_text(errors="replace").strip().splitlines() or ["nothing said"]
            raise TrialFailed(f"Flink ended with {self._process.returncode}: {said[-1][:300]}")

    def cpu(self) -> str:
        return ""

    def stop(self) -> None:
        if self._process is not None:
            if self._process.poll() is None:
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
