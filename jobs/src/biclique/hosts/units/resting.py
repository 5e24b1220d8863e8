"""How a unit rests: until there is something to read, and for longer where there has been nothing for a while.

A loop asks for a short rest whenever it finds nothing to do, since it may be another's signal that it waits for. A
query without input must cost next to nothing, so after EAGER rests in a row each takes IDLE_MS; what arrives in the
unit's input ends any of them at once. Nothing but time depends on it.
"""

from __future__ import annotations

from collections.abc import Callable

EAGER = 10
IDLE_MS = 50  # the most by which a signal on another topic than the unit's own is heard late


class Resting:
    """`wait`: at most so many seconds, or until something has arrived (then True) that was not there before."""

    def __init__(self, wait: Callable[[float], bool]) -> None:
        self._wait = wait
        self._in_a_row = 0

    def __call__(self, milliseconds: int) -> None:
        self._in_a_row += 1
        asked = milliseconds if self._in_a_row <= EAGER else max(milliseconds, IDLE_MS)
        if self._wait(asked / 1000):
            self._in_a_row = 0
