"""A plan in the making: what the rules hand to one another. Each rule fills in some of it and gives its reasons.

A stage's conjuncts are first *recognised*: each becomes equalities or bounds between an expression over the left side
and one over the right side, or nothing that a key can express. `exact` says that the recognised part is the conjunct
itself; otherwise it lets too much through, never too little, and the conjunct stays in the residual.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from biclique.plan.model import LEFT, RIGHT, Access, CountWindow, Reason
from biclique.plan.statistics import Statistics
from biclique.query.expression import Column, Expression, relations_of
from biclique.query.model import Query
from biclique.routing.protocol import Strategy


@dataclass(frozen=True, slots=True)
class Equal:
    """`sides[LEFT] = sides[RIGHT]`; `conjunct` is a position in the stage's conjuncts."""

    conjunct: int
    sides: tuple[Expression, Expression]
    exact: bool


@dataclass(frozen=True, slots=True)
class Bound:
    """`small <= large + shift`, `<` where strict; `small` is over side `small_side`, `large` over the other.

    `shift` is in the memory form of the expressions' type, and 0 where the comparison is direct.
    """

    conjunct: int
    small: Expression
    large: Expression
    small_side: int
    strict: bool = False
    shift: int | float = 0
    exact: bool = True


@dataclass(frozen=True, slots=True)
class StageDraft:
    number: int
    relations: tuple[tuple[int, ...], tuple[int, ...]]
    conjuncts: tuple[Expression, ...]
    equals: tuple[Equal, ...] = ()
    bounds: tuple[Bound, ...] = ()
    accesses: tuple[Access, ...] = ()  # of the left and the right side, once chosen
    routes: tuple[tuple[Expression, ...], tuple[Expression, ...]] = ((), ())
    windows_us: tuple[int | None, int | None] = (None, None)
    count_windows: tuple[CountWindow | None, CountWindow | None] = (None, None)
    strategy: Strategy = Strategy.BICLIQUE
    subgroups: tuple[int, int] = (1, 1)
    units: tuple[int, int] = (1, 1)
    columns: tuple[tuple[Column, ...], tuple[Column, ...]] = ((), ())

    def side_of(self, expression: Expression) -> int | None:
        """LEFT or RIGHT where all columns of the expression are of that side; None: of both, or of neither."""
        touched = relations_of(expression)
        for side in (LEFT, RIGHT):
            if touched and touched <= set(self.relations[side]):
                return side
        return None

    def recognised(self) -> frozenset[int]:
        return frozenset(equal.conjunct for equal in self.equals) | {bound.conjunct for bound in self.bounds}


@dataclass(frozen=True, slots=True)
class Draft:
    query: Query
    statistics: Statistics
    conjuncts: tuple[Expression, ...]
    order: tuple[int, ...] = ()
    stages: tuple[StageDraft, ...] = ()
    dispatchers: int = 0
    mergers: int = 0
    reasons: tuple[Reason, ...] = ()

    def because(self, *reasons: Reason) -> Draft:
        return replace(self, reasons=self.reasons + reasons)
