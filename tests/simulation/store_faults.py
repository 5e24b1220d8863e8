"""What befalls the checkpoint store by itself in a run."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from tests.simulation.points import Fault

if TYPE_CHECKING:
    from tests.simulation.world import World


def damage(world: World) -> None:
    store = world.store
    done: str | None = None
    if world.chance("store rolls back", 0.1):
        done = store.roll_back()
        world.strikes.everybody(Fault.F4)
    elif world.chance("store loses", 0.1):
        lose = world.rng.choice((store.lose_everything, store.lose_blob, store.lose_manifests))
        done = lose()
        world.strikes.everybody(Fault.F4 if lose == store.lose_everything else Fault.F7)
    elif world.chance("store damages", 0.2):
        done = world.rng.choice((store.truncate_blob, store.corrupt_blob))()
        world.strikes.everybody(Fault.F7)
    elif world.rng.random() < 0.2:
        store.remember()
    if done:
        world.note(done)
    if world.store_goes is not None and world.store_goes.random() < 0.3:
        _come_and_go(world, world.store_goes)


def _come_and_go(world: World, rng: random.Random) -> None:
    what = world.store.come_and_go(rng)
    world.strikes.everybody(Fault.F4)
    world.happened[what] += 1
    world.note(what)
