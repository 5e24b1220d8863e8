"""Which faults a run takes, in which order, on whom: chosen by a seed, the same again for the same seed."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from tests.chaos.faults import FAULTS, Fault
from tests.chaos.stage import Shape

KILLS = 50  # of a whole run, over all shapes


@dataclass(frozen=True)
class Due:
    """`after_s`: how long the query runs undisturbed before."""

    fault: Fault
    victim: str
    after_s: float


def whole(seed: int, shapes: Sequence[Shape], repeats: int) -> dict[str, list[Due]]:
    """Every fault on every victim, `repeats` times, and kills until there are enough: by shape, shuffled. A shape takes
    the tiers that no shape before it has, the servers, since those concern every tier, and a share of the kills."""
    rng = random.Random(f"{seed}/schedule")
    drawn: dict[str, list[tuple[Fault, str]]] = {}
    seen: set[str] = set()
    for shape in shapes:
        fresh = {*shape.tiers, "kafka", "redis"} - seen
        seen |= set(shape.tiers)
        once = [(fault, victim) for fault in FAULTS for victim in fault.victims if victim in fresh]
        drawn[shape.name] = once * repeats
    kills = [fault for fault in FAULTS if fault.kill]
    for number in range(KILLS - sum(fault.kill for chosen in drawn.values() for fault, _ in chosen)):
        shape = shapes[number % len(shapes)]
        drawn[shape.name].append((rng.choice(kills), rng.choice(shape.tiers)))
    for chosen in drawn.values():
        rng.shuffle(chosen)
    return {name: _spaced(chosen, rng) for name, chosen in drawn.items()}


def named(seed: int, shape: Shape, wanted: Sequence[tuple[str, str]]) -> list[Due]:
    """Those whose names contain the first words, on the victims that are named second; in this order."""
    rng = random.Random(f"{seed}/schedule")
    chosen = []
    for words, victim in wanted:
        found = [fault for fault in FAULTS if words in fault.name and victim in fault.victims]
        if not found or not (victim in shape.tiers or victim in ("kafka", "redis")):
            raise ValueError(f"no fault of the query {shape.name} is called {words}:{victim}")
        chosen += [(fault, victim) for fault in found]
    return _spaced(chosen, rng)


def _spaced(chosen: Sequence[tuple[Fault, str]], rng: random.Random) -> list[Due]:
    return [Due(fault, victim, rng.uniform(0.5, 5)) for fault, victim in chosen]
