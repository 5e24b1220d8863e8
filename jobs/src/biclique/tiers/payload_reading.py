"""Reading the payload of a batch of matches from `<q>.shuffled`, as a generator of effects (tiers/effects.py).

Trimming keeps every block that unhandled rows or state can need (tiers/payload_trimming.py), by committed progress. So
a block that is gone tells one of two things: a successor has committed more than this incarnation knows of, which ends
it quietly; or something else has trimmed shuffled, and going on would lose results, which is a loud stop.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from biclique.tiers.effects import Effect, Fetched, Read, ReadProgress, Rest
from biclique.tiers.messages import Address, Producer, SourceBlock, Topic
from biclique.tiers.payloads import BlockPlace, Payloads, Wanted, runs_of
from biclique.tiers.progress import Progress

AGAIN_MS = 10  # a fetch may bring nothing, though the block is there


class MissingPayload(Exception):
    """Shuffled was trimmed below what state still refers to: going on would lose results. For a person to look at."""


def read_payloads(
    wanted: Wanted, payloads: Payloads, owner: Producer, progress: Progress
) -> Generator[Effect, Any, bool]:
    """`progress`: as this incarnation last committed it. False: a successor has handled it."""
    for first, count in runs_of(wanted.blocks):
        address, at, end = Address(Topic.SHUFFLED, first.dispatcher), first.offset, first.offset + count
        while at < end:
            fetched: Fetched = yield Read(address, at, end - at)
            if fetched.start > at:
                known: Progress | None = yield ReadProgress(owner)
                if known != progress:
                    return False
                raise MissingPayload(
                    f"{address} begins at {fetched.start}, and {owner} still needs the payload at {at}: a retention"
                    " time or somebody else has deleted it; the query must begin anew"
                )
            for offset, record in fetched.records:
                if offset < end:
                    assert isinstance(record, SourceBlock), f"{address} has no source block at {offset}"
                    payloads.take(BlockPlace(first.dispatcher, offset), record)
                    at = offset + 1
            if not fetched.records:
                yield Rest(AGAIN_MS)
    return True
