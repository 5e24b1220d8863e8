"""What a run is about: a query, its plan, its sources and their values, and the bounds it runs with. Tiny domains all
over.

Event time advances with the run's clock, so windows pass, and lags by partition and by chance, so tuples come late.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace

from biclique.plan.make import make_plan
from biclique.plan.model import Plan, Side
from biclique.query.errors import QueryError
from biclique.query.expression import Scalar
from biclique.query.model import Query, Window
from biclique.routing.protocol import Strategy
from biclique.routing.table import Subgroup
from biclique.tiers.payloads import CACHE_BYTES_MAX
from biclique.tiers.progress import SourcePartition
from biclique.tiers.state import BlobRows
from tests.simulation.queries import random_query, random_value

TICK_US = 1_000_000  # event time is counted in these
TICK_MS = 12  # of the run's clock
TUPLES = (1, 1, 2, 3, 5, 8, 20)  # of a window that counts them
DISORDER = (0, 0, 0, 1, 2, 3, 4, 4, 7, 15)


@dataclass(frozen=True)
class Scenario:
    """`scaling`: the chance that the operator begins something when it looks. `hold`: aggregates are written at the
    end, once. `awake`: the source partitions that send last ticks, whatever they did before."""

    plan: Plan
    partitions: tuple[SourcePartition, ...]
    first_time: int
    actions: int
    scaling: float
    seal_rate: float
    dead_rate: float
    hold: bool
    scalable: frozenset[Subgroup]
    windowed: frozenset[Subgroup]
    awake: frozenset[SourcePartition]
    turn_records: int
    unit_records: int
    matches_max: int
    pending_rows_max: int
    blob_rows: BlobRows
    payload_bytes_max: int = 0

    def dispatcher_of(self, key: SourcePartition) -> int:
        return self.partitions.index(key) % self.plan.dispatchers

    def arrival_of(self, now_ms: int) -> int:
        """As event times count: no record but one of the future is ahead of it."""
        return self.first_time + now_ms // TICK_MS * TICK_US

    def time_of(self, now_ms: int, key: SourcePartition, rng: random.Random, tick: bool) -> int:
        disorder = 0 if tick else rng.choice(DISORDER) + self.partitions.index(key)
        return self.arrival_of(now_ms) - disorder * TICK_US

    def row(self, source: int, time: int, rng: random.Random, tick: bool) -> tuple[Scalar, ...] | None:
        """None: a record that nobody can read. Ticks match as little as their schema lets them: only nulls."""
        if not tick and rng.random() < self.dead_rate:
            return None
        read = self.plan.query.sources[source]
        return tuple(
            time if n == read.event_time.column else None if tick else random_value(rng, field.type)
            for n, field in enumerate(read.fields)
        )


def scenario_of(rng: random.Random, make_query: Callable[[random.Random], Query] = random_query) -> Scenario:
    query = make_query(rng)
    try:
        plan = make_plan(query)
    except QueryError:  # hash gives way to random where no equality joins two relations, and random has one subgroup
        query = replace(query, hints=replace(query.hints, subgroups=()))
        plan = make_plan(query)
    subgroups = _subgroups(plan)
    partitions = _partitions(rng, query, plan.dispatchers)
    return Scenario(
        plan=plan,
        partitions=partitions,
        awake=frozenset(partitions[:1]),
        first_time=rng.choice((0, -60, 1_700_000_000)) * TICK_US,
        actions=rng.choice((300, 450, 600)),
        scaling=rng.choice((0, 0.5, 0.9, 0.9)),
        seal_rate=rng.choice((0, 0.05, 0.2, 0.2, 0.5)),
        dead_rate=rng.choice((0, 0, 0.05, 0.2)),
        hold=rng.random() < 0.2,
        scalable=frozenset(subgroup for subgroup, _ in subgroups),
        windowed=frozenset(subgroup for subgroup, side in subgroups if side.window_us is not None),
        turn_records=rng.choice((1, 2, 4, 8)),
        unit_records=rng.choice((1, 3, 12, 64)),
        matches_max=rng.choice((1, 2, 4, 8, 1000)),
        pending_rows_max=rng.choice((2, 6, 1000, 1000)),
        blob_rows=BlobRows(*rng.choice(((1, 1), (2, 3), (4, 9), (1000, 1000)))),
    )


def varied(scenario: Scenario, seed: int) -> Scenario:
    """Each variation by a generator of its own, so that the runs which it leaves as they are stay as they were."""
    scenario = with_count_windows(scenario, random.Random(f"{seed}/count-window"))
    return with_transport(scenario, random.Random(f"{seed}/transport"))


def with_count_windows(scenario: Scenario, rng: random.Random) -> Scenario:
    """Some of the runs that join two relations: windows of so many tuples in place of their own. Drawn apart from
    everything else, so that all other runs are what they are without it."""
    query = scenario.plan.query
    if len(query.relations) != 2 or rng.randrange(6):
        return scenario
    windows = [Window(tuples=rng.choice(TUPLES)) for _ in range(2)]
    if rng.random() < 0.25:
        windows[rng.randrange(2)] = Window()
    relations = tuple(replace(r, window=window) for r, window in zip(query.relations, windows, strict=True))
    plan = make_plan(replace(query, relations=relations))
    subgroups = _subgroups(plan)
    return replace(
        scenario,
        plan=plan,
        awake=frozenset(scenario.partitions),
        scalable=frozenset(subgroup for subgroup, _ in subgroups),
        # A unit is empty once enough tuples have come after its own: ticks do, if no filter drops them.
        windowed=frozenset(
            subgroup
            for subgroup, side in subgroups
            if side.count_window is not None and not query.filters[side.relations[0]]
        ),
    )


def with_transport(scenario: Scenario, rng: random.Random) -> Scenario:
    """A quarter of the runs may leave payload behind, always or as it is measured."""
    if rng.random() >= 0.25:
        return scenario
    query = scenario.plan.query
    hints = replace(query.hints, transport=rng.choice(("semijoin", "semijoin", "auto")))
    return replace(
        scenario,
        plan=make_plan(replace(query, hints=hints)),
        payload_bytes_max=rng.choice((0, 0, 300, CACHE_BYTES_MAX)),
    )


def _subgroups(plan: Plan) -> list[tuple[Subgroup, Side]]:
    return [
        (Subgroup(stage.number, number, n), side)
        for stage in plan.stages
        if stage.strategy is not Strategy.MATRIX
        for number, side in enumerate(stage.sides)
        for n in range(side.subgroups)
    ]


def _partitions(rng: random.Random, query: Query, dispatchers: int) -> tuple[SourcePartition, ...]:
    """Each dispatcher has one source partition or two; each source has one at least."""
    sources = len(query.sources)
    count = max(sources, dispatchers * rng.choice((1, 1, 2)))
    count += -count % dispatchers
    of_source = [*range(sources), *(rng.randrange(sources) for _ in range(count - sources))]
    rng.shuffle(of_source)
    return tuple(SourcePartition(source, of_source[:n].count(source)) for n, source in enumerate(of_source))
