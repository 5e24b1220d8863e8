"""Rows in stamp order, column by column: buffers that grow at their end, whose rows never change.

Arrays handed out stay what they are, whatever is appended (index/buffer.py). `trim` gives slack back once no more rows
will come. Validity masks exist from the first null on; `oldest` is an array of its own from the first row on whose
oldest and newest times differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from biclique.core.rows import Mask, Rows, Vector
from biclique.index.buffer import Buffer
from biclique.kernels.gather import gather_values
from biclique.kernels.text_buffers import buffers_of, strings_from
from biclique.kernels.text_rows import gather_bytes, text_offsets
from biclique.query.types import Kind, Type

TEXT_BYTES_MAX = 2**31 - 1  # of one Arrow string array


def stored_dtype(type_: Type) -> np.dtype[np.generic]:
    """query/types.py's table, for every kind but STRING."""
    match type_.kind:
        case Kind.INTEGER:
            return np.dtype(f"int{type_.bits}")
        case Kind.DOUBLE:
            return np.dtype(np.float64)
        case Kind.BOOLEAN:
            return np.dtype(np.bool_)
        case Kind.DATE:
            return np.dtype(np.int32)
        case Kind.DECIMAL | Kind.TIMESTAMP | Kind.INTERVAL:
            return np.dtype(np.int64)
    raise AssertionError(f"{type_} has no numpy form")


class Validity:
    """A mask that exists from the first null on."""

    __slots__ = ("_mask",)

    def __init__(self) -> None:
        self._mask: Buffer | None = None

    def extend(self, rows_before: int, count: int, valid: Mask | None) -> None:
        if self._mask is None:
            if valid is None or valid.all():
                return
            self._mask = Buffer(np.bool_)
            self._mask.extend(np.ones(rows_before, np.bool_))
        self._mask.extend(np.ones(count, np.bool_) if valid is None else valid)

    @property
    def mask(self) -> Mask | None:
        return None if self._mask is None else self._mask.values

    @property
    def nbytes(self) -> int:
        return 0 if self._mask is None else self._mask.nbytes

    def trim(self) -> None:
        if self._mask is not None:
            self._mask.trim()


class NumberColumn:
    __slots__ = ("_validity", "_values")

    def __init__(self, type_: Type) -> None:
        self._values = Buffer(stored_dtype(type_))
        self._validity = Validity()

    def extend(self, column: Vector) -> None:
        self._validity.extend(self._values.length, len(column), column.valid)
        self._values.extend(column.values)

    @property
    def values(self) -> NDArray[Any]:
        return self._values.values

    @property
    def valid(self) -> Mask | None:
        return self._validity.mask

    @property
    def nbytes(self) -> int:
        return self._values.nbytes + self._validity.nbytes

    def take(self, rows: NDArray[np.int64], base: int = 0) -> Vector:
        """`rows` are references, `base` that of the first row."""
        valid = self.valid
        return Vector(
            gather_values(self.values, rows, base), None if valid is None else gather_values(valid, rows, base)
        )

    def slice(self, start: int, stop: int) -> Vector:
        valid = self.valid
        return Vector(self.values[start:stop], None if valid is None else valid[start:stop])

    def trim(self) -> None:
        self._values.trim()
        self._validity.trim()


class TextColumn:
    __slots__ = ("_data", "_offsets", "_validity")

    def __init__(self) -> None:
        self._offsets = Buffer(np.int64)
        self._offsets.extend(np.zeros(1, np.int64))
        self._data = Buffer(np.uint8)
        self._validity = Validity()

    def extend(self, column: Vector) -> None:
        assert isinstance(column.values, pa.Array)
        offsets, data = buffers_of(column.values)
        self._validity.extend(self._offsets.length - 1, len(column), column.valid)
        self._offsets.extend(offsets[1:].astype(np.int64) + (self._data.length - int(offsets[0])))
        self._data.extend(data[offsets[0] : offsets[-1]])

    @property
    def nbytes(self) -> int:
        return self._offsets.nbytes + self._data.nbytes + self._validity.nbytes

    def sizes(self, start: int, stop: int) -> NDArray[np.int64]:
        """Bytes of the texts of rows start, start and the next, ... up to the one before stop."""
        offsets: NDArray[np.int64] = self._offsets.values[start + 1 : stop + 1] - self._offsets.values[start]
        return offsets

    def lengths(self, rows: NDArray[np.int64], base: int = 0) -> NDArray[np.int64]:
        offsets: NDArray[np.int64] = self._offsets.values
        found: NDArray[np.int64] = gather_values(offsets, rows, base - 1) - gather_values(offsets, rows, base)
        return found

    def take(self, rows: NDArray[np.int64], base: int = 0) -> Vector:
        rows = rows - base
        offsets: NDArray[np.int64] = self._offsets.values
        out_offsets = np.empty(len(rows) + 1, np.int64)
        total = int(text_offsets(offsets, rows, out_offsets))
        assert total <= TEXT_BYTES_MAX, f"{total} bytes of text in one take: ask for fewer rows"
        data = np.empty(total, np.uint8)
        gather_bytes(offsets, self._data.values, rows, out_offsets, data)
        valid = self._validity.mask
        return Vector(strings_from(out_offsets.astype(np.int32), data), None if valid is None else valid[rows])

    def slice(self, start: int, stop: int) -> Vector:
        offsets = self._offsets.values[start : stop + 1].astype(np.int64)
        first, last = int(offsets[0]), int(offsets[-1])
        assert last - first <= TEXT_BYTES_MAX, f"{last - first} bytes of text in one slice: ask for fewer rows"
        data: NDArray[np.uint8] = self._data.values[first:last]
        valid = self._validity.mask
        strings = strings_from((offsets - first).astype(np.int32), data)
        return Vector(strings, None if valid is None else valid[start:stop])

    def trim(self) -> None:
        self._offsets.trim()
        self._data.trim()
        self._validity.trim()


