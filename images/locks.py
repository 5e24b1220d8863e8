"""What an image installs: of requirements.lock those packages that its own package needs at run time, hashes and all.

The lock tells of each package who asked for it (`# via`), so nothing is resolved anew, and nothing is fetched: an image
has exactly the versions that the tests have. `make lock` writes these files; a test compares them.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LOCK = ROOT / "requirements.lock"
JOBS, OPERATOR = ROOT / "jobs" / "pyproject.toml", ROOT / "operator" / "pyproject.toml"
BACKEND = {"hatchling"}  # our own package is made in the image, without a network
HEADER = "# Made by `make lock` out of requirements.lock: what {} needs, and nothing of what tests do.\n"


@dataclass(frozen=True)
class Pinned:
    """`text`: its lines, without the remarks. `wanted_by`: names of packages."""

    name: str
    text: str
    wanted_by: frozenset[str]


def image_locks() -> dict[Path, str]:
    """Path → what should stand there."""
    pinned = read_lock(LOCK.read_text())
    return {
        Path(f"images/{image}/requirements.lock"): HEADER.format(f"images/{image}") + needed(pinned, roots | BACKEND)
        for image, roots in (
            ("spark", dependencies(JOBS, extras_of(JOBS))),
            ("operator", dependencies(OPERATOR)),
        )
    }


def read_lock(text: str) -> tuple[Pinned, ...]:
    found = []
    for entry in re.split(r"^(?=\S)", text, flags=re.MULTILINE):
        if entry.strip() and not entry.startswith("#"):
            lines = entry.splitlines()
            remarks = " ".join(line.strip(" #") for line in lines if line.lstrip().startswith("#"))
            kept = "\n".join(line for line in lines if not line.lstrip().startswith("#"))
            found.append(Pinned(name_of(entry), kept, frozenset(map(name_of, remarks.removeprefix("via").split()))))
    return tuple(found)


def name_of(requirement: str) -> str:
    """`Foo_Bar[x]>=1` is `foo-bar`."""
    name = re.match(r"[A-Za-z0-9._-]*", requirement.strip())
    assert name is not None
    return re.sub(r"[-_.]+", "-", name.group()).lower()


def dependencies(project: Path, extras: Iterable[str] = ()) -> set[str]:
    """Names. Where it asks for our own package, in its place what that asks for."""
    told = tomllib.loads(project.read_text())["project"]
    lists = [told["dependencies"], *(told["optional-dependencies"][extra] for extra in extras)]
    found = set()
    for requirement in (requirement for each in lists for requirement in each):
        if name_of(requirement) == "biclique":
            found |= dependencies(JOBS, re.findall(r"[\w-]+", requirement.partition("[")[2].partition("]")[0]))
        else:
            found.add(name_of(requirement))
    return found


def extras_of(project: Path) -> list[str]:
    return list(tomllib.loads(project.read_text())["project"]["optional-dependencies"])


def needed(pinned: Iterable[Pinned], roots: set[str]) -> str:
    """The roots, whatever they asked for, whatever that asked for, and so on, in the lock's order."""
    entries = tuple(pinned)
    absent = roots - {entry.name for entry in entries}
    assert not absent, f"requirements.in lacks {', '.join(sorted(absent))}"
    names, before = set(roots), 0
    while len(names) > before:
        before = len(names)
        names |= {entry.name for entry in entries if entry.wanted_by & names}
    return "".join(f"{entry.text}\n" for entry in entries if entry.name in names)


def write_locks() -> None:
    for path, text in image_locks().items():
        (ROOT / path).write_text(text)


if __name__ == "__main__":
    write_locks()
