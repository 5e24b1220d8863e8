"""What happens to a process, read off what its loop asks for and is answered. It changes nothing: the world counts it
(coverage.py), and a run with a focus crashes a process right behind it (focus.py)."""

from __future__ import annotations

from typing import Any

from biclique.tiers.effects import (
    BlobsLost,
    Commit,
    Effect,
    Fence,
    GetBlob,
    LoadManifests,
    Outcome,
    Publication,
    PublishManifest,
    PutBlob,
    Read,
    ReadProgress,
    Rest,
)
from biclique.tiers.messages import Address, Producer, Signal, Topic
from biclique.tiers.progress import JoinerProgress, MergerProgress

CURSOR = "a step goes over several transactions"
HALF = "half of what a merger's step writes is written"
MOVED_BY_MANIFEST, MOVED_BY_LOG = "a move by manifest", "a move by log"
SEALED = "a manifest is published"
IDLE = "a dispatcher is idle"
REPLAY = "a unit replays its log"
RESTORED, FROM_NOTHING = "a restart finds manifests", "a restart finds no manifest"
READ_AGAIN = "a shed block is read again"
BLOB_GONE = "a restart lacks a blob"
LOST, SKIPPED = "lost blobs are sealed again", "a checkpoint is skipped"
SLICED = "a checkpoint goes on after the next turn"
ANSWERS = {
    Publication.PUBLISHED: SEALED,
    Publication.SUPERSEDED: "a manifest is refused",
    Publication.UNAVAILABLE: SKIPPED,
}
FETCHED = "a unit fetches payload"


class Observer:
    """Of one incarnation."""

    def __init__(self, owner: Producer) -> None:
        self._owner = owner
        self._home: Address | None = None  # the unit's own partition
        self._read_to = 0
        self._restarted = False
        self._taking: str | None = None  # over the tuples of a sibling

    def see(self, effect: Effect, answer: Any, following: Effect | None) -> list[str]:
        found = []
        match effect:
            case Fence():
                self._restarted = answer > 1
            case Commit(_, _, sends, progress):
                found.append(f"a commit is {answer.value}")
                if answer is Outcome.COMMITTED:
                    if isinstance(progress, JoinerProgress) and progress.cursor is not None:
                        found.append(CURSOR)
                    if isinstance(progress, MergerProgress) and progress.cursor is not None:
                        found.append(HALF)
                    if any(isinstance(record, Signal) and record.idle for _, record in sends[-1:]):
                        found.append(IDLE)
            case PublishManifest():
                found.append(LOST if isinstance(answer, BlobsLost) else ANSWERS[answer])
            case PutBlob() if not answer:
                found.append(SKIPPED)
            case PutBlob() if not isinstance(following, PutBlob | PublishManifest):
                found.append(SLICED)
            case GetBlob() if answer is None:
                found.append(BLOB_GONE)
            case LoadManifests(owner) if owner != self._owner:
                self._taking = MOVED_BY_MANIFEST
            case LoadManifests() if self._restarted:
                found.append(RESTORED if answer else FROM_NOTHING)
            case Read(address) if address.topic is Topic.SHUFFLED and self._owner.tier == "joiner":
                found += [FETCHED] if answer.records else []
            case Read(address, offset, _) if address.topic is Topic.UNIT:
                found += self._reading(address, offset, bool(answer.records), answer.next_offset)
        if self._taking and not isinstance(following, GetBlob | ReadProgress | Rest) and not self._elsewhere(following):
            found.append(self._taking)
            self._taking = None
        return found

    def _reading(self, address: Address, offset: int, some: bool, next_offset: int) -> list[str]:
        if self._home is None:
            self._home, self._read_to = address, next_offset
            return [REPLAY] if self._restarted and some else []
        if address != self._home:
            self._taking = MOVED_BY_LOG
            return []
        again = offset < self._read_to
        self._read_to = max(self._read_to, next_offset)
        return [READ_AGAIN] if again and some else []

    def _elsewhere(self, effect: Effect | None) -> bool:
        return isinstance(effect, Read) and effect.address != self._home
