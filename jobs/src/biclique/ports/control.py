"""The control port: what the tiers of a query are told from outside, and what only an outsider can count.

Whoever steers (the operator, or a person with a folder) writes versions of the routing table, one after the other, and
never changes one. An attempt number is given once: incarnations are made of it, so it must survive every process.
"""

from __future__ import annotations

from typing import Protocol

from biclique.routing.table import RoutingTable


class Control(Protocol):
    def table(self, version: int | None) -> RoutingTable | None:
        """That version, or the newest that can be seen; None if it cannot be seen yet."""

    def publish(self, table: RoutingTable) -> None:
        """The next version; writing the newest one again changes nothing. Raises OutOfTurn for any other."""

    def next_attempt(self, name: str) -> int:
        """Greater than every number given for this name before."""

    def attempts(self, name: str) -> int:
        """The greatest number given for this name so far; 0 if none was."""

    def stopping(self) -> bool:
        """Whether the query is to stop: units return between two transactions."""


class OutOfTurn(Exception):
    """A version that does not follow the newest one, or another table under the newest one's number."""
