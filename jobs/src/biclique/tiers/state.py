"""The tuples that a joiner unit holds, and their checkpoints.

Each side that the unit stores is one store of its own tuples, in stamp order, and one more for every batch it has taken
over from a sibling (whose stamps interleave with its own; they are never fresh, so their order does not matter).

Sealing cuts the rows appended since the last seal into immutable blobs. A small last blob is written again together
with what follows it, under a new name, so that their number stays bounded; no blob ever changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from biclique.core.codec import checksum, decode_rows, encode_rows
from biclique.core.rows import Rows
from biclique.index.access import ProbeKeysOf, StoredKeysOf
from biclique.index.build import new_store
from biclique.index.protocol import ProbeKeys, Store, StoreLayout
from biclique.plan.model import Side, Stage
from biclique.query.expression import Column
from biclique.tiers.messages import TIME_NEVER
from biclique.tiers.progress import BlobRef


class BlobRows(NamedTuple):
    """A last blob with fewer rows than `least` is written again with what follows it; none has more than `most`."""

    least: int = 4_096
    most: int = 32_768  # 1 MB at 30 bytes a row


BLOB_ROWS = BlobRows()
ARCHIVES_PER_WINDOW = 10  # the paper's archive period: a tenth of the window
SEGMENT_ROWS_MIN = 4_096  # below it a look-up costs more than the rows that archiving would save


def positions_of(columns: Sequence[Column]) -> dict[Column, int]:
    return {column: i for i, column in enumerate(columns)}


def layout_of(side: Side, sums: tuple[int, ...], segment_rows_min: int) -> StoreLayout:
    return StoreLayout(
        side.access.kind,
        tuple(column.type for column in side.columns),
        len(side.relations),
        None if side.window_us is None else max(1, side.window_us // ARCHIVES_PER_WINDOW),
        sums,
        segment_rows_min,
    )


@dataclass(slots=True)
class _Sealed:
    ref: BlobRef
    first: int | None  # reference of its first row; None: not the first blob of its seal, and never written again
    newest_needed: int  # greatest `oldest` time of its rows


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
        self.key_failures = 0  # of stored rows: they match nothing
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

    def append(self, rows: Rows) -> int:
        """The unit's own rows, in stamp order. Returns the reference of the first."""
        return self._append(self.own, rows)

    def _append(self, store: Store, rows: Rows) -> int:
        keys, failed = self._stored_keys(rows.columns, len(rows))
        self.key_failures += failed
        return store.append(rows, keys)

    def probe_keys(self, rows: Rows) -> ProbeKeys:
        """What rows of the other side ask of this one."""
        keys, _ = self._probe_keys(rows.columns, len(rows))  # its failures are counted where the row is stored
        return keys

    def adopt(self, rows: Rows) -> None:
        if len(rows) == 0:
            return
        store = new_store(self._layout)
        part = _Part(store, True, sealed_to=store.end)
        self._append(store, rows)
        self._parts.append(part)

    def expire(self, watermark: int) -> int:
        """Drop what no accepted tuple can match any more. Returns the rows dropped."""
        if self.side.window_us is None or watermark <= TIME_NEVER:
            return 0
        bound = watermark - self.side.window_us
        dropped = 0
        for part in self._parts:
            dropped += part.store.expire(bound)
            part.sealed = [sealed for sealed in part.sealed if sealed.newest_needed >= bound]
        self._parts = [self._parts[0], *(part for part in self._parts[1:] if part.store.rows)]
        return dropped

    def seal(self, names: Iterator[str]) -> Iterator[tuple[BlobRef, bytes]]:
        """Everything stored is in a blob afterwards. Yields the new blobs."""
        for part in self._parts:
            if part.sealed_to == part.store.end:
                continue
            last = part.sealed[-1] if part.sealed else None
            if last is not None and last.first is not None and last.ref.rows < self._blob_rows.least:
                part.sealed_to = last.first
                part.sealed.pop()
            rows = part.store.rows_from(part.sealed_to)
            first = part.sealed_to
            most = self._blob_rows.most
            for at in range(0, len(rows), most):
                chunk = rows.slice(at, min(len(rows), at + most))
                data = encode_rows(chunk, self._types)
                ref = BlobRef(next(names), self.number, len(chunk), checksum(data), part.adopted)
                part.sealed.append(_Sealed(ref, None if at else first, int(chunk.oldest.max())))
                yield ref, data
            part.sealed_to = part.store.end

    def blobs(self) -> Iterator[BlobRef]:
        return (sealed.ref for part in self._parts for sealed in part.sealed)

    def load(self, ref: BlobRef, data: bytes) -> None:
        """A blob of the manifest that is being restored, in the manifest's order. Raises DamagedBlob."""
        rows = decode_rows(data, self._types, self._layout.id_parts)
        if not len(rows):
            return
        if ref.adopted:
            self.adopt(rows)
            part = self._parts[-1]
            first = part.sealed_to
        else:
            part = self._parts[0]
            first = self.append(rows)
        part.sealed.append(_Sealed(ref, first, int(rows.oldest.max())))
        part.sealed_to = part.store.end


def rows_of_blobs(stage: Stage, blobs: Mapping[BlobRef, bytes]) -> dict[int, list[Rows]]:
    """What the blobs of a sibling hold, by side: the state that comes with a move."""
    found: dict[int, list[Rows]] = {}
    for ref, data in blobs.items():
        side = stage.sides[ref.side]
        rows = decode_rows(data, tuple(column.type for column in side.columns), len(side.relations))
        found.setdefault(ref.side, []).append(rows)
    return found
