"""Which of a merger's groups stand in which blobs of its checkpoints.

A checkpoint writes the groups that changed since the last one; a group stands in several blobs then, and the last one
counts. They are in *levels*, one for each checkpoint, the oldest first: a checkpoint takes back the last levels that
are not twice as large as itself, and writes their groups, too. So each level is more than twice the next: there are few
of them, all blobs together have at most twice the groups that there are, and a group is written again a logarithmic
number of times. Where groups are dropped meanwhile, blobs that are mostly of such are written anew, all of them.

A checkpoint may be written in slices, between which groups change: such a group is written again in a later slice, and
the manifest comes after the last, when nothing is left. Performs nothing, and knows the groups by their keys alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from biclique.kernels.grouping import Key
from biclique.kernels.groups import Groups
from biclique.tiers.progress import BlobRef

GROUP_BYTES = 100  # of a group that is there: its place among those that changed, or in a level
GONE_BYTES = 150  # of one that is not: its key, too
GONE_MIN = 4_096  # so many in blobs are nothing to look at


@dataclass(slots=True)
class _Level:
    refs: list[BlobRef] = field(default_factory=list)
    keys: list[Key] = field(default_factory=list)


class SealedGroups:
    def __init__(self) -> None:
        self._levels: list[_Level] = []
        self._changed: dict[Key, None] = {}  # since they were written last
        self._writing: _Level | None = None  # the last level, until its checkpoint is complete

    @property
    def refs(self) -> tuple[BlobRef, ...]:
        return tuple(ref for level in self._levels for ref in level.refs)

    @property
    def _rows(self) -> int:
        return sum(len(level.keys) for level in self._levels)

    def bytes(self, groups: int) -> int:
        """`groups`: how many there are."""
        return groups * GROUP_BYTES + max(0, self._rows - 2 * groups) * GONE_BYTES

    # What becomes of groups.

    def change(self, keys: Iterable[Key]) -> None:
        self._changed.update(dict.fromkeys(keys))

    def forget(self, keys: Iterable[Key], left: int) -> None:
        """These have been dropped; so many are there still."""
        for key in keys:
            self._changed.pop(key, None)
        if not left:
            self._levels, self._changed, self._writing = [], {}, None

    def load(self, ref: BlobRef, keys: Iterable[Key]) -> None:
        """All blobs of the manifest that is being restored are one level."""
        if not self._levels:
            self._levels.append(_Level())
        self._levels[0].refs.append(ref)
        self._levels[0].keys.extend(keys)

    # A checkpoint.

    def begin(self, groups: Groups) -> list[Key]:
        """It begins, or goes on with its next slice: what is left to write."""
        if self._writing is None:
            if self._rows > 2 * len(groups) + GONE_MIN:
                self.write_anew(groups)
            while self._levels and len(self._levels[-1].keys) <= 2 * len(self._changed):
                self.change(key for key in self._levels.pop().keys if key in groups)
            self._writing = _Level()
            self._levels.append(self._writing)
        return list(self._changed)

    def written(self, ref: BlobRef, whole: Iterable[Key]) -> None:
        """A blob is about to be put. `whole`: the groups that are complete with it."""
        assert self._writing is not None, "no checkpoint has begun"
        self._writing.refs.append(ref)
        for key in whole:
            self._writing.keys.append(key)
            del self._changed[key]

    def end(self) -> None:
        """Everything is in a blob."""
        assert not self._changed
        if self._writing is not None and not self._writing.refs:
            self._levels.pop()
        self._writing = None

    def write_anew(self, groups: Groups) -> None:
        """All of them, with the next checkpoint: nothing that was written counts any more."""
        self._levels, self._writing = [], None
        self.change(groups.keys)
