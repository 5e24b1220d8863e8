"""The control port: what the tiers of a query are told from outside, and what only an outsider can count.

Whoever steers (the operator, or a person with a folder) writes versions of the routing table, one after the other, and
never changes one. An attempt number is given once: incarnations are made of it, so it must survive every process. A
source pauses when a person must look at it, and that stands here, where people look.
The other way, units tell how they are, where that is not as it should be, and show what they do to whoever looks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from biclique.ports.reports import ReadReport
from biclique.routing.table import RoutingTable


class State(Enum):
    STANDS = "stands still"  # and goes on by itself when it can
    WAITS = "waits"  # for something that does not answer
    STOPPED = "stopped"  # until a person has done what the sentence says


@dataclass(frozen=True)
class Condition:
    """What a person should know of a unit that does not simply run. `why`: a sentence, with the remedy."""

    state: State
    why: str


@dataclass(frozen=True, slots=True)
class Pause:
    """`why`: a sentence for whoever is to resume it. `declared`: what the manifest said of the source then; a source of
    which it says something else is resumed by that."""

    why: str
    declared: str = ""


class Control(Protocol):
    def table(self, version: int | None) -> RoutingTable | None:
        """That version, or the newest that can be seen; None if it cannot be seen yet."""

    def publish(self, table: RoutingTable) -> None:
        """The next version; writing the newest one again changes nothing. Raises OutOfTurn for any other."""

    def note(self, text: str) -> None:
        """What the query was when it began. Of several that write before the first table, the last one's stands; behind
        it, what stands is left as it is."""

    def noted(self) -> str | None:
        """What stands; None: nothing has been written."""

    def next_attempt(self, name: str) -> int:
        """Greater than every number given for this name before."""

    def attempts(self, name: str) -> int:
        """The greatest number given for this name so far; 0 if none was."""

    def pause(self, source: str, pause: Pause) -> None:
        """It is not read until it is resumed, whoever begins again meanwhile; a pause that stands stays as it is."""

    def paused(self) -> Mapping[str, Pause]:
        """By the name of the source."""

    def resume(self, source: str) -> None: ...

    def stopping(self) -> bool:
        """Whether the query is to stop: units return between two transactions."""

    def tell(self, name: str, condition: Condition | None) -> None:
        """How a unit is, until it is told anew; None: it runs."""

    def conditions(self) -> Mapping[str, Condition]:
        """By name, of all that do not simply run."""

    def show(self, name: str, read: ReadReport) -> bool:
        """What a unit does, for whoever looks at the query now: `read` is called now and then, from another thread.
        False: it never is, since nobody looks there."""

    def close(self) -> None:
        """Nothing more is asked of it."""


class OutOfTurn(Exception):
    """A version that does not follow the newest one, or another table under the newest one's number."""
