"""Runs that go where chance alone seldom comes: a share of the seeds favours one rare combination of events.

A *focus* chooses a query that can show the combination, raises the faults that lead to it, and *strikes*: it crashes a
process right behind what happened to it, when what it knows is in its memory only. Which seeds have one, and which,
is decided by a random stream of its own, so that a new focus leaves the runs of all other seeds as they are.

| focus       | the story                                                                                       |
|-------------|-------------------------------------------------------------------------------------------------|
| moves       | tuples move on and on; their owners crash behind a move, a trim or a checkpoint; units come back |
| cursors     | a step over many epochs needs many transactions, and ends in the midst of them                  |
| checkpoints | mergers and units restart from manifests while their senders are far apart                      |
| idleness    | partitions fall silent while shuffler attempts change and blocks are lost on the way            |
| sums        | sums grow beyond what their type can hold                                                       |
| halves      | mergers crash in the midst of what a step writes, and read little at a time when they come back  |
| room        | units have less room than their window needs for a while, and come to its end in small steps     |
| watermarks  | as halves, by what a watermark closes: senders are far apart, with a checkpoint between them      |
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from biclique.query.expression import Call, Column, Literal, Op
from biclique.query.model import Aggregate, AggregateFunction, GroupKey, Item, PlanHints, Query, Window
from biclique.query.types import BIGINT, DOUBLE
from tests.simulation import observer
from tests.simulation.coverage import A_START, TRIMMED
from tests.simulation.operator import HABITS, Habits
from tests.simulation.queries import TICK_US, K, X, Y, call, column, narrow_query, random_query

SHARE = 0.3  # of the seeds
HALVES_SHARE = 0.06  # of the other seeds
ROOM_SHARE = 0.06  # of those that are left
WATERMARKS_SHARE = 0.05  # of those that are still left
HUGE = (10**16, 3 * 10**17, 3 * 10**18)  # twice the last fits into a BIGINT, and four times does not


@dataclass(frozen=True)
class Focus:
    """`rates`: of faults, in place of those that were drawn. `strikes`: the chance of a crash right behind an event.
    `more`: the chance of one more act of its kind with every act. `settings`: of the scenario, in place of its own."""

    name: str = "none"
    query: Callable[[random.Random], Query] = random_query
    rates: Mapping[str, float] = field(default_factory=dict)
    strikes: Mapping[str, float] = field(default_factory=dict)
    more: Mapping[str, float] = field(default_factory=dict)
    settings: Callable[[random.Random], Mapping[str, Any]] = lambda rng: {}
    habits: Habits = HABITS
    falls_asleep: float = 0.06  # or wakes up, when it could send
    written_groups: int | None = None  # most of a merger's transaction, in place of what was drawn
    short_reads: int = 0  # with which a restart begins
    budgets: tuple[int, ...] = ()  # of units' memory; empty: as chance has it


def _equal(rng: random.Random) -> Query:
    """Most pairs match for long: nothing but the key is asked for."""
    query = narrow_query(rng)
    count = len(query.relations)
    ticks = rng.choice((30, 80, 80, None))
    window = Window(None if ticks is None else ticks * TICK_US)
    return replace(
        query,
        relations=tuple(replace(relation, window=window) for relation in query.relations),
        filters=((),) * count,
        predicates=tuple(call(Op.EQ, column(n - 1, K), column(n, K)) for n in range(1, count)),
        hints=PlanHints(rng.choice(("biclique", "hash", "random")), units=2, partitions=2),
    )


def _plain(rng: random.Random) -> Query:
    query = _equal(rng)
    items = (Item("k", column(0, K), column(0, K).type), Item("x", column(1, X), column(1, X).type))
    return replace(query, items=items, distinct=False, group_by=(), aggregating=False, tumble_us=None)


def _grouped(rng: random.Random, argument: Column | Call, tumble: tuple[int | None, ...]) -> Query:
    group_by = (column(0, K),) if rng.random() < 0.7 else ()
    counted = Aggregate(AggregateFunction.COUNT, None, BIGINT)
    summed = Aggregate(AggregateFunction.SUM, argument, BIGINT)
    values: list[Aggregate | GroupKey] = [counted, summed, *(GroupKey(n, key.type) for n, key in enumerate(group_by))]
    items = tuple(Item(f"c{n}", value, value.type) for n, value in enumerate(values))
    ticks = rng.choice(tumble)
    return replace(
        _equal(rng),
        items=items,
        distinct=False,
        group_by=group_by,
        aggregating=True,
        tumble_us=None if ticks is None else ticks * TICK_US,
    )


def _shared(rng: random.Random) -> Query:
    return _grouped(rng, column(1, K), (None, None, 40))


def _summed(rng: random.Random) -> Query:
    wide = Call(Op.CAST, (column(1, K),), BIGINT)
    return _grouped(rng, Call(Op.MUL, (wide, Literal(rng.choice(HUGE), BIGINT)), BIGINT), (None, None, 10))


def _written_once(rng: random.Random) -> Query:
    if rng.random() < 0.2:
        return _grouped(rng, column(1, K), (5, 10))
    query = _plain(rng)
    items = (*query.items, Item("y", column(0, Y), column(0, Y).type))
    relations = tuple(replace(relation, window=Window()) for relation in query.relations)
    return replace(query, relations=relations, items=items, distinct=True)


def _narrow_window(rng: random.Random, ticks: tuple[int, ...] = (10, 30, 80)) -> Query:
    query = _plain(rng)
    window = Window(rng.choice(ticks) * TICK_US)
    return replace(query, relations=tuple(replace(relation, window=window) for relation in query.relations))


def _closed_by_time(rng: random.Random) -> Query:
    if rng.random() < 0.3:
        return _grouped(rng, column(1, K), (5, 10))
    return replace(_narrow_window(rng, (10, 30)), distinct=True)


def _filtered(rng: random.Random) -> Query:
    """A filter that fails now and then, by a division by zero: what it fails on is filtered, and counted as such."""
    query = narrow_query(rng)
    share = Call(Op.DIV, (column(0, X), column(0, Y)), DOUBLE)
    failing = (call(Op.GE, share, Literal(-1.0, DOUBLE)),)
    return replace(query, filters=(failing, *query.filters[1:]))


def _moving(rng: random.Random) -> Mapping[str, Any]:
    return {
        "actions": 900,
        "scaling": 1.0,
        "seal_rate": rng.choice((0, 0, 0.05, 0.3)),
        "dead_rate": 0,
        "matches_max": rng.choice((4, 1000)),
    }


def _cut_short(rng: random.Random) -> Mapping[str, Any]:
    return {"matches_max": rng.choice((1, 2)), "unit_records": rng.choice((12, 64)), "turn_records": rng.choice((4, 8))}


def _sealing(rng: random.Random) -> Mapping[str, Any]:
    return {"seal_rate": rng.choice((0.3, 0.6)), "unit_records": rng.choice((3, 12, 64)), "scaling": 0}


def _little_by_little(rng: random.Random) -> Mapping[str, Any]:
    return {"unit_records": 64, "scaling": 0, "dead_rate": 0, "hold": False, "actions": 600}


def _far_apart(rng: random.Random) -> Mapping[str, Any]:
    sizes = {"unit_records": rng.choice((12, 64)), "turn_records": rng.choice((4, 8))}
    return {**sizes, "scaling": 0, "dead_rate": 0, "hold": False, "actions": 900, "seal_rate": 1.0}


def _crowded(rng: random.Random) -> Mapping[str, Any]:
    return {"scaling": 0, "dead_rate": 0, "unit_records": rng.choice((3, 12, 64)), "actions": 900}


def _awake(rng: random.Random) -> Mapping[str, Any]:
    return {"scaling": 0, "dead_rate": 0}


FOCUSES = (
    Focus(
        "moves",
        _plain,
        {"store loses": 1, "stale table": 0.5, "deaf": 0.5},
        {
            observer.MOVED_BY_LOG: 0.3,
            observer.MOVED_BY_MANIFEST: 0.3,
            observer.SEALED: 0.15,
            TRIMMED: 0.2,
            A_START: 0.45,
        },
        {"operate": 0.35, "trim": 0.02},
        _moving,
        Habits(moves=0.9, comebacks=0.95, receivers_leave=True),
    ),
    Focus("cursors", _plain, {"pause": 2, "late reader": 2}, {observer.CURSOR: 0.2}, {}, _cut_short),
    Focus(
        "checkpoints",
        _shared,
        {"pause": 3, "store loses": 0, "store damages": 0.5, "store rolls back": 0},
        {observer.SEALED: 0.25},
        {},
        _sealing,
    ),
    Focus(
        "idleness",
        _filtered,
        {"shuffler": 1.5, "early heartbeat": 4, "lost send of the shuffler": 4, "deaf": 0},
        {},
        {},
        _awake,
        falls_asleep=0.01,
    ),
    Focus("sums", _summed),
)
HALVES = Focus(
    "halves",
    _written_once,
    {"pause": 2, "late reader": 4, "merger": 1},
    {observer.HALF: 0.15},
    {},
    _little_by_little,
    written_groups=1,
    short_reads=4,
)
ROOM = Focus(
    "room",
    _narrow_window,
    {"pause": 2, "late reader": 2},
    {},
    {},
    _crowded,
    budgets=(4_000, 8_000, 20_000),
)
WATERMARKS = Focus(
    "watermarks",
    _closed_by_time,
    {"pause": 6, "late reader": 4, "merger": 0.5, "store loses": 0, "store damages": 0, "store rolls back": 0},
    {observer.HALF: 0.6},
    {},
    _far_apart,
    written_groups=1,
)
NO_FOCUS = Focus()


def focus_of(seed: int) -> Focus:
    rng = random.Random(f"{seed}/focus")
    if rng.random() < SHARE:
        return rng.choice(FOCUSES)
    apart = random.Random(f"{seed}/focus on restarts")
    if apart.random() < HALVES_SHARE:
        return HALVES
    if random.Random(f"{seed}/focus on room").random() < ROOM_SHARE:
        return ROOM
    return WATERMARKS if random.Random(f"{seed}/focus on what time closes").random() < WATERMARKS_SHARE else NO_FOCUS
