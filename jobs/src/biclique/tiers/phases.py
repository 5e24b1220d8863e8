"""What a joiner's step is busy with, told as it changes. Whoever measures listens; no logic does, and none needs to
know what time it is."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum


class Phase(Enum):
    STORE = "store"
    PROBE = "probe"
    EMIT = "emit"
    FETCH = "fetch"  # payload that stayed in shuffled; no mark says so, since whoever performs the reading sees it


Mark = Callable[[Phase], None]


def unheard(phase: Phase) -> None:
    """Nobody listens."""
