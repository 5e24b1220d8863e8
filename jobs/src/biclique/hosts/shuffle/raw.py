"""The bytes of records that could be read, for those that are set aside all the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from biclique.core.rows import Indexes, Vector
from biclique.hosts.parsing.rows import Wanted
from biclique.ports.tables import file_column, json_lines


class RawRecords(Sequence[bytes]):
    """Made when one is asked for. `messages`: which value each came in. `whole`: a
    value is one record; a row of many has no bytes of its own, and its columns as JSON stand for it."""

    def __init__(
        self,
        values: pa.BinaryArray,
        messages: NDArray[np.int64],
        wanted: Wanted,
        columns: Sequence[Vector],
        whole: bool,
    ) -> None:
        self._values, self._messages, self._wanted = values, messages, wanted
        self._columns, self._whole = columns, whole

    def take(self, rows: Indexes) -> RawRecords:
        columns = [column.take(rows) for column in self._columns]
        return RawRecords(self._values, self._messages[rows], self._wanted, columns, self._whole)

    def __len__(self) -> int:
        return len(self._messages)

    @overload
    def __getitem__(self, row: int) -> bytes: ...
    @overload
    def __getitem__(self, row: slice) -> Sequence[bytes]: ...
    def __getitem__(self, row: int | slice) -> bytes | Sequence[bytes]:
        if isinstance(row, slice):
            return [self[each] for each in range(*row.indices(len(self)))]
        if self._whole:
            value: bytes = self._values[int(self._messages[row])].as_py()
            return value
        arrays = [
            file_column(column.slice(row, row + 1), field.type)
            for column, field in zip(self._columns, self._wanted.fields, strict=True)
        ]
        table = pa.Table.from_arrays(arrays, [field.name for field in self._wanted.fields])
        return json_lines(table).removesuffix(b"\n")
