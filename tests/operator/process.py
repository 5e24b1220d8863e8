"""The operator as a process beside the API server, as a person runs it from a checkout; and a way to that server which
can fall silent."""

from __future__ import annotations

import os
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import yaml

from infra import processes
from tests.chaos.relay import Relay


@contextmanager
def operator_process(kubeconfig: Path, folder: Path, told: Mapping[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """Called as its `folder`, where its log is. `told`: by its environment, as a Deployment does it."""
    folder.mkdir(exist_ok=True)
    own = {"POD_NAME": folder.name, "BICLIQUE_HEALTH_PORT": str(processes.free_port())}
    command = [sys.executable, "-m", "biclique_operator", "run", "--kubeconfig", str(kubeconfig)]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, env={**os.environ, **own, **told}, stdout=log, stderr=log)
        try:
            yield process
        finally:
            process.kill()
            process.wait()


@contextmanager
def relayed(kubeconfig: Path, folder: Path) -> Iterator[tuple[Relay, Path]]:
    """A relay before the API server, and whose kubeconfig leads through it."""
    known = yaml.safe_load(kubeconfig.read_text())
    cluster = known["clusters"][0]["cluster"]
    relay = Relay(processes.free_port(), int(cluster["server"].rpartition(":")[2]))
    cluster["server"] = f"https://127.0.0.1:{relay.port}"
    through = folder / "kubeconfig"
    through.write_text(yaml.safe_dump(known))
    try:
        yield relay, through
    finally:
        relay.close()


def probed(port: int, page: str) -> tuple[int, str]:
    """As the kubelet asks it."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/{page}", timeout=5) as answer:
            return answer.status, answer.read().decode().strip()
    except urllib.error.HTTPError as refusal:
        return refusal.code, refusal.read().decode().strip()
