"""What the planner is told of the data, or assumes: rates, state, and how many pairs each kind of condition lets
through.

Every estimate and every choice of the planner is a function of a query and one of these, so that `explain` repeats
what the planner saw. The defaults are deliberately plain; they decide between plans, they never decide whether a plan
is right.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from biclique.query.model import Query


@dataclass(frozen=True, slots=True)
class RelationStatistics:
    """`rows`: stored at the same time, all units together, once the state is as large as it gets (full history: by the
    end of the run). `heaviest_key`: the share of tuples that have the most frequent value of the equality key."""

    rate: float = 1_000.0  # tuples a second, after WHERE
    rows: float = 1_000_000.0
    heaviest_key: float = 0.0


@dataclass(frozen=True, slots=True)
class Selectivities:
    """The share of all pairs that one condition lets through. Conditions are taken as independent."""

    equality: float = 1e-5
    band: float = 1e-4  # two-sided, a difference between literals: |a - b| <= 5
    range: float = 1e-2  # two-sided, between columns: a BETWEEN b.low AND b.high
    inequality: float = 1 / 3
    unequal: float = 0.9
    other: float = 0.25


@dataclass(frozen=True, slots=True)
class Statistics:
    """One entry in `relations` for each relation of the query, in FROM order."""

    relations: tuple[RelationStatistics, ...]
    selectivities: Selectivities = field(default_factory=Selectivities)
    string_bytes: float = 16.0  # of an average STRING value
    delay_s: float = 0.05  # D of the paper: the greatest delay between being sent and being handled


DEFAULT_RATE = RelationStatistics().rate
DEFAULT_ROWS = RelationStatistics().rows


def default_statistics(query: Query) -> Statistics:
    """A windowed relation holds rate times window; one with full history a million rows."""
    return Statistics(
        tuple(
            RelationStatistics(
                rows=DEFAULT_ROWS if window is None else max(DEFAULT_RATE * window / 1_000_000, 1.0),
            )
            for window in (relation.window.time_us for relation in query.relations)
        )
    )
