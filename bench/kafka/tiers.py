"""Biclique's side of a trial: the tiers as processes, as a user starts them."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from bench.kafka.bed import Bed
from bench.peers.environment import cache_folder
from infra.jars import CONNECTOR, jars_of

ALL = ("shuffler", "dispatcher", "joiner")
STOP_S = 60.0


class TrialFailed(Exception):
    """The sentence says how."""


class Tiers:
    """`more`: further settings of the tiers' environment."""

    def __init__(self, bed: Bed, name: str, manifest: str, more: Mapping[str, str] | None = None) -> None:
        self.folder = bed.scratch / name
        self.folder.mkdir(parents=True)
        self.manifest = self.folder / "join.yaml"
        self.manifest.write_text(manifest)
        self._environment = {
            **os.environ,
            "NUMBA_CACHE_DIR": os.environ.get("NUMBA_CACHE_DIR") or str(cache_folder() / "numba"),
            "BICLIQUE_REDIS": bed.redis.url,
            "BICLIQUE_CONTROL": str(self.folder / "control"),
            "BICLIQUE_JARS": str(jars_of(CONNECTOR)),
            **(more or {}),
        }
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, tiers: Sequence[str] = ALL) -> None:
        for tier in tiers:
            with (self.folder / f"{tier}.log").open("ab") as log:
                self.processes[tier] = subprocess.Popen(
                    [Path(sys.executable).with_name("biclique"), "tier", tier, self.manifest],
                    env=self._environment,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )

    @property
    def is_founded(self) -> bool:
        """Topics are there, and every owner has its first progress."""
        return (self.folder / "control" / "tables" / "0.json").exists()

    def alive(self) -> None:
        for tier, process in self.processes.items():
            if process.poll() is not None:
                said = (self.folder / f"{tier}.log").read_text(errors="replace").strip().splitlines()
                raise TrialFailed(f"the {tier} ended with {process.returncode}: {said[-1] if said else 'nothing said'}")

    def kill(self, tier: str) -> None:
        process = self.processes.pop(tier)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def workers(self, tier: str) -> list[psutil.Process]:
        """The Python processes in which a tier's units run."""
        forked: list[psutil.Process] = []
        for each in psutil.Process(self.processes[tier].pid).children(recursive=True):
            with suppress(psutil.Error):  # it has ended meanwhile
                if "pyspark.worker" in " ".join(each.cmdline()):
                    forked.append(each)
        return [each for each in forked if each.ppid() in {other.pid for other in forked}]

    def cpu_seconds(self) -> dict[str, float]:
        """Of each tier, with its children, dead or alive."""
        spent: dict[str, float] = {}
        for tier, process in self.processes.items():
            top = psutil.Process(process.pid)
            spent[tier] = 0.0
            for each in (top, *top.children(recursive=True)):
                with suppress(psutil.Error):
                    times = each.cpu_times()
                    spent[tier] += times.user + times.system + times.children_user + times.children_system
        return spent

    def stop(self) -> None:
        stop_file = self.folder / "control" / "stop"
        stop_file.parent.mkdir(exist_ok=True)
        stop_file.touch()
        deadline = time.monotonic() + STOP_S
        for process in self.processes.values():
            try:
                process.wait(max(1.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        self.processes.clear()

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)
