"""Planted bugs: plausible mistakes in the shipped code, each of which the simulator must catch.

A bug is a file in planted/: a sentence that says what is wrong, then a patch of one module. Patches are applied in
memory, in a process of their own. `hunt` looks for the first seed that catches each one, and writes planted.json and
docs/planted-bugs.md; `replay` runs those seeds again: what was caught must be caught, by that seed or, where a change
of the logic has moved what each seed runs, by one of the first.

Nothing of the package may be imported here: it has to be imported by the patched process.
"""

from __future__ import annotations

import json
import multiprocessing
import signal
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType

from tests.simulation.patching import Patch, install

FOLDER = Path(__file__).parent / "planted"
CATCHES = FOLDER / "planted.json"
DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "planted-bugs.md"
SEEDS = 3000  # what `make test` runs, so what each bug must be caught within
OTHERS = 300  # seeds of a replay, where the known one does not show its bug any more
SECONDS_MAX = 60  # for one seed: a bug may well be a loop without an end


@dataclass(frozen=True)
class Bug:
    name: str
    rule: str
    patch: Patch


@dataclass(frozen=True)
class Catch:
    """`seed` None: nothing was found. `tried`: how many seeds it took."""

    bug: str
    seed: int | None
    said: str
    tried: int = 1


def bugs() -> list[Bug]:
    return [read_bug(path) for path in sorted(FOLDER.glob("*.patch"))]


def read_bug(path: Path) -> Bug:
    said, header, text = path.read_text().partition("\n--- ")
    file, *lines = text.splitlines()
    assert header and lines[0] == f"+++ {file}", f"{path.name} is no patch of one file"
    hunks: list[tuple[list[str], list[str]]] = []
    for line in lines[1:]:
        if line.startswith("@@"):
            hunks.append(([], []))
            continue
        kind, rest = line[:1], line[1:]
        assert kind in {" ", "-", "+", ""}, f"{path.name}: {line!r}"
        if kind != "+":
            hunks[-1][0].append(rest)
        if kind != "-":
            hunks[-1][1].append(rest)
    module = file.removeprefix("jobs/src/").removesuffix(".py").replace("/", ".")
    changes = tuple(("\n".join(old), "\n".join(new)) for old, new in hunks)
    return Bug(path.stem, " ".join(said.split()), Patch(module, changes))


def recorded() -> dict[str, Catch]:
    if not CATCHES.exists():
        return {}
    return {name: Catch(name, **fields) for name, fields in json.loads(CATCHES.read_text()).items()}


# --- looking ---------------------------------------------------------------------------------------------------------


def _too_long(number: int, frame: FrameType | None) -> None:
    raise TimeoutError(f"no end within {SECONDS_MAX} seconds")


def look(task: tuple[Bug, tuple[int, ...]]) -> Catch:
    """In a process of its own: the first of the seeds that shows the bug."""
    bug, seeds = task
    install(bug.patch)
    from tests.simulation.runs import verdict_of  # only now: it imports what has been patched

    signal.signal(signal.SIGALRM, _too_long)
    for tried, seed in enumerate(seeds, 1):
        signal.alarm(SECONDS_MAX)
        verdict = verdict_of(seed)
        signal.alarm(0)
        if not verdict.passed:
            return Catch(bug.name, seed, verdict.violations[0], tried)
    return Catch(bug.name, None, "", len(seeds))


def fails_unpatched(seed: int) -> bool:
    from tests.simulation.runs import verdict_of

    return not verdict_of(seed).passed


def looked_for(tasks: Iterable[tuple[Bug, tuple[int, ...]]], jobs: int) -> Iterator[Catch]:
    with multiprocessing.get_context("fork").Pool(jobs, maxtasksperchild=1) as pool:
        yield from pool.imap(look, tasks, chunksize=1)


def replay(jobs: int) -> int:
    """Every bug with the seed that caught it, else with others."""
    began, known = time.monotonic(), recorded()
    planted = bugs()
    missing = [bug.name for bug in planted if bug.name not in known or known[bug.name].seed is None]
    for name in missing:
        print(f"{name}: no seed is known; run planted --hunt")
    tasks = [(bug, (seed, *range(OTHERS))) for bug in planted if (seed := _seed_of(bug, known)) is not None]
    missed = 0
    for catch in looked_for(tasks, jobs):
        missed += catch.seed is None
        if catch.tried > 1:
            instead = f"none of {OTHERS} others does" if catch.seed is None else f"seed {catch.seed} does"
            print(
                f"{catch.bug}: seed {known[catch.bug].seed} does not catch it any more, {instead};"
                " run planted --hunt to keep one that does",
                flush=True,
            )
    failed = len(missing) + missed
    print(f"{len(planted) - failed} planted bugs caught, {failed} missed, {time.monotonic() - began:.0f} s")
    return 1 if failed else 0


