"""A Spark cluster of one worker on this machine (Spark's own standalone mode): executors are processes of their own,
which their worker starts, and starts again when they die."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import time
import urllib.request
from pathlib import Path

import pyspark

from infra import processes
from tests.chaos.processes import Found, of_session

HOME = Path(pyspark.__file__).parent
HERE = "127.0.0.1"
DEPLOY = "org.apache.spark.deploy"
CORES = 4


class SparkCluster:
    def __init__(self, folder: Path) -> None:
        port, page = processes.free_port(), processes.free_port()
        self.master, self._page = f"spark://{HERE}:{port}", f"http://{HERE}:{page}/json/"
        self._folder = folder
        listening = ["--host", HERE, "--port", str(port), "--webui-port", str(page)]
        self._master = self._start("master", f"{DEPLOY}.master.Master", *listening, workers=0)
        work = ["--work-dir", str(folder / "work"), "--host", HERE, "--webui-port", str(processes.free_port())]
        room = ["--cores", str(CORES), "--memory", "4g", self.master]
        self._worker = self._start("worker", f"{DEPLOY}.worker.Worker", *work, *room, workers=1)

    def _start(self, name: str, program: str, *arguments: str, workers: int) -> subprocess.Popen[bytes]:
        (self._folder / name).mkdir(parents=True)
        command = ["env", f"SPARK_LOCAL_IP={HERE}", f"SPARK_HOME={HOME}", str(HOME / "bin" / "spark-class"), program]
        return processes.start([*command, *arguments], self._folder / name, lambda: self._workers() == workers)

    def _workers(self) -> int:
        try:
            with urllib.request.urlopen(self._page, timeout=1) as answer:
                return int(json.load(answer)["aliveworkers"])
        except (OSError, http.client.HTTPException, ValueError):  # or a page of its own: it is about to be there
            return -1

    @property
    def executors(self) -> list[Found]:
        """Their Java."""
        return [found for found in of_session(self._worker.pid) if "CoarseGrainedExecutorBackend" in found.command]

    def kill_executor(self) -> int:
        """With nothing but its Java: its Python workers find out by themselves. Returns when another has taken its
        place."""
        (before,) = self.executors
        os.kill(before.pid, signal.SIGKILL)
        deadline = time.monotonic() + 60
        while not (after := [found.pid for found in self.executors if found.pid != before.pid]):
            assert time.monotonic() < deadline, "no other executor was started"
            time.sleep(0.1)
        return after[0]

    def stop(self) -> None:
        for process in (self._worker, self._master):
            processes.stop(process)
