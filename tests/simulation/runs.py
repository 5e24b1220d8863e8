"""Many seeds on several cores: what each run found, in the order of the seeds."""

from __future__ import annotations

import multiprocessing
import os
import traceback
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from tests.simulation.world import World

STORY_HEAD, STORY_TAIL = 20, 60  # lines of a story that is folded


@dataclass(frozen=True)
class Verdict:
    """`violations`: empty if the run kept every promise. A loop that raises breaks one, too. `happened`: how often, by
    kind (coverage.py)."""

    seed: int
    violations: tuple[str, ...]
    happened: Mapping[str, int] = field(default_factory=dict)

    @property
    def passed(self) -> bool:
        return not self.violations


def run_of(seed: int, tracing: bool = False) -> tuple[Verdict, list[str]]:
    """The verdict and, if asked for, the story."""
    world = World(seed, tracing)
    try:
        found = tuple(str(violation) for violation in world.run())
    except Exception as error:
        at = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{os.path.basename(at.filename)}:{at.lineno}"
        found = (f"a loop fails: {type(error).__name__}: {error} ({place})",)
    return Verdict(seed, found, world.happened), world.story


def verdict_of(seed: int) -> Verdict:
    return run_of(seed)[0]


def verdicts(seeds: Iterable[int], jobs: int) -> Iterator[Verdict]:
    """In the order of the seeds. Workers are forked, so that compiled kernels are loaded once."""
    if jobs == 1:
        yield from map(verdict_of, seeds)
        return
    with multiprocessing.get_context("fork").Pool(jobs) as pool:
        yield from pool.imap(verdict_of, seeds, chunksize=4)


def story_of(seed: int, whole: bool = False) -> str:
    verdict, story = run_of(seed, tracing=True)
    said = [f"  ==>  {violation}" for violation in verdict.violations] or ["  ==>  every promise was kept"]
    return "\n".join([f"seed {seed}", *(story if whole else folded(story, seed)), *said])


def folded(story: list[str], seed: int) -> list[str]:
    """How it began and how it ended: what breaks a promise at the end mostly comes late."""
    hidden = len(story) - STORY_HEAD - STORY_TAIL
    if hidden <= 1:
        return story
    all_of_it = f"python -m tests.simulation simulate --seed {seed} --all"
    fold = f"       … {hidden:,} more lines: make simulate SEED={seed} ALL=1, or {all_of_it}"
    return [*story[:STORY_HEAD], fold, *story[-STORY_TAIL:]]
