"""The jars that this repository needs beside Spark's own, by checksum: a broker's, and Spark's Kafka connector.

Set-up fetches a set once, into a cache outside the checkout; nothing is fetched at run time. Spark brings Ivy with it,
and Ivy knows where Maven Central is, so a fresh machine needs neither Maven nor an address written here. What arrives
is compared with `jars.lock` before it is used: a jar that is not in the lock, or differs from it, is refused.

    python -m infra.jars fetch            every set
    python -m infra.jars lock             write jars.lock anew, after a version below was changed
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

LOCK = Path(__file__).with_name("jars.lock")
TIME_LIMIT_S = 600


@dataclass(frozen=True)
class JarSet:
    """`modules`: organisation, name, version. `transitive`: with all that they depend on at run time."""

    name: str
    modules: tuple[tuple[str, str, str], ...]
    transitive: bool


BROKER = JarSet(
    "broker",
    (("org.apache.kafka", "kafka_2.13", "4.3.1"), ("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.4")),
    transitive=True,
)
# The token provider only handles delegation tokens, which we do not use; 4.0.0 is the last one published.
CONNECTOR = JarSet(
    "connector",
    (
        ("org.apache.spark", "spark-sql-kafka-0-10_2.13", "4.2.0"),
        ("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", "4.0.0"),
        ("org.apache.kafka", "kafka-clients", "3.9.2"),
        ("org.apache.commons", "commons-pool2", "2.13.1"),
    ),
    transitive=False,
)
# For the benchmarks' peer: one jar with all that it needs. 2.2 is the newest line of Flink that it was published for,
# and 2.3 takes it.
FLINK = JarSet("flink", (("org.apache.flink", "flink-sql-connector-kafka", "5.0.0-2.2"),), transitive=False)
SETS = (BROKER, FLINK, CONNECTOR)


class NoJars(Exception):
    """They are not in the cache, and Maven Central did not give them, or gave others than the lock names."""


def cache_folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "biclique"


def jars_of(jar_set: JarSet, retrieve: Callable[[JarSet, Path], None] | None = None) -> Path:
    """The folder with exactly this set's jars, fetched (by `retrieve`, into an empty folder) if it is not there yet."""
    wanted = read_lock()[jar_set.name]
    mark = hashlib.sha256(repr(sorted(wanted.items())).encode()).hexdigest()[:16]
    folder = cache_folder() / "jars" / f"{jar_set.name}-{mark}"
    if folder.is_dir():
        return folder
    with tempfile.TemporaryDirectory(dir=_made(folder.parent)) as temporary:
        (retrieve or _retrieve)(jar_set, Path(temporary) / "jars")
        found = _checksums(Path(temporary) / "jars")
        if found != wanted:
            names = sorted(name for name in found.keys() | wanted.keys() if found.get(name) != wanted.get(name))
            raise NoJars(f"{jar_set.name}: not what infra/jars.lock names: {', '.join(names)}")
        try:
            (Path(temporary) / "jars").rename(folder)
        except OSError:
            if not folder.is_dir():  # another process was quicker: theirs was checked too
                raise
    return folder


def read_lock() -> dict[str, dict[str, str]]:
    sets: dict[str, dict[str, str]] = {}
    for line in LOCK.read_text().splitlines():
        if line and not line.startswith("#"):
            checksum, _, path = line.partition("  ")
            name, _, jar = path.partition("/")
            sets.setdefault(name, {})[jar] = checksum
    return sets


def write_lock() -> None:
    lines = ["# Made by `python -m infra.jars lock`: SHA-256, set and jar."]
    for jar_set in SETS:
        with tempfile.TemporaryDirectory() as temporary:
            _retrieve(jar_set, Path(temporary) / "jars")
            found = _checksums(Path(temporary) / "jars")
        lines += [f"{checksum}  {jar_set.name}/{jar}" for jar, checksum in sorted(found.items())]
    LOCK.write_text("\n".join(lines) + "\n")


def _checksums(folder: Path) -> dict[str, str]:
    return {jar.name: hashlib.sha256(jar.read_bytes()).hexdigest() for jar in folder.iterdir()}


def _retrieve(jar_set: JarSet, target: Path) -> None:
    dependencies = "\n".join(
        f'    <dependency org="{organisation}" name="{name}" rev="{version}" force="true" '
        f'conf="default->{"master,runtime" if jar_set.transitive else "master"}"/>'
        for organisation, name, version in jar_set.modules
    )
    module = target.parent / "ivy.xml"
    module.write_text(
        '<ivy-module version="2.0">\n'
        f'  <info organisation="biclique" module="{jar_set.name}"/>\n'
        '  <configurations><conf name="default"/></configurations>\n'
        f"  <dependencies>\n{dependencies}\n  </dependencies>\n</ivy-module>\n"
    )
    command = ["java", "-jar", str(_ivy()), "-ivy", str(module), "-cache", str(target.parent / "ivy"), "-warn"]
    command += ["-retrieve", f"{target}/[artifact]-[revision].[ext]", "-types", "jar", "bundle"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIME_LIMIT_S)
    if done.returncode or not target.is_dir():
        raise NoJars(f"The jars of {jar_set.name} did not come; is Maven Central reachable?\n{done.stdout[-2000:]}")
    shutil.rmtree(target.parent / "ivy")


def _ivy() -> Path:
    spec = find_spec("pyspark")
    assert spec is not None and spec.origin is not None, "pyspark is installed by set-up"
    (jar,) = (Path(spec.origin).parent / "jars").glob("ivy-*.jar")
    return jar


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verb", choices=("fetch", "lock"))
    if parser.parse_args().verb == "lock":
        write_lock()
        return
    for jar_set in SETS:
        try:
            print(jars_of(jar_set))
        except NoJars as difference:
            sys.exit(str(difference))


if __name__ == "__main__":
    main()
