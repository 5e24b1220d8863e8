"""How far a joiner may go whose memory is short (pressure.py).

A step stores rows, and then drops what no later tuple can match. A unit that stands takes, in this order,

* the steps to a place where it has dropped no less than it has stored, as far as it sees one in what it has read;
* else a step that there is room for between the last mark and FULL_AT, however much more there is to handle. It must
  not wait to see further: those who send to it wait themselves while so much is on its way (pace.py), so what it would
  have to see may never be sent. A window that fits comes to its next expiry in this way. What is above FULL_AT is for a
  restart, which has a state and what is replayed into it in memory.

Where that is spent, or what presses is seen from outside and no budget says how much is left, only the first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from biclique.tiers.inbox import Inbox
from biclique.tiers.pressure import Pressed, Pressure
from biclique.tiers.state import SideState

FULL_AT = 0.95  # of the budget
INDEXED = 3  # times the bytes of its rows is what a state takes that has none yet


class Room:
    """Of one unit. `held_bytes`: all that it holds now."""

    def __init__(
        self,
        pressed: Pressed,
        inbox: Inbox,
        states: Mapping[int, SideState],
        held_bytes: Callable[[], int],
        step_bytes: int,
    ) -> None:
        self._pressed, self._inbox, self._states = pressed, inbox, states
        self._held_bytes, self._step_bytes = held_bytes, step_bytes
        self._lean_to = -1  # in as many steps as that takes

    def to(self, frontier: int, above: int, watermark: int) -> int:
        """The frontier to go to from `above`, at most to `frontier`; `above` itself: there is no room. `watermark`: at
        `above`."""
        if self._pressed.level is not Pressure.STAND:
            self._lean_to = -1
            return frontier
        if self._lean_to <= above:
            steps = self._inbox.lean_steps(frontier, above, max(self._step_bytes, self._left(1.0)))
            lean = next((to for to, stored in steps if stored <= self._freed_by(to, watermark)), above)
            if lean <= above:
                return self._inbox.storing(frontier, above, self._left(FULL_AT))
            self._lean_to = lean
        return min(self._lean_to, frontier)

    def _left(self, share: float) -> int:
        """Of so much of the budget, in bytes of rows without the index that they will have."""
        budget = self._pressed.budget
        if budget is None or self._pressed.host is Pressure.STAND:
            return 0
        rows = sum(state.row_bytes for state in self._states.values())
        indexed = sum(state.reserved_bytes for state in self._states.values()) if rows else INDEXED
        return max(0, int(share * budget.bytes) - self._held_bytes()) * max(rows, 1) // max(indexed, 1)

    def _freed_by(self, frontier: int, watermark: int) -> int:
        watermark = max(watermark, self._inbox.watermark_at(frontier))
        counted = () if self._inbox.totals is None else self._inbox.totals.sum_at(frontier)
        return sum(state.freed_bytes(watermark, counted) for state in self._states.values())
