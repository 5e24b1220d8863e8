"""Java's classes as they lie in memory when Spark has loaded them, kept in a file: a Java that maps it in starts with
half the CPU, and several of them share its pages.

`biclique prepare` makes the file, in the user's cache. Its name stands for what it depends on, so another Java or
another Spark finds none; and Java itself looks whether it fits, and goes on without it where it does not.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

# At the addresses that it was made for. Moved, as Java does by default, all its 150 MB are each process's own.
IN_PLACE = "-XX:+UnlockDiagnosticVMOptions -XX:ArchiveRelocationMode=0"
QUIET = "-Xlog:cds=off -Xlog:cds+dynamic=off"  # of classes that cannot be kept, and of a file that does not fit


def java_of_this_machine() -> Path | None:
    """The one that Spark takes."""
    home = os.environ.get("JAVA_HOME")
    java = Path(home) / "bin" / "java" if home else shutil.which("java")
    return Path(java) if java is not None and Path(java).exists() else None


def archive_path() -> Path:
    java, spark = java_of_this_machine(), find_spec("pyspark")
    assert java is not None and spark is not None
    real = java.resolve()
    about = (str(real), real.stat().st_mtime_ns, version("pyspark"), spark.origin)
    name = hashlib.sha256(repr(about).encode()).hexdigest()[:16]
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "biclique" / "java" / f"{name}.jsa"


def mapped_in() -> str:
    """Options of a Java that is to start with them, where they are kept."""
    path = archive_path()
    return f'"-XX:SharedArchiveFile={path}" {IN_PLACE} {QUIET}' if path.exists() else ""
