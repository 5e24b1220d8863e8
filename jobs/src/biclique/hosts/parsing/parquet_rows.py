"""Parquet → blocks of typed rows. The file's own types must hold what the schema says; values are then judged one by
one (native_columns.py). Anything else is refused for the whole file in one sentence.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from biclique.hosts.parsing.native_columns import converted, holds, one_array, row_as_json
from biclique.hosts.parsing.rows import BadRow, ParsedBlock, Verdict, Wanted, absent_values, first_faults, without
from biclique.hosts.parsing.splitting import BLOCK_MAX, BlockMax, UnreadableFile
from biclique.query.model import Field


def parquet_blocks(
    stream: BinaryIO, wanted: Wanted, first_row: int, most: BlockMax = BLOCK_MAX
) -> Iterator[ParsedBlock]:
    """From a block's begin on: `first_row` is its first row."""
    try:
        file = pq.ParquetFile(stream, pre_buffer=False)
    except pa.ArrowInvalid as error:
        raise UnreadableFile(f"no parquet file: {str(error).splitlines()[0]}") from None
    schema = file.schema_arrow
    for field in wanted.fields:
        _check(field, schema)
    # Row groups begin anywhere, and a batch of Arrow's may end with one: blocks are cut from our own count.
    row, groups = _group_of(file, first_row)
    names = [field.name for field in wanted.fields]
    held: list[pa.RecordBatch] = []
    count = size = 0
    try:
        at_once = _rows_at_once(file, names, groups, most)
        for batch in file.iter_batches(at_once, row_groups=groups, columns=names, use_threads=False):
            if row < first_row:
                skipped = min(first_row - row, len(batch))
                batch, row = batch.slice(skipped), row + skipped
            ends = np.cumsum(_row_bytes(batch))
            start = 0
            while start < len(batch):
                before = int(ends[start - 1]) if start else 0
                fitting = int(ends.searchsorted(most.bytes - size + before, side="right")) - start
                taken = min(most.rows - count, len(batch) - start, max(fitting, 0 if count else 1))
                if taken:
                    held.append(batch.slice(start, taken))
                    start, count, size = start + taken, count + taken, size + int(ends[start + taken - 1]) - before
                if start < len(batch) or count == most.rows:  # the block takes no more
                    yield _block(held, wanted, row, count)
                    held, row, count, size = [], row + count, 0, 0
    except (pa.ArrowInvalid, OSError) as error:
        raise UnreadableFile(f"damaged parquet file: {str(error).splitlines()[0]}") from None
    if count:
        yield _block(held, wanted, row, count)


def _rows_at_once(file: pq.ParquetFile, names: list[str], groups: list[int], most: BlockMax) -> int:
    """What Arrow decodes at a time: about a block, going by the row group with the largest rows."""
    rows = most.rows
    for number in groups:
        group = file.metadata.row_group(number)
        columns = (group.column(position) for position in range(group.num_columns))
        size = sum(column.total_uncompressed_size for column in columns if column.path_in_schema in names)
        rows = min(rows, most.bytes * group.num_rows // max(size, 1))
    return max(rows, 1)


def _row_bytes(batch: pa.RecordBatch) -> NDArray[np.int64]:
    """Of the values of each row, however they are encoded and wherever batches begin: a cut must not depend on that."""
    sizes = np.zeros(len(batch), np.int64)
    for column in batch.columns:
        kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
        if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
            sizes += _text_bytes(column)
        else:
            sizes += (kind.bit_width + 7) // 8
    return sizes


def _text_bytes(column: pa.Array) -> NDArray[np.int64]:
    if pa.types.is_dictionary(column.type):
        lengths = np.append(_text_bytes(column.dictionary), 0)
        found = lengths[column.indices.fill_null(0).to_numpy()]
        return np.where(column.is_valid().to_numpy(zero_copy_only=False), found, 0)
    plain = column.cast(pa.large_string()) if pa.types.is_string_view(column.type) else column
    return pc.fill_null(pc.binary_length(plain), 0).to_numpy().astype(np.int64, copy=False)


def _group_of(file: pq.ParquetFile, first_row: int) -> tuple[int, list[int]]:
    """The row with which the group of `first_row` begins, and that group and all behind it."""
    row = 0
    for group in range(file.num_row_groups):
        rows = file.metadata.row_group(group).num_rows
        if row + rows > first_row:
            return row, list(range(group, file.num_row_groups))
        row += rows
    return row, []


def _check(field: Field, schema: pa.Schema) -> None:
    places = schema.get_all_field_indices(field.name)
    if len(places) != 1:
        shown = ", ".join(schema.names[:20])
        raise UnreadableFile(
            f"it has {'no' if not places else 'more than one'} column {field.name} (it has {shown}); "
            "correct the schema: upper and lower case count"
        )
    found = schema.field(places[0]).type
    if not holds(found, field.type):
        raise UnreadableFile(f"column {field.name} is {found} in the file and {field.type} in the schema")


def _block(batches: list[pa.RecordBatch], wanted: Wanted, first_row: int, count: int) -> ParsedBlock:
    native = [one_array([batch.column(position) for batch in batches]) for position in range(len(wanted.fields))]
    typed = [converted(array, field.type) for array, field in zip(native, wanted.fields, strict=True)]
    columns = [array for array, _ in typed]
    verdicts: dict[int, Verdict] = absent_values(wanted, columns) | first_faults(wanted, (f for _, f in typed))
    good, columns_of_good = without(columns, count, verdicts)
    bad = tuple(
        BadRow(first_row + row, verdicts[row].column, verdicts[row].reason, row_as_json(wanted, native, row))
        for row in sorted(verdicts)
    )
    return ParsedBlock(first_row, count, good + first_row, columns_of_good, bad, first_row + count)