def _seed_of(bug: Bug, known: dict[str, Catch]) -> int | None:
    return known[bug.name].seed if bug.name in known else None


def hunt(jobs: int, only: str = "", seeds_max: int = SEEDS, missing: bool = False) -> int:
    """Look for every bug anew, beginning with the seed that caught it last. `missing`: those without a seed only."""
    known = recorded()
    wanted = [bug for bug in bugs() if only in bug.name and not (missing and _seed_of(bug, known) is not None)]
    tasks = []
    for bug in wanted:
        last = _seed_of(bug, known)
        tasks.append((bug, (*(() if last is None else (last,)), *range(seeds_max))))
    missed = 0
    for catch in looked_for(tasks, jobs):
        missed += catch.seed is None
        found = (
            f"seed {catch.seed}, {catch.said[:140]}" if catch.seed is not None else f"NOT CAUGHT in {catch.tried} seeds"
        )
        print(f"{catch.bug}: {found}", flush=True)
        if catch.seed is not None or catch.tried >= SEEDS:
            known[catch.bug] = catch
        write(known)
    # A seed that fails without any bug catches nothing.
    seeds = sorted({seed for bug in wanted if (seed := _seed_of(bug, known)) is not None})
    with multiprocessing.get_context("fork").Pool(jobs) as pool:
        for seed, fails in zip(seeds, pool.imap(fails_unpatched, seeds), strict=True):
            if fails:
                missed += 1
                print(f"seed {seed} fails without a planted bug")
    print(f"{len(wanted) - missed} planted bugs caught, {missed} missed")
    return 1 if missed else 0


def seek(jobs: int, only: str, first: int) -> int:
    """Each bug must be caught by other seeds, too: one that only its known seed shows would be lost with that run."""
    wanted = [bug for bug in bugs() if only in bug.name]
    seeds = range(first, first + 2 * SEEDS)  # the rarest are seen once in a thousand seeds or so
    missed = 0
    for catch in looked_for([(bug, tuple(seeds)) for bug in wanted], jobs):
        missed += catch.seed is None
        print(f"{catch.bug}: {'NOT CAUGHT' if catch.seed is None else 'caught'} in {catch.tried} seeds", flush=True)
    print(f"{len(wanted) - missed} planted bugs caught from seed {first} on, {missed} missed")
    return 1 if missed else 0


# --- what is written -------------------------------------------------------------------------------------------------


def write(known: dict[str, Catch]) -> None:
    planted = bugs()
    fields = {bug.name: asdict(known[bug.name]) for bug in planted if bug.name in known}
    for catch in fields.values():
        del catch["bug"], catch["tried"]
    CATCHES.write_text(json.dumps(fields, indent=1, ensure_ascii=False) + "\n")
    DOCUMENT.write_text(document(planted, known))


def document(planted: list[Bug], known: dict[str, Catch]) -> str:
    lines = [
        "# Planted bugs",
        "",
        f"{len(planted)} plausible mistakes, each a patch to shipped code that was written before any seed was run",
        "on it (`tests/simulation/planted/`). The simulator must catch each within the seeds that `make test` runs;",
        "`make test` replays the seed that caught it. The list is made by `python -m tests.simulation planted --hunt`.",
        "",
        "`make soak` hunts for each again, among seeds that were never run before.",
        "",
        "Three rules of the model have no bug here. `empty_at_S`: only the operator decides by it, which is not",
        "written yet; the one of these runs is the simulator's own (`tests/simulation/operator.py`), no shipped code.",
        "`fence_generations` and `blobs_named_by_incarnation` were planted on trial, and no seed tried has caught",
        "them. By reading, something stronger shields each: a loop that has read of a routing version waits for its",
        "table, by which an older generation finds that it has left before it takes a block of the newer one; and a",
        "manifest holds the checksum of each blob, so one that was written over reads as damaged: the log is replayed.",
        "",
        "| bug | what is wrong | in | seed | what the auditor said |",
        "|---|---|---|---|---|",
    ]
    for bug in planted:
        catch = known.get(bug.name, Catch(bug.name, None, ""))
        seed = "none yet" if catch.seed is None else str(catch.seed)
        module = bug.patch.module.removeprefix("biclique.")
        lines.append(f"| {bug.name} | {_cell(bug.rule)} | {module} | {seed} | {_cell(_short(catch.said))} |")
    return "\n".join([*lines, ""])


def _short(text: str) -> str:
    return text if len(text) <= 110 else text[:109].rstrip() + "…"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
