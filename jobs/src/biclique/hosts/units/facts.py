"""What a unit's logic shows of itself, as points of the catalogue.

Read in the loop's own thread, between two effects, since nothing else may look at a logic at work; what comes out is
frozen, and any thread may show it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from biclique.ports.metrics import FATE, SIDE, SOURCE
from biclique.ports.telemetry import Point
from biclique.query.model import Query
from biclique.tiers.dispatcher import (
    ACCEPTED,
    DEAD,
    DROPPED,
    FAILED_EXPRESSION,
    FAILED_FILTER,
    FILTERED,
    LATE,
    Dispatcher,
)
from biclique.tiers.joiner import Joiner
from biclique.tiers.loops import Watch
from biclique.tiers.merger import Merger
from biclique.tiers.messages import TIME_NEVER

SIDES = ("left", "right")


@dataclass(frozen=True)
class Facts:
    """`epoch`: milliseconds of the wall clock, None before there is one. `watermark`: microseconds of event time."""

    epoch: int | None = None
    watermark: int | None = None
    points: tuple[Point, ...] = ()


def facts_of(query: Query, watch: Watch) -> Facts:
    if watch.dispatcher is not None:
        progress = watch.dispatcher.progress
        return Facts(progress.epoch or None, _known(progress.watermark), tuple(_of_dispatcher(query, watch.dispatcher)))
    if watch.joiner is not None:
        done = watch.joiner.progress
        return Facts(_epoch(done.frontier), _known(done.watermark), tuple(_of_joiner(watch.joiner)))
    if watch.merger is not None:
        merged = watch.merger.progress
        return Facts(_epoch(merged.frontier), _known(merged.watermark), tuple(_of_merger(watch.merger)))
    return Facts()


def _epoch(frontier: int) -> int | None:
    return frontier if frontier > 0 else None


def _known(watermark: int) -> int | None:
    return watermark if watermark > TIME_NEVER else None


def _of_dispatcher(query: Query, dispatcher: Dispatcher) -> Iterator[Point]:
    fates, nothing = dispatcher.progress.fates, (0,) * len(query.sources)
    for number, source in enumerate(query.sources):
        counts = {fate: fates.get(fate, nothing)[number] for fate in (ACCEPTED, FILTERED, LATE, DEAD, DROPPED)}
        failed = fates.get(FAILED_FILTER, nothing)[number]
        told = {
            "good": counts[ACCEPTED],
            "filtered": counts[FILTERED] - failed,
            "failed": failed,
            "late": counts[LATE],
            "dead": counts[DEAD],
            "dropped": counts[DROPPED],
        }
        for fate, count in told.items():
            yield Point("biclique.tuples", count, {SOURCE: source.name, FATE: fate})
    yield Point("biclique.expressions.failed", sum(fates.get(FAILED_EXPRESSION, nothing)))


def _of_joiner(joiner: Joiner) -> Iterator[Point]:
    counters = joiner.counters
    yield Point("biclique.tuples.stored", counters.stored)
    yield Point("biclique.tuples.probed", counters.probed)
    yield Point("biclique.tuples.expired", counters.expired)
    yield Point("biclique.tuples.moved", counters.moved_in)
    yield Point("biclique.matches", counters.matches)
    yield Point("biclique.expressions.failed", joiner.progress.failed)
    for side, state in joiner.states.items():
        yield Point("biclique.state.rows", state.rows, {SIDE: SIDES[side]})
        yield Point("biclique.state.size", state.size_bytes, {SIDE: SIDES[side]})
    payload = joiner.payloads.counters
    yield Point("biclique.payload.rows", payload.wanted)
    yield Point("biclique.payload.read", payload.read)
    yield Point("biclique.payload.cached", payload.cached)
    yield Point("biclique.payload.io", payload.read_bytes)
    yield Point("biclique.inbox.rows", joiner.inbox.rows_held)
    yield Point("biclique.inbox.size", joiner.inbox.bytes_held)
    yield Point("biclique.memory.pressure", joiner.pressed.level)


def _of_merger(merger: Merger) -> Sequence[Point]:
    return (
        Point("biclique.state.rows", len(merger.groups)),
        Point("biclique.state.size", merger.size_bytes),
        Point("biclique.memory.pressure", merger.pressed.level),
    )
