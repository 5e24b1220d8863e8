"""Where the embedded engine's input comes from: one feed for each source, whatever it is made of.

A feed hands on source blocks and heartbeats, in order: what comes of files is in hosts/file_feed.py, what comes of
topics in hosts/topic_feed.py. `take` never waits; how much is held beside it is bounded.
"""

from __future__ import annotations

from typing import Protocol

from biclique.ports.run_state import SourceState
from biclique.tiers.messages import Heartbeat, SourceBlock


class Feed(Protocol):
    number: int  # of the source

    @property
    def state(self) -> SourceState:
        """How far it has been taken: what a checkpoint holds."""

    @property
    def partitions(self) -> tuple[int, ...]:
        """That it brings records of, as far as they are known."""

    @property
    def caught_up(self) -> bool:
        """All that there is for now has been taken; of a run that does not follow: all that there will be."""

    @property
    def ahead_bytes(self) -> int:
        """Of what is in memory and waits behind the next block."""

    def bytes_known(self) -> tuple[int, int]:
        """Taken, and in all. For a display."""

    def start(self) -> None: ...

    def look(self) -> None:
        """Now and then, of a run that follows: what is new?"""

    def take(self) -> tuple[SourceBlock | Heartbeat, ...]:
        """What is next, at most one block of it; empty: nothing is here."""

    def file_name(self, ordinal: int) -> str: ...

    def close(self) -> None: ...
