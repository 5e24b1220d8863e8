"""What the planner is told of the data, or assumes: rates, state, and how many pairs each kind of condition lets
through.

Every estimate and every choice of the planner is a function of a query and one of these, so that `explain` repeats
what the planner saw. The defaults are deliberately plain; they decide between plans, they never decide whether a plan
is right.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from biclique.query.model import Query, Window


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
    distinct: tuple[float, ...] = ()  # of each relation: how many values its equality keys have; 0: not known

    def equal(self, relations: Iterable[int]) -> float:
        """Of an equality over these relations. Each value of the side that has fewer is taken to meet one of the
        other's, so one pair in so many as the greater number matches."""
        known = max((self.distinct[relation] for relation in relations if relation < len(self.distinct)), default=0.0)
        return 1 / known if known else self.equality


@dataclass(frozen=True, slots=True)
class Statistics:
    """One entry in `relations` for each relation of the query, in FROM order."""

    relations: tuple[RelationStatistics, ...]
    selectivities: Selectivities = field(default_factory=Selectivities)
    string_bytes: float = 16.0  # of an average STRING value
    delay_s: float = 0.05  # D of the paper: the greatest delay between being sent and being handled
    given: tuple[str, ...] = ()  # what of it a user gave, as written: plan/given.py


DEFAULT_RATE = RelationStatistics().rate
DEFAULT_ROWS = RelationStatistics().rows


def default_statistics(query: Query) -> Statistics:
    return Statistics(
        tuple(RelationStatistics(rows=stored_rows(relation.window, DEFAULT_RATE)) for relation in query.relations)
    )


def stored_rows(window: Window, rate: float) -> float:
    """A windowed relation holds rate times window, or as many tuples as its window says; one with full history a
    million rows."""
    if window.tuples is not None:
        return float(window.tuples)
    return DEFAULT_ROWS if window.time_us is None else max(rate * window.time_us / 1_000_000, 1.0)
