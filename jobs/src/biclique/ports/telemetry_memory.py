"""Telemetry that stays in this process: what tests look at. Every span and measurement is kept, in the order told."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from biclique.ports.metrics import Kind, checked
from biclique.ports.telemetry import NONE, Attributes, Identity, Point
from biclique.ports.trace_context import Context, context_of

Key = tuple[str, tuple[tuple[str, str | int | float | bool], ...]]  # a name and its attributes in order


@dataclass(frozen=True, slots=True)
class KeptSpan:
    """`parent`: 0 for a root."""

    tier: str
    unit: str
    name: str
    trace_id: int
    span_id: int
    parent: int
    links: tuple[int, ...]
    started_ns: int
    ended_ns: int
    attributes: Attributes
    failure: str


@dataclass
class MemoryTelemetry:
    """`sampled`: decides over a new trace. `ids`: shared by all that are to be told apart."""

    identity: Identity
    sampled: Callable[[], bool] = lambda: True
    ids: Iterable[int] = field(default_factory=lambda: itertools.count(1))
    tracing: bool = True
    spans: list[KeptSpan] = field(default_factory=list)
    counts: dict[Key, float] = field(default_factory=lambda: defaultdict(float))
    recorded: dict[Key, list[float]] = field(default_factory=lambda: defaultdict(list))
    readers: list[Callable[[], Iterable[Point]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._ids = iter(self.ids)

    def begin(
        self,
        name: str,
        started_ns: int,
        parent: str = "",
        links: Sequence[str] = (),
        attributes: Attributes = NONE,
        rare: bool = False,
    ) -> MemorySpan | None:
        above = context_of(parent)
        if not self.tracing or not (above.sampled if above else rare or self.sampled()):
            return None
        context = Context(above.trace_id if above else self.next_id(), self.next_id(), True)
        return MemorySpan(self, name, started_ns, context, above.span_id if above else 0, tuple(links), attributes)

    def count(self, name: str, amount: float, attributes: Attributes = NONE) -> None:
        checked(name, (Kind.COUNTER,), tuple(attributes))
        self.counts[name, tuple(sorted(attributes.items()))] += amount

    def record(self, name: str, value: float, attributes: Attributes = NONE) -> None:
        checked(name, (Kind.HISTOGRAM,), tuple(attributes))
        self.recorded[name, tuple(sorted(attributes.items()))].append(value)

    def show(self, read: Callable[[], Iterable[Point]]) -> None:
        self.readers.append(read)

    def shown(self) -> dict[Key, float]:
        """As somebody sees it who looks now."""
        points = [point for read in self.readers for point in read()]
        for point in points:
            checked(point.name, (Kind.TOTAL, Kind.GAUGE), tuple(point.attributes))
        return {(point.name, tuple(sorted(point.attributes.items()))): point.value for point in points}

    def close(self) -> None:
        self.tracing = False

    def next_id(self) -> int:
        return next(self._ids)

    def keep(
        self,
        name: str,
        context: Context,
        parent: int,
        times: tuple[int, int],
        attributes: Attributes,
        links: Sequence[str],
        failure: str = "",
    ) -> None:
        linked = tuple(found.span_id for link in links if (found := context_of(link)))
        mine = (self.identity.tier, self.identity.unit, name, context.trace_id, context.span_id, parent)
        self.spans.append(KeptSpan(*mine, linked, *times, attributes, failure))


@dataclass(slots=True)
class MemorySpan:
    telemetry: MemoryTelemetry
    name: str
    started_ns: int
    at: Context
    parent: int
    links: tuple[str, ...]
    attributes: Attributes

    @property
    def context(self) -> str:
        return str(self.at)

    def child(
        self, name: str, started_ns: int, ended_ns: int, attributes: Attributes = NONE, links: Sequence[str] = ()
    ) -> None:
        inner = Context(self.at.trace_id, self.telemetry.next_id(), True)
        self.telemetry.keep(name, inner, self.at.span_id, (started_ns, ended_ns), attributes, links)

    def end(self, ended_ns: int, attributes: Attributes = NONE, failure: str = "") -> None:
        times, told = (self.started_ns, ended_ns), {**self.attributes, **attributes}
        self.telemetry.keep(self.name, self.at, self.parent, times, told, self.links, failure)
