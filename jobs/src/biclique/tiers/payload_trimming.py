"""How far a partition of `<q>.shuffled` may be trimmed, where units may fetch payload from it.

A tuple's payload can be wanted as long as the tuple can be matched: while it is unhandled, and while the window of its
relation holds it. An accepted tuple is never below the watermark that its dispatcher signalled last, so an unhandled
one is never below the watermark of the unit that has yet to handle it. So once the watermarks of all units have passed
a time by more than the window, nothing of tuples up to that time is wanted any more, handled or not, in state or in any
checkpoint.

Which blocks have only such tuples, a dispatcher's progress says: those below its offset have no time above the greatest
that it has seen. Whoever trims notes both now and then, and trims to an offset when its time has passed. What it noted
is lost with it, which delays the trimming by a window. Full history and windows that count tuples keep everything.
"""

from __future__ import annotations

from typing import NamedTuple

from biclique.plan.model import Plan
from biclique.tiers.messages import TIME_NEVER
from biclique.tiers.progress import DispatcherProgress

MARKS_MAX = 128


class Mark(NamedTuple):
    """No block of shuffled below `offset` has a tuple of a time above `greatest`."""

    offset: int
    greatest: int


def payload_window_us(plan: Plan) -> int | None:
    """How long payload may be wanted; None: for ever."""
    windows = [
        None if side.count_window is not None else side.window_us
        for stage in plan.stages
        for side in stage.sides
        if side.payload
    ]
    known = [window for window in windows if window is not None]
    return max(known, default=0) if len(known) == len(windows) else None


class PayloadMarks:
    """Of one dispatcher's partition."""

    def __init__(self, plan: Plan) -> None:
        self._window_us = payload_window_us(plan)
        self._marks: list[Mark] = []
        self._keep = 0

    def note(self, progress: DispatcherProgress) -> None:
        greatest = max(progress.greatest.values(), default=TIME_NEVER)
        if self._marks and self._marks[-1].greatest == greatest:
            self._marks.pop()  # more blocks, and no later time
        self._marks.append(Mark(progress.offset, greatest))
        if len(self._marks) > MARKS_MAX:
            self._marks = [*self._marks[:-1:2], self._marks[-1]]

    def keep_from(self, watermark: int) -> int:
        """The first offset to keep. `watermark`: the least of all units, as committed."""
        if self._window_us is None or watermark <= TIME_NEVER:
            return self._keep
        while self._marks and self._marks[0].greatest + self._window_us < watermark:
            self._keep = self._marks.pop(0).offset
        return self._keep
