"""A peer's own virtual environment, outside the checkout: made once, made again when its requirements change.

It is made whole or not at all: the stamp, a copy of the requirements, is written last.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from bench.peers import Peer

HERE = Path(__file__).resolve().parent
INSTALL_SECONDS_MAX = 900


class PeerIsMissing(Exception):
    """The sentence says why."""


def cache_folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "biclique"


def interpreter(peer: Peer) -> Path:
    if peer.needs_java and not _java():
        raise PeerIsMissing("it needs Java, and there is none")
    if peer.requirements is None:
        return Path(sys.executable)
    requirements = HERE / peer.requirements
    folder = cache_folder() / "peers" / peer.name.lower()
    python, stamp = folder / "bin" / "python", folder / "requirements.installed"
    if not stamp.exists() or stamp.read_text() != requirements.read_text():
        shutil.rmtree(folder, ignore_errors=True)
        _run([sys.executable, "-m", "venv", str(folder)])
        _run([str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", str(requirements)])
        stamp.write_text(requirements.read_text())
    return python


def _java() -> bool:
    home = os.environ.get("JAVA_HOME")
    return (Path(home) / "bin" / "java").exists() if home else shutil.which("java") is not None


def _run(command: list[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_SECONDS_MAX, check=False)
    except subprocess.TimeoutExpired:
        raise PeerIsMissing(f"its installation took more than {INSTALL_SECONDS_MAX} s") from None
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines() or ["no reason given"]
        raise PeerIsMissing(f"it could not be installed: {said[-1]}")
