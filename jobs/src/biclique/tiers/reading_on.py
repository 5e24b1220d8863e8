"""Reading on in a log that is trimmed meanwhile, as a generator of effects (tiers/effects.py).

Whoever trims writes down first how far (tiers/trimming.py). So a reader that finds its log to begin behind its place
knows two cases apart: what is gone is needed by nobody, or somebody else has deleted it.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from biclique.tiers.effects import Effect, Fetched, Read, ReadProgress
from biclique.tiers.messages import Address
from biclique.tiers.progress import TrimProgress
from biclique.tiers.trimming import trimmer_of


class TrimmedTooFar(Exception):
    """Records that are still needed are gone from the log: going on would lose results."""

    def __init__(self, address: Address, start: int, at: int, known: int) -> None:
        self.address = address
        super().__init__(
            f"the log {address} is read on at offset {at} and begins at {start}, and Biclique has trimmed it up to "
            f"{known} only: records that are still needed have been deleted, so going on would lose results; restore "
            "the topic, or begin the query anew under another BICLIQUE_PREFIX"
        )


def read_on(address: Address, at: int, limit: int) -> Generator[Effect, Any, Fetched]:
    """Records behind `at` that are gone are those that nobody needs: whoever trimmed them has written that down."""
    fetched: Fetched = yield Read(address, at, limit)
    if fetched.start > at:
        trimmed: TrimProgress | None = yield ReadProgress(trimmer_of(address))
        known = 0 if trimmed is None else trimmed.before
        if known < fetched.start:
            raise TrimmedTooFar(address, fetched.start, at, known)
    return fetched
