"""Parquet's blocks against a plain walk over the rows, whatever its groups and encodings, wherever reading begins."""

from __future__ import annotations

import io
import itertools

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given
from hypothesis import strategies as st

from biclique.hosts.parsing.parquet_rows import parquet_blocks
from biclique.hosts.parsing.rows import Wanted
from biclique.hosts.parsing.splitting import BlockMax
from biclique.query.model import Field
from biclique.query.types import BIGINT, STRING


@given(
    st.lists(st.tuples(st.sampled_from([None, "", "é", "abc", "x" * 30]), st.integers(0, 1))),
    st.integers(1, 4),
    st.sampled_from([1, 12, 20, 50]),
    st.integers(1, 9),
    st.booleans(),
)
def test_blocks_are_cut_by_bytes_too_wherever_reading_begins(
    rows: list[tuple[str | None, int]], most_rows: int, most_bytes: int, group: int, encoded: bool
) -> None:
    texts = pa.array([text for text, _ in rows], pa.string())
    numbers = pa.array([number for _, number in rows], pa.int64())
    sink = io.BytesIO()
    pq.write_table(
        pa.table({"c": texts.dictionary_encode() if encoded else texts, "n": numbers, "other": texts}),
        sink,
        row_group_size=group,
    )
    wanted = Wanted((Field("c", STRING), Field("n", BIGINT)), None)
    most = BlockMax(most_rows, most_bytes)
    want: list[list[tuple[str | None, int]]] = []
    size = 0
    for row in rows:
        more = 8 + len((row[0] or "").encode())
        if not want or len(want[-1]) == most_rows or size + more > most_bytes:
            want.append([])
            size = 0
        want[-1].append(row)
        size += more
    begins = [0, *(sum(map(len, want[:n])) for n in range(1, len(want) + 1))]
    for n, begin in enumerate(begins):
        blocks = list(parquet_blocks(sink, wanted, begin, most))
        got = [list(zip(*(column.to_pylist() for column in block.columns), strict=True)) for block in blocks]
        assert got == want[n:]
        assert [(block.first_row, block.resume) for block in blocks] == list(itertools.pairwise(begins[n:]))