class StoredRows:
    """The rows of one segment."""

    __slots__ = ("_fixed_bytes", "_ids", "_newest", "_oldest", "_stamps", "columns")

    def __init__(self, column_types: Sequence[Type], id_parts: int) -> None:
        self._stamps = Buffer(np.uint64)
        self._ids = tuple(Buffer(np.int64) for _ in range(id_parts))
        self._newest = Buffer(np.int64)
        self._oldest: Buffer | None = None
        self.columns = tuple(TextColumn() if t.kind is Kind.STRING else NumberColumn(t) for t in column_types)
        widths = (4 if t.kind is Kind.STRING else stored_dtype(t).itemsize for t in column_types)
        self._fixed_bytes = 8 * (3 + id_parts) + sum(widths) + len(self.columns)  # with two times and every mask

    def __len__(self) -> int:
        return self._stamps.length

    @property
    def stamps(self) -> NDArray[np.uint64]:
        return self._stamps.values

    @property
    def newest(self) -> NDArray[np.int64]:
        return self._newest.values

    @property
    def oldest(self) -> NDArray[np.int64]:
        """The same array as `newest` while every row's two times are equal."""
        return self.newest if self._oldest is None else self._oldest.values

    @property
    def nbytes(self) -> int:
        buffers = (self._stamps, *self._ids, self._newest, *(() if self._oldest is None else (self._oldest,)))
        total: int = sum(b.nbytes for b in buffers) + sum(c.nbytes for c in self.columns)
        return total

    def fitting(self, start: int, rows_max: int, bytes_max: int) -> int:
        """Where the rows from `start` on end that are within both bounds."""
        stop = min(len(self), start + rows_max)
        sizes = np.arange(1, stop - start + 1) * self._fixed_bytes
        for column in self.columns:
            if isinstance(column, TextColumn):
                sizes += column.sizes(start, stop)
        return start + int(np.searchsorted(sizes, bytes_max, side="right"))

    def extend(self, rows: Rows) -> None:
        if self._oldest is None and rows.oldest is not rows.newest and not np.array_equal(rows.oldest, rows.newest):
            self._oldest = Buffer(np.int64)
            self._oldest.extend(self._newest.values)
        self._stamps.extend(rows.stamps)
        for mine, theirs in zip(self._ids, rows.ids, strict=True):
            mine.extend(theirs)
        self._newest.extend(rows.newest)
        if self._oldest is not None:
            self._oldest.extend(rows.oldest)
        for column, vector in zip(self.columns, rows.columns, strict=True):
            column.extend(vector)

    def take(self, rows: NDArray[np.int64], base: int = 0) -> Rows:
        """`rows` are references, `base` that of the first row."""
        newest = gather_values(self.newest, rows, base)
        return Rows(
            gather_values(self.stamps, rows, base),
            tuple(gather_values(ids.values, rows, base) for ids in self._ids),
            newest,
            newest if self._oldest is None else gather_values(self.oldest, rows, base),
            tuple(column.take(rows, base) for column in self.columns),
        )

    def names(self, rows: NDArray[np.int64], base: int = 0) -> Rows:
        """As `take`, without the columns."""
        newest = gather_values(self.newest, rows, base)
        ids = tuple(gather_values(ids.values, rows, base) for ids in self._ids)
        return Rows(gather_values(self.stamps, rows, base), ids, newest, newest, ())

    def text_bytes(self, rows: NDArray[np.int64], base: int = 0) -> NDArray[np.int64]:
        sizes = np.zeros(len(rows), np.int64)
        for column in self.columns:
            if isinstance(column, TextColumn):
                sizes += column.lengths(rows, base)
        return sizes

    def slice(self, start: int, stop: int) -> Rows:
        newest = self.newest[start:stop]
        return Rows(
            self.stamps[start:stop],
            tuple(ids.values[start:stop] for ids in self._ids),
            newest,
            newest if self._oldest is None else self.oldest[start:stop],
            tuple(column.slice(start, stop) for column in self.columns),
        )

    def trim(self) -> None:
        for buffer in (self._stamps, *self._ids, self._newest):
            buffer.trim()
        if self._oldest is not None:
            self._oldest.trim()
        for column in self.columns:
            column.trim()
