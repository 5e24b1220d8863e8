"""A checkpoint store that loses, truncates, corrupts, rolls back, goes away and fills up: all that a store may do to
those who trust it.

It is the memory store with its contents damaged from outside, so that between two faults it keeps the store's contract.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from biclique.ports.memory import MemoryStore
from biclique.tiers.effects import BlobsLost, Publication
from biclique.tiers.messages import Producer
from biclique.tiers.progress import Manifest

AWAY, FULL = "the store cannot be reached", "the store is full"


class FaultyStore(MemoryStore):
    def __init__(self, rng: random.Random) -> None:
        super().__init__()
        self._rng = rng
        self._remembered = (dict(self._manifests), dict(self._blobs))
        self.away = self.full = False
        self.wrong: list[str] = []  # manifests that were taken although a blob was gone

    def load(self, owner: Producer) -> tuple[Manifest, ...]:
        return () if self.away else super().load(owner)

    def get(self, name: str) -> bytes | None:
        return None if self.away else super().get(name)

    def put(self, name: str, data: bytes) -> bool:
        return not self.away and not self.full and super().put(name, data)

    def publish(self, owner: Producer, manifest: Manifest) -> Publication | BlobsLost:
        if self.away or self.full:
            return Publication.UNAVAILABLE
        there, newest = set(self._blobs), self._manifests.get(owner, ())[:1]
        answer = super().publish(owner, manifest)
        gone = [ref.name for ref in manifest.blobs if ref.name not in there]
        if answer is Publication.PUBLISHED and gone and newest != (manifest,):
            self.wrong.append(f"a manifest of {owner} was taken although blob {gone[0]} is gone")
        return answer

    def come_and_go(self, rng: random.Random) -> str:
        """A server that is cut off and comes back, or that is full until somebody makes room."""
        if self.away or self.full:
            self.away = self.full = False
            return "the store is back"
        self.away = rng.random() < 0.5
        self.full = not self.away
        return AWAY if self.away else FULL

    def fail(self, rng: random.Random) -> str:
        return rng.choice((self.roll_back, self.lose_everything, lambda: self.come_and_go(rng)))()

    def harm(self, rng: random.Random) -> str | None:
        return rng.choice((self.truncate_blob, self.corrupt_blob, self.lose_blob, self.lose_manifests))()

    def kept(self) -> tuple[int, int]:
        """The most manifests of one owner, and the most rows of one blob of a joiner."""
        joiners = [m for owner, owned in self._manifests.items() if owner.tier == "joiner" for m in owned]
        rows = (ref.rows for manifest in joiners for ref in manifest.blobs)
        return max(map(len, self._manifests.values()), default=0), max(rows, default=0)

    def remember(self) -> None:
        """What a later roll-back goes back to."""
        self._remembered = (dict(self._manifests), dict(self._blobs))

    def roll_back(self) -> str:
        self._manifests, self._blobs = dict(self._remembered[0]), dict(self._remembered[1])
        return "the store rolls back"

    def lose_everything(self) -> str:
        self._manifests, self._blobs = {}, {}
        return "the store loses everything"

    def lose_blob(self) -> str | None:
        if not self._blobs:
            return None
        name = self._rng.choice(list(self._blobs))
        del self._blobs[name]
        return f"the store loses blob {name}"

    def truncate_blob(self) -> str | None:
        return self._damage("truncates", lambda data: data[: self._rng.randrange(len(data))])

    def corrupt_blob(self) -> str | None:
        def flip(data: bytes) -> bytes:
            at = self._rng.randrange(len(data))
            return data[:at] + bytes([data[at] ^ (1 << self._rng.randrange(8))]) + data[at + 1 :]

        return self._damage("corrupts", flip)

    def lose_manifests(self) -> str | None:
        """The newest of an owner go first: an asynchronous replica took over."""
        if not self._manifests:
            return None
        owner = self._rng.choice(list(self._manifests))
        self._manifests[owner] = self._manifests[owner][self._rng.randint(1, 3) :]
        return f"the store loses manifests of {owner}"

    def _damage(self, what: str, change: Callable[[bytes], bytes]) -> str | None:
        names = [name for name, data in self._blobs.items() if data]
        if not names:
            return None
        name = self._rng.choice(names)
        self._blobs[name] = change(self._blobs[name])
        return f"the store {what} blob {name}"
