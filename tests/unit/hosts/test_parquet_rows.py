"""Parquet into the schema's types: exact conversions, values at fault, files that cannot be read at all."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from biclique.hosts.parsing.parquet_rows import _rows_at_once, parquet_blocks
from biclique.hosts.parsing.rows import ParsedBlock, Wanted
from biclique.hosts.parsing.splitting import BlockMax, UnreadableFile
from biclique.query.model import Field
from biclique.query.types import BIGINT, DATE, DOUBLE, INT, SMALLINT, STRING, TIMESTAMP, TINYINT, Type, decimal


def read(array: pa.Array, kind: Type, nullable: bool = True, rows: int = 100, group: int = 1000) -> list[ParsedBlock]:
    sink = io.BytesIO()
    pq.write_table(pa.table({"other": array, "c": array}), sink, row_group_size=group)
    return list(parquet_blocks(sink, Wanted((Field("c", kind, nullable),), None), 0, BlockMax(rows)))


NANOS_OF_YEAR_10000 = 253402300800 * 10**6
DICTIONARY = pa.array(["x", "y", "x", None]).dictionary_encode()


@pytest.mark.parametrize(
    ("array", "kind", "values", "bad"),
    [
        (pa.array([1, None, 127, -128], pa.int64()), TINYINT, [1, None, 127, -128], {}),
        (pa.array([1, 128, -129, None], pa.int64()), TINYINT, [1, None], {1: "128", 2: "-129"}),
        (pa.array([1, 2**63], pa.uint64()), BIGINT, [1], {1: "9223372036854775808"}),
        (pa.array([255, 1], pa.uint8()), SMALLINT, [255, 1], {}),
        (pa.array([0.5, None], pa.float32()), DOUBLE, [0.5, None], {}),
        (pa.array([2**31 - 1], pa.int32()), DOUBLE, [2147483647.0], {}),
        (
            pa.array([Decimal("1.50"), None, Decimal("1.25")], pa.decimal128(5, 2)),
            decimal(4, 1),
            [15, None],
            {2: "1.25"},
        ),
        (pa.array([Decimal("-999"), Decimal(1000)], pa.decimal256(40, 0)), decimal(4, 1), [-9990], {1: "1000"}),
        (DICTIONARY, STRING, ["x", "y", "x", None], {}),
        (pa.array(["x", None], pa.large_string()), STRING, ["x", None], {}),
        (pa.array([-86_400_000, None, 86_400_000], pa.date64()), DATE, [-1, None, 1], {}),
        (pa.array([0, 3_000_000], pa.int32()).view(pa.date32()), DATE, [0], {1: "3000000"}),
        (pa.array([-1, None, 1999], pa.timestamp("ns")), TIMESTAMP, [-1, None, 1], {}),
        (pa.array([-1, None], pa.timestamp("ms", "Europe/Paris")), TIMESTAMP, [-1000, None], {}),
        (pa.array([1, NANOS_OF_YEAR_10000], pa.timestamp("us")), TIMESTAMP, [1], {1: "253402300800000000"}),
        (pa.array([-5, 2**52, None], pa.timestamp("s")), TIMESTAMP, [-5_000_000, None], {1: ""}),
    ],
)
def test_values_are_exact_or_at_fault(array: pa.Array, kind: Type, values: list[Any], bad: dict[int, str]) -> None:
    (block,) = read(array, kind)
    assert block.columns[0].to_pylist() == values
    assert {row.row: row.column for row in block.bad} == dict.fromkeys(bad, "c")
    for row in block.bad:
        assert bad[row.row] in row.reason
        assert list(json.loads(row.raw)) == ["c"]
    assert block.rows.tolist() == [row for row in range(len(array)) if row not in bad]


def test_null_where_the_schema_forbids_it() -> None:
    (block,) = read(pa.array([1, None, 3]), BIGINT, nullable=False)
    assert block.columns[0].to_pylist() == [1, 3]
    assert [(bad.row, bad.reason, bad.raw) for bad in block.bad] == [
        (1, "null, but the schema says NOT NULL", b'{"c": null}')
    ]


@pytest.mark.parametrize("group", [1, 3, 7, 100])
def test_blocks_are_cut_from_the_files_start_whatever_its_row_groups(group: int) -> None:
    blocks = read(pa.array(range(23)), BIGINT, rows=5, group=group)
    assert [(block.first_row, block.count) for block in blocks] == [(0, 5), (5, 5), (10, 5), (15, 5), (20, 3)]
    assert [value for block in blocks for value in block.columns[0].to_pylist()] == list(range(23))
    sink = io.BytesIO()
    pq.write_table(pa.table({"c": pa.array(range(23))}), sink, row_group_size=group)
    wanted = Wanted((Field("c", BIGINT),), None)
    for block in blocks:
        rest = list(parquet_blocks(sink, wanted, block.resume, BlockMax(5)))
        assert [(b.first_row, b.columns[0].to_pylist()) for b in rest] == [
            (b.first_row, b.columns[0].to_pylist()) for b in blocks if b.first_row >= block.resume
        ]


def test_arrow_decodes_about_a_block_at_a_time() -> None:
    sink = io.BytesIO()
    texts = [str(n) * 1000 for n in range(100, 400)]
    pq.write_table(pa.table({"c": texts, "n": range(300)}), sink, use_dictionary=False)
    file, most = pq.ParquetFile(sink), BlockMax(bytes=20_000)
    assert 5 <= _rows_at_once(file, ["c", "n"], [0], most) <= 6
    assert (
        _rows_at_once(file, ["n"], [0], most)
        == 20_000 * 300 // file.metadata.row_group(0).column(1).total_uncompressed_size
    )
    assert _rows_at_once(file, ["c"], [0], BlockMax(bytes=10)) == 1


@pytest.mark.parametrize(
    ("made", "sentence"),
    [
        (lambda: read(pa.array(["1"]), INT), "column c is string in the file and INT in the schema"),
        (lambda: read(pa.array([1]), DOUBLE), "column c is int64 in the file and DOUBLE in the schema"),
        (lambda: read(pa.array([1]), TIMESTAMP), "column c is int64 in the file and TIMESTAMP in the schema"),
    ],
)
def test_another_type_is_refused_for_the_whole_file(made: Callable[[], object], sentence: str) -> None:
    with pytest.raises(UnreadableFile, match=sentence):
        made()


def test_a_damaged_file_is_said_to_be_one() -> None:
    sink = io.BytesIO()
    pq.write_table(pa.table({"c": pa.array(range(10_000))}), sink)
    data = bytearray(sink.getvalue())
    data[100:4000] = bytes(3900)
    wanted = Wanted((Field("c", BIGINT),), None)
    with pytest.raises(UnreadableFile, match="damaged parquet file"):
        list(parquet_blocks(io.BytesIO(bytes(data)), wanted, 0))
