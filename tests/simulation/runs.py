"""Many seeds on several cores: what each run found, in the order of the seeds."""

from __future__ import annotations

import multiprocessing
import os
import traceback
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tests.simulation.world import World

STORY_LINES = 40


@dataclass(frozen=True)
class Verdict:
    """`violations`: empty if the run kept every promise. A loop that raises breaks one, too."""

    seed: int
    violations: tuple[str, ...]

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
    return Verdict(seed, found), world.story


def verdict_of(seed: int) -> Verdict:
    return run_of(seed)[0]


def verdicts(seeds: Iterable[int], jobs: int) -> Iterator[Verdict]:
    """In the order of the seeds. Workers are forked, so that compiled kernels are loaded once."""
    if jobs == 1:
        yield from map(verdict_of, seeds)
        return
    with multiprocessing.get_context("fork").Pool(jobs) as pool:
        yield from pool.imap(verdict_of, seeds, chunksize=4)


def story_of(seed: int) -> str:
    verdict, story = run_of(seed, tracing=True)
    told = ["…", *story[-STORY_LINES:]] if len(story) > STORY_LINES else story
    said = [f"  ==>  {violation}" for violation in verdict.violations] or ["  ==>  every promise was kept"]
    return "\n".join([f"seed {seed}", *told, *said])
