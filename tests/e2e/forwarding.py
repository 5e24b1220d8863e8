"""A first look's Kafka under an address of this machine, as a person has it: `kubectl port-forward`."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from infra import processes
from tests.e2e.kube import Kube

PORT = processes.FORWARDED  # which the broker tells those to come to who came by it
SERVERS = f"localhost:{PORT}"
PAUSE_S = 0.5


@contextmanager
def forwarded(kube: Kube, target: str) -> Iterator[str]:
    """Where `target`, such as deployment/biclique-kafka, is reached. Begun anew whenever it ends: it does with the pod
    behind it."""
    ended = threading.Event()
    running: list[subprocess.Popen[bytes]] = []

    def forward() -> None:
        while not ended.is_set():
            running[:] = [kube.started("port-forward", target, str(PORT))]
            running[0].wait()
            ended.wait(PAUSE_S)

    thread = threading.Thread(target=forward, daemon=True)
    thread.start()
    try:
        yield SERVERS
    finally:
        ended.set()
        for process in running:
            process.kill()
        thread.join(5)
