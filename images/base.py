"""The base of our images where no registry can be reached: Debian with its Python, put together of its packages by
debootstrap, with the signatures that apt knows, from the mirror that this machine itself takes packages from."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from images.engine import Engine, NotBuilt

PUBLIC = "docker.io/library/python:3.11-slim-bookworm"
OWN = "localhost/debian:bookworm"
SUITE = "bookworm"
PACKAGES = ("ca-certificates", "python3", "python3-venv")
PULL_LIMIT_S = 120.0


def found_or_made(engine: Engine) -> str:
    """What was made here once is taken again: the images upon it then keep their layers."""
    if engine.program != "buildah":
        return PUBLIC
    if not engine.has(OWN):
        if engine.has(PUBLIC) or engine.pulls(PUBLIC, PULL_LIMIT_S):
            return PUBLIC
        _make(engine)
    return OWN


def _make(engine: Engine) -> None:
    if os.geteuid() != 0 or shutil.which("debootstrap") is None:
        raise NotBuilt("no registry serves the base, and to make one needs root and debootstrap; or name one: --base")
    print(f"no registry serves {PUBLIC}: {OWN} is made of Debian's packages", flush=True)
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(temporary) / "root"
        command = ["debootstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}", SUITE, str(root), mirror()]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode:
            raise NotBuilt(f"debootstrap failed:\n{done.stdout[-2000:]}")
        for needless in ("var/cache/apt/archives", "var/lib/apt/lists"):
            shutil.rmtree(root / needless)
            (root / needless / "partial").mkdir(parents=True)
        container = engine.said("from", "scratch", otherwise=f"{OWN} was not begun")
        try:
            engine.said("add", "--quiet", container, str(root), "/", otherwise=f"{OWN} was not filled")
            engine.said("config", "--cmd", "python3", container, otherwise=f"{OWN} was not described")
            engine.said("commit", "--quiet", container, OWN, otherwise=f"{OWN} was not kept")
        finally:
            engine.said("rm", container, otherwise=f"{container} was left behind")


def mirror() -> str:
    """The first that apt on this machine is told of, in either of its notations."""
    listed = [Path("/etc/apt/sources.list"), *sorted(Path("/etc/apt/sources.list.d").glob("*"))]
    for path in listed:
        if path.suffix in (".list", ".sources") and path.exists():
            found = re.search(r"^(?:URIs:|deb(?: \[.*?\])?)\s+(\S+)", path.read_text(), re.MULTILINE)
            if found:
                return found.group(1)
    raise NotBuilt("apt on this machine names no mirror of Debian's: name a base instead, --base")
