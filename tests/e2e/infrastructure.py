"""What the tests on a cluster do with `infra`: its commands, as a person gives them, and the processes of the test
cluster's that they end or stop."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from infra.cluster.node import Node

ROOT = Path(__file__).resolve().parents[2]


def infra(*words: str) -> None:
    subprocess.run([sys.executable, "-m", *words], cwd=ROOT, check=True, timeout=600)


@dataclass(frozen=True)
class Kubelet:
    """The test cluster's, which is a process of this machine."""

    node: Node

    def kill(self) -> None:
        process = self.node.kubelet.process
        assert process is not None, "it runs"
        process.kill()

    def kill_what_runs(self, uid: str) -> None:
        """In a pod of its node, at once, without a word to anybody; whatever its containers are, they run no more."""
        for process in _running(uid):
            with suppress(psutil.NoSuchProcess):
                process.kill()

    @contextmanager
    def stops_what_runs(self, uid: str) -> Iterator[None]:
        """In a pod of its node, as long as this is: nothing of it is told, and it goes on as if no time had passed."""
        stopped = _running(uid)
        for process in stopped:
            process.suspend()
        try:
            yield
        finally:
            for process in stopped:
                process.resume()

    def start(self) -> None:
        """As whoever finds the cluster with a part missing; where nothing is, this changes nothing."""
        infra("infra.cluster", "up")


def _running(uid: str) -> list[psutil.Process]:
    found = [process for process in psutil.process_iter() if _is_of(process, uid)]
    assert found, "its processes are this machine's"
    return found


def _is_of(process: psutil.Process, uid: str) -> bool:
    try:
        return f"/pod{uid}/" in Path(f"/proc/{process.pid}/cgroup").read_text()
    except OSError:
        return False  # it has ended
