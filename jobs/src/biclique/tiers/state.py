"""The tuples that a joiner unit holds, and their checkpoints.

Each side that the unit stores is one store of its own tuples, in stamp order, and one more of all that it has taken
over from siblings (whose stamps interleave with its own and with each other's; they are never fresh, so nothing asks
for their order).

Sealing cuts the rows appended since the last seal into immutable blobs, one at a time: beside the state there is never
more than one blob in memory, here and on restore. A small last blob is written again together
with what follows it, under a new name, so that their number stays bounded; no blob ever changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from biclique.core.codec import checksum, decode_rows, encode_rows
from biclique.core.ranks import Counts
from biclique.core.rows import Rows
from biclique.index.access import ProbeKeysOf, StoredKeysOf
from biclique.index.build import new_store
from biclique.index.protocol import ProbeKeys, Store, StoreLayout
from biclique.plan.model import PLACE, Side, Stage
from biclique.query.expression import Column
from biclique.tiers.messages import TIME_NEVER
from biclique.tiers.progress import BlobRef


class BlobRows(NamedTuple):
    """A last blob with fewer rows than `least`, and fewer bytes than a quarter of the most, is written again with what
    follows it; none has more than `most` rows, or more bytes than `bytes_most` if it has more rows than one."""

    least: int = 4_096
    most: int = 32_768
    bytes_most: int = 1 << 20


BLOB_ROWS = BlobRows()
ARCHIVES_PER_WINDOW = 10  # the paper's archive period: a tenth of the window
NEWEST = 1 << 63  # above every time and every rank
SEGMENT_ROWS_MIN = 4_096  # below it a look-up costs more than the rows that archiving would save


def positions_of(columns: Sequence[Column]) -> dict[Column, int]:
    return {column: i for i, column in enumerate(columns)}


def layout_of(side: Side, sums: tuple[int, ...], segment_rows_min: int) -> StoreLayout:
    window = side.window_us if side.count_window is None else side.count_window.tuples
    return StoreLayout(
        side.access.kind,
        side.types,
        len(side.relations),
        None if window is None else max(1, window // ARCHIVES_PER_WINDOW),
        sums,
        segment_rows_min,
        side.count_window is not None,
    )


def oldest_needed(side: Side, watermark: int, counted: Counts) -> int | None:
    """What lies below it, in time or in rank, no tuple above the frontier can match; None: all may be. `counted` is
    empty where nothing has been handled yet."""
    if side.count_window is not None:
        return (counted[side.count_window.place] if counted else 0) - side.count_window.tuples
    return None if side.window_us is None or watermark <= TIME_NEVER else watermark - side.window_us


@dataclass(slots=True)
class _Sealed:
    ref: BlobRef
    size: int  # bytes of its rows
    start: int  # reference from which on its rows were taken
    opens: bool  # the first blob of its seal; another one is not written again for being small
    newest_needed: int  # greatest of what the window measures of its rows: `oldest` time, or rank


@dataclass(slots=True)
class _Part:
    """One store and what of it is sealed."""

    store: Store
    adopted: bool
    sealed: list[_Sealed] = field(default_factory=list)
    sealed_to: int = 0  # reference


class SideState:
    """What a unit stores of one side, and how the other side's rows find it."""

    def __init__(
        self,
        stage: Stage,
        number: int,
        sums: tuple[int, ...] = (),
        blob_rows: BlobRows = BLOB_ROWS,
        segment_rows_min: int = SEGMENT_ROWS_MIN,
    ) -> None:
        self._blob_rows = blob_rows
        side, other = stage.sides[number], stage.sides[1 - number]
        self.number, self.side = number, side
        access = side.access
        self._stored_keys = StoredKeysOf(access.equal, access.first, access.second, positions_of(side.columns))
        self._probe_keys = ProbeKeysOf(access.equal, access.first, access.second, positions_of(other.columns))
        self._layout = layout_of(side, sums, segment_rows_min)
        self._types = self._layout.column_types
        own = new_store(self._layout)
        self._parts = [_Part(own, False, sealed_to=own.end)]

    @property
    def stores(self) -> Iterator[Store]:
        return (part.store for part in self._parts)

    @property
    def own(self) -> Store:
        return self._parts[0].store

    @property
    def rows(self) -> int:
        return sum(part.store.rows for part in self._parts)

    @property
    def size_bytes(self) -> int:
        return sum(part.store.bytes for part in self._parts)

    @property
    def reserved_bytes(self) -> int:
        """What the memory budget counts: it grows with the rows, and does not jump when runs begin to merge."""
        return sum(part.store.bytes_reserved for part in self._parts)

    @property
    def row_bytes(self) -> int:
        """Without their index."""
        return sum(part.store.bytes_below(NEWEST) for part in self._parts)

    def freed_bytes(self, watermark: int, counted: Counts) -> int:
        """Of the rows that `expire` would drop now."""
        bound = oldest_needed(self.side, watermark, counted)
        return 0 if bound is None else sum(part.store.bytes_below(bound) for part in self._parts)

    def append(self, rows: Rows) -> int:
        """The unit's own rows, in stamp order. Returns the reference of the first."""
        return self._append(self.own, rows)

    def _append(self, store: Store, rows: Rows) -> int:
        return store.append(rows, self._stored_keys(rows.columns, len(rows)))

    def probe_keys(self, rows: Rows) -> ProbeKeys:
        """What rows of the other side ask of this one."""
        return self._probe_keys(rows.columns, len(rows))

    def staged(self) -> _Part:
        store = new_store(self._layout)
        return _Part(store, True, sealed_to=store.end)

    def stage(self, part: _Part, rows: Rows) -> None:
        self._append(part.store, rows)

    def adopt(self, part: _Part) -> int:
        """Everything in there. Returns the rows."""
        taken = part.store.rows
        if not taken:
            return 0
        if len(self._parts) == 1:
            self._parts.append(part)
            return taken
        at = part.sealed_to
        while at < part.store.end:
            rows, at = part.store.rows_from(at, self._blob_rows.most, self._blob_rows.bytes_most)
            self._append(self._parts[1].store, rows)
        return taken

    def _adopted(self) -> _Part:
        if len(self._parts) == 1:
            self._parts.append(self.staged())
        return self._parts[1]

    def expire(self, watermark: int, counted: Counts) -> int:
        """Drop what no accepted tuple can match any more. `counted`: all tuples up to the frontier, of each counted
        relation. Returns the rows dropped."""
        bound = oldest_needed(self.side, watermark, counted)
        if bound is None:
            return 0
        dropped = 0
        for part in self._parts:
            dropped += part.store.expire(bound)
            part.sealed = [sealed for sealed in part.sealed if sealed.newest_needed >= bound]
        self._parts = [self._parts[0], *(part for part in self._parts[1:] if part.store.rows)]
        return dropped

    def seal(self, names: Iterator[str]) -> Iterator[tuple[BlobRef, bytes]]:
        """Everything stored is in a blob afterwards. Yields the new blobs, each to be put before the next is made."""
        limits = self._blob_rows
        for part in self._parts:
            if part.sealed_to == part.store.end:
                continue
            last = part.sealed[-1] if part.sealed else None
            if last is not None and last.opens and self._is_small(last):
                part.sealed_to = last.start
                part.sealed.pop()
            opens = True
            while part.sealed_to < part.store.end:
                start = part.sealed_to
                rows, part.sealed_to = part.store.rows_from(start, limits.most, limits.bytes_most)
                if len(rows):
                    data = encode_rows(rows, self._types, self._left_behind(rows))
                    ref = BlobRef(next(names), self.number, len(rows), checksum(data), part.adopted)
                    part.sealed.append(_Sealed(ref, rows.nbytes, start, opens, self._newest_needed(rows)))
                    opens = False
                    yield ref, data

    def unseal(self, lost: frozenset[str]) -> None:
        """These blobs are gone: they are sealed again, and so is all that was sealed behind the first of them. (Not
        they alone: rows of their stretch may have expired, so that it would be cut elsewhere than before.)"""
        for part in self._parts:
            gone = next((n for n, sealed in enumerate(part.sealed) if sealed.ref.name in lost), None)
            if gone is not None:
                part.sealed_to = part.sealed[gone].start
                del part.sealed[gone:]

    def _left_behind(self, rows: Rows) -> tuple[int, ...]:
        """Columns that are blank in all of them."""
        payload = self.side.payload
        return payload if payload and bool((np.asarray(rows.columns[PLACE].values) >= 0).all()) else ()

    def _is_small(self, sealed: _Sealed) -> bool:
        return sealed.ref.rows < self._blob_rows.least and sealed.size < self._blob_rows.bytes_most // 4

    def _newest_needed(self, rows: Rows) -> int:
        return int((rows.oldest if self.side.count_window is None else rows.ordinals[0]).max())

    def blobs(self) -> Iterator[BlobRef]:
        return (sealed.ref for part in self._parts for sealed in part.sealed)

    def decoded(self, data: bytes) -> Rows:
        return decode_rows(data, self._types, self._layout.id_parts)

    def load(self, ref: BlobRef, data: bytes) -> None:
        """A blob of the manifest that is being restored, in the manifest's order. Raises DamagedBlob."""
        rows = self.decoded(data)
        if not len(rows):
            return
        part = self._adopted() if ref.adopted else self._parts[0]
        first = self._append(part.store, rows)
        part.sealed.append(_Sealed(ref, rows.nbytes, first, True, self._newest_needed(rows)))
        part.sealed_to = part.store.end


class Adoption:
    """A sibling's tuples on their way in. They stand apart until all of them are here: one blob that turns out to be
    damaged makes those before it worthless."""

    def __init__(self, states: Mapping[int, SideState]) -> None:
        self._states = states
        self._staged = {side: state.staged() for side, state in states.items()}

    def take(self, side: int, rows: Rows) -> None:
        self._states[side].stage(self._staged[side], rows)

    def take_blob(self, ref: BlobRef, data: bytes) -> None:
        """Raises DamagedBlob."""
        self.take(ref.side, self._states[ref.side].decoded(data))

    def take_over(self) -> int:
        """Into the state. Returns the rows."""
        return sum(state.adopt(self._staged.pop(side)) for side, state in self._states.items())
