"""The checkpoint store: blobs and manifests of joiner units. It saves time, never results: what it loses is replayed.

What every implementation guarantees (tests/conformance/test_checkpoints.py runs the same suite over each):
* a blob is all there or not there; who reads one still checks its bytes against the checksum in the manifest;
* manifests of an owner come newest first, the last KEPT of them, each as it was published or not at all;
* `publish` is atomic, and refuses a manifest whose incarnation is below one that has published (SUPERSEDED): a process
  that was replaced cannot push its successor's manifests out;
* it refuses a manifest that names a blob which is not there, and says which (BlobsLost): what a store has lost is not
  hidden behind a newer manifest, and whoever has the rows seals them again;
* publishing the same once more changes nothing, so a lost answer may be asked for again;
* a blob that a kept manifest names is kept; once no kept manifest of any owner names it, it may go.

What it need not guarantee: that anything put is still there later, or that it can be reached. Loops treat None, an
empty tuple and "not now" as ordinary answers. A store on another machine raises StoreUnavailable where it cannot be
reached, and PatientStore (ports/patient_store.py) makes those answers of it.
"""

from __future__ import annotations

from typing import Protocol

from biclique.tiers.effects import BlobsLost, Publication
from biclique.tiers.messages import Producer
from biclique.tiers.progress import Manifest

KEPT = 3  # one may be torn by a fault of the store, one may be ahead of the progress, one is then left


class StoreUnavailable(Exception):
    """It cannot be reached, or refuses us for a reason that may pass. The sentence holds no secret."""


class StoreRefusal(StoreUnavailable):
    """It refuses who we are. Only a person can help, unless a password is being changed just now."""


class UnfitStore(Exception):
    """What is there would lose checkpoints in silence, or does not exist; the sentence says what to mend."""


class CheckpointStore(Protocol):
    def load(self, owner: Producer) -> tuple[Manifest, ...]: ...

    def get(self, name: str) -> bytes | None: ...

    def put(self, name: str, data: bytes) -> bool: ...

    def publish(self, owner: Producer, manifest: Manifest) -> Publication | BlobsLost: ...
