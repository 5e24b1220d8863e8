"""Telemetry as the hosts need it: spans whose context travels in records, and measurements out of one catalogue.

What every implementation guarantees (tests/conformance/test_telemetry.py runs the same suite over each):
* nothing here raises for want of a collector, or waits for one but for `close`, and there for seconds only: telemetry
  may be lost, and the query never notices;
* a span is either recorded whole or not at all, as its trace is: `begin` says which, once. With a parent the parent's
  decision holds; without one the sampler's;
* a context that cannot be read counts as none;
* a measurement's name is one of the catalogue (ports/metrics.py), and its attributes are those that the catalogue
  names: another one is a mistake of ours, and raises.

Times are nanoseconds of the wall clock. Whoever calls has measured them with a clock that does not jump.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

Attributes = Mapping[str, str | int | float | bool]
NONE: Attributes = {}


@dataclass(frozen=True, slots=True)
class Identity:
    """Whose telemetry it is. `unit`: as in its producer's name. `incarnation`: which start of it this is."""

    query: str
    tier: str
    unit: str
    incarnation: int

    def attributes(self) -> dict[str, str]:
        """Of every measurement. The incarnation is not among them: a restart would begin each series anew."""
        return {"biclique.query": self.query, "biclique.tier": self.tier, "biclique.unit": self.unit}


class Point(NamedTuple):
    """What an instrument shows now."""

    name: str
    value: float
    attributes: Attributes = NONE


class Span(Protocol):
    """One that is being recorded."""

    @property
    def context(self) -> str:
        """For records that it caused (ports/trace_context.py)."""

    def child(
        self, name: str, started_ns: int, ended_ns: int, attributes: Attributes = NONE, links: Sequence[str] = ()
    ) -> None:
        """A part of it, told when it is over."""

    def end(self, ended_ns: int, attributes: Attributes = NONE, failure: str = "") -> None: ...


class Telemetry(Protocol):
    @property
    def tracing(self) -> bool:
        """False: `begin` never gives a span, so that a caller may spare itself the trouble."""

    def begin(
        self,
        name: str,
        started_ns: int,
        parent: str = "",
        links: Sequence[str] = (),
        attributes: Attributes = NONE,
        rare: bool = False,
    ) -> Span | None:
        """None: nobody follows this trace. `rare`: what happens so seldom that a sampler's ratio would hide it, such as
        a restore; recorded unless all tracing is off."""

    def count(self, name: str, amount: float, attributes: Attributes = NONE) -> None: ...

    def record(self, name: str, value: float, attributes: Attributes = NONE) -> None: ...

    def show(self, read: Callable[[], Iterable[Point]]) -> None:
        """`read` is called from another thread, whenever somebody looks, for all that is shown as it stands."""

    def close(self) -> None:
        """What has not been sent is sent, if that takes no more than a few seconds."""
