"""A plan: routing x stores x index, as compiled from a query. Frozen values that the tiers execute and `explain` shows.

An n-way join is a cascade of binary *stages*. Stage 0 joins two relations; stage k joins the partial results of stage
k-1 (its left side) with one more relation (its right side). Each stage has its own units. A *side* of a stage is what
its units store and are probed with.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from biclique.index.protocol import IndexKind
from biclique.query.expression import Column, Expression
from biclique.query.model import Query
from biclique.query.types import BIGINT, INT, Type
from biclique.routing.protocol import Strategy

LEFT, RIGHT = 0, 1
PLACE, PAYLOAD_BYTES = -2, -1  # positions in the columns of rows that may have left their payload behind
BESIDE_KEYS = (BIGINT, INT)


@dataclass(frozen=True, slots=True)
class KeyRange:
    """low + low_shift <= stored <= high + high_shift; `<` where strict. A missing bound is infinite.

    `stored` is over the stored side, `low` and `high` over the probing one; all of one type. Shifts are literals in
    that type's memory form (DECIMAL unscaled, INTERVAL microseconds), added in unbounded numbers: an end beyond the
    greatest key lets everything pass, or nothing, and never wraps. On DOUBLE the index moves a shifted end outwards by
    what the predicate as written may round, and the plan keeps that predicate in the residual.
    """

    stored: Expression
    low: Expression | None = None
    low_strict: bool = False
    low_shift: int | float = 0
    high: Expression | None = None
    high_strict: bool = False
    high_shift: int | float = 0


@dataclass(frozen=True, slots=True)
class Access:
    """How a probe of the other side finds this side's rows. The conjunction of all parts is the join predicate.

    `residual` is evaluated on candidate pairs; it holds every conjunct that the keys do not express exactly.
    """

    kind: IndexKind
    equal: tuple[tuple[Expression, Expression], ...] = ()  # (over the stored side, over the probing side)
    first: KeyRange | None = None
    second: KeyRange | None = None
    residual: tuple[Expression, ...] = ()


@dataclass(frozen=True, slots=True)
class CountWindow:
    """A relation's last `tuples` tuples by stamp. `place`: of the relation in Query.counted, and so in totals and
    ordinals."""

    tuples: int
    place: int


class Transport(Enum):
    """How the tuples of a relation travel to units."""

    TUPLES = "tuples"  # whole
    SEMIJOIN = "semijoin"  # keys first, the payload is fetched on a match
    MEASURED = "measured"  # either, block by block, by what has been measured


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a stage. `relations`: whose tuples (or parts) it holds, in `Rows.ids` order. `columns`: in
    `Rows.columns` order: all that later predicates, later stages and the select list need, and nothing else.

    `route`: the expressions whose hashed values pick the subgroup (equal for every pair that can match); empty: chance.

    `window_us` and `count_window`: how long a tuple is kept; neither: full history.

    `payload`: positions in `columns` of what may stay behind until there is a match; empty where whole tuples travel.
    Rows then have two columns more, at the end: their place (core/payload_places.py) and the bytes of the texts that
    stayed behind. A column that did so is blank.
    """

    relations: tuple[int, ...]
    columns: tuple[Column, ...]
    access: Access
    route: tuple[Expression, ...]
    window_us: int | None
    subgroups: int
    units: int  # of each subgroup at the start
    count_window: CountWindow | None = None
    transport: Transport = Transport.TUPLES
    payload: tuple[int, ...] = ()

    @property
    def types(self) -> tuple[Type, ...]:
        """Of `Rows.columns`."""
        own = tuple(column.type for column in self.columns)
        return (*own, *BESIDE_KEYS) if self.payload else own

    @property
    def windowed(self) -> bool:
        return self.window_us is not None or self.count_window is not None


@dataclass(frozen=True, slots=True)
class Stage:
    number: int
    strategy: Strategy
    sides: tuple[Side, Side]


class Topic(Enum):
    ORDER = "order"
    ROUTING = "routing"
    TIERS = "tiers"
    TRANSPORT = "transport"


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a rule decided as it did, for people. `stage` None: for the whole plan."""

    topic: Topic
    text: str
    stage: int | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """`entry[r]` says where relation r enters: (stage, side). `order` is the join order of the relations."""

    query: Query
    order: tuple[int, ...]
    stages: tuple[Stage, ...]
    dispatchers: int
    mergers: int  # 0 where results go straight to the output; else the number of merger units
    reasons: tuple[Reason, ...] = ()

    @property
    def may_leave_payload(self) -> bool:
        """Whether shuffled is read by units, too."""
        return any(side.payload for stage in self.stages for side in stage.sides)

    def fetched_from(self, source: int) -> bool:
        """Whether units may read blocks of this source again."""
        sides = (self.stages[stage].sides[side] for stage, side in map(self.entry, self._made_of(source)))
        return any(side.payload for side in sides)

    def _made_of(self, source: int) -> tuple[int, ...]:
        return tuple(n for n, relation in enumerate(self.query.relations) if relation.source == source)

    def entry(self, relation: int) -> tuple[int, int]:
        position = self.order.index(relation)
        return (0, position) if position < 2 else (position - 1, RIGHT)
