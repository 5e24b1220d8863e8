"""What a figure depends on besides the code: machine, versions, commit. No clock: the date is the commit's."""

from __future__ import annotations

import os
import platform
import subprocess
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

SHOWN_PACKAGES = ("numpy", "numba", "pyarrow", "pyspark", "duckdb", "polars")
BUSY_LOAD = 0.5


@dataclass(frozen=True)
class Machine:
    processor: str
    cores: int
    memory_gib: float
    system: str
    java: str
    packages: str
    commit: str
    date: str
    load_before: float  # of the last minute, before the first case: others' work makes every figure doubtful

    @property
    def busy(self) -> bool:
        return self.load_before > BUSY_LOAD


def facts(root: Path, date: str | None) -> Machine:
    described = _said(["git", "-C", str(root), "show", "-s", "--format=%h %cs", "HEAD"]).split()
    commit, commit_date = described if len(described) == 2 else ("unknown", "unknown")
    changed = _said(["git", "-C", str(root), "status", "--porcelain", "--untracked-files=no"])
    java = _said(["java", "-version"])
    return Machine(
        processor=_field(Path("/proc/cpuinfo"), "model name") or platform.processor(),
        cores=len(os.sched_getaffinity(0)),
        memory_gib=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30,
        system=f"{platform.system()} {platform.release()}, Python {platform.python_version()}",
        java=java.splitlines()[0] if java else "none",
        packages=", ".join(f"{name} {version(name)}" for name in SHOWN_PACKAGES),
        commit=commit + (" with changes" if changed else ""),
        date=date or commit_date,
        load_before=os.getloadavg()[0],
    )


def _said(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return ""
    return (done.stdout or done.stderr).strip() if done.returncode == 0 else ""


def _field(path: Path, name: str) -> str:
    if not path.exists():
        return ""
    return next((line.split(":", 1)[1].strip() for line in path.read_text().splitlines() if line.startswith(name)), "")
