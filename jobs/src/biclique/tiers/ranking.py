"""Where a unit's rows get their ranks (core/ranks.py): from blocks and signals of one partition, for one side's window.

A row is ranked among the tuples of the *stored* side, whether it is stored there or looks into it: a pair is in the
window when the two ranks are at most so many tuples apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from biclique.core.ranks import Counts, Totals
from biclique.core.rows import Rows
from biclique.plan.model import Plan, Side
from biclique.tiers.messages import Signal


def totals_of(plan: Plan, base_epoch: int = -1, base: Sequence[Counts] = ()) -> Totals | None:
    """None: no window of the query counts tuples."""
    counted = len(plan.query.counted)
    return Totals(plan.dispatchers, counted, base_epoch, base) if counted else None


def take_totals(totals: Totals, offset: int, signal: Signal) -> None:
    if signal.totals:
        totals.take(int(signal.sender.name), signal.totals, offset)


def ranked(rows: Rows, stored: Side, totals: Totals | None) -> Rows:
    """Rows of blocks, for the store of that side. Every dispatcher has signalled their epochs."""
    if stored.count_window is None:
        return replace(rows, ordinals=()) if rows.ordinals else rows
    assert totals is not None
    return totals.ranked(rows, stored.count_window.place)
