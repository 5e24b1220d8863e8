"""A seed is a run: the same story, the same records, whenever it is run."""

from __future__ import annotations

from tests.simulation.runs import run_of, story_of
from tests.simulation.world import World


def told(seed: int) -> tuple[list[str], list[tuple[str, int]]]:
    world = World(seed, tracing=True)
    world.run()
    return world.story, [(str(address), len(world.log.history(address))) for address in world.log.addresses()]


def test_a_seed_tells_the_same_story_again() -> None:
    assert told(7) == told(7)
    assert told(7) != told(8)


def test_the_verdict_does_not_depend_on_who_listens() -> None:
    assert run_of(11)[0] == run_of(11, tracing=True)[0]


def test_a_story_ends_with_the_verdict() -> None:
    assert story_of(3).splitlines()[-1] == "  ==>  every promise was kept"
