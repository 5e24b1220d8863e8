"""A checkpoint store that loses, truncates, corrupts and rolls back: all that a store may do to those who trust it.

It is the memory store with its contents damaged from outside, so that between two faults it keeps the store's contract.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from biclique.ports.memory import MemoryStore


class FaultyStore(MemoryStore):
    def __init__(self, rng: random.Random) -> None:
        super().__init__()
        self._rng = rng
        self._remembered = (dict(self._manifests), dict(self._blobs))

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
