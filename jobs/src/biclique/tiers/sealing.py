"""A checkpoint, as effects: blobs first, then the manifest that names them.

A crash in between leaves blobs that nobody names. A store that takes nothing now costs this checkpoint and no more: the
unit goes on, and what the store turns out to lack when the next manifest is to be published is sealed again.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from biclique.tiers.effects import BlobsLost, Effect, Publication, PublishManifest, PutBlob
from biclique.tiers.joiner import Joiner
from biclique.tiers.merger import Merger
from biclique.tiers.messages import Producer


def seal(
    joiner: Joiner, incarnation: int, serial: int, owner: Producer, blobs_max: int = 1 << 30
) -> Generator[Effect, Any, Publication | BlobsLost | None]:
    """None: there is more to seal, after the next turn; its caller then asks for twice as much, so that it comes to an
    end whatever comes in meanwhile."""
    for number, (ref, data) in enumerate(joiner.seal(incarnation, serial), 1):
        taken: bool = yield PutBlob(ref.name, data)
        if not taken:
            return Publication.UNAVAILABLE
        if number == blobs_max:
            return None
    answer: Publication | BlobsLost = yield PublishManifest(owner, joiner.manifest(incarnation))
    if isinstance(answer, BlobsLost):
        joiner.unseal(answer.names)
    return answer


def seal_merger(
    merger: Merger, me: Producer, incarnation: int, serial: int, blobs_max: int = 1 << 30
) -> Generator[Effect, Any, Publication | BlobsLost | None]:
    """None: as above."""
    for number, (ref, data) in enumerate(merger.seal(incarnation, serial), 1):
        taken: bool = yield PutBlob(ref.name, data)
        if not taken:
            return Publication.UNAVAILABLE
        if number == blobs_max and not merger.seals_whole:
            return None
    answer: Publication | BlobsLost = yield PublishManifest(me, merger.manifest(incarnation))
    if isinstance(answer, BlobsLost):
        merger.unseal()
    return answer
