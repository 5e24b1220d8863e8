"""Tables as JSON and CSV: what Python's own libraries read back is what was in the columns."""

from __future__ import annotations

import csv
import io
import json
from datetime import UTC, date, datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
from hypothesis import given
from hypothesis import strategies as st

from biclique.core.rows import Vector
from biclique.ports.tables import file_column, json_lines, result_table, with_text_ids
from biclique.query.expression import Literal
from biclique.query.model import Item
from biclique.query.types import DATE, DOUBLE, INT, STRING, TIMESTAMP, decimal
from biclique.tiers.messages import Results

ITEMS = tuple(
    Item(name, Literal(None, kind), kind)
    for name, kind in [
        ("i", INT),
        ("d", DOUBLE),
        ('m"', decimal(18, 2)),
        ("s", STRING),
        ("day", DATE),
        ("at", TIMESTAMP),
    ]
)
VALID = np.array([True, True, False])


def results() -> Results:
    return Results(
        (
            Vector(np.array([1, -5, 0], np.int32), VALID),
            Vector(np.array([-0.0, float("nan"), float("-inf")])),
            Vector(np.array([-(10**18) + 1, 7, 0]), VALID),
            Vector(pa.array(['a"b\\\n\x01é', "", ""]), VALID),
            Vector(np.array([-1, 0, 0], np.int32), VALID),
            Vector(np.array([-1, 1_700_000_000_123_456, 0]), VALID),
        ),
        np.array([1, 2, (1 << 64) - 1], np.uint64),
        np.array([10, 20, 30], np.uint64),
        np.zeros(3, np.int64),
    )


def test_json_lines_have_every_column_and_the_id_last() -> None:
    lines = json_lines(result_table(ITEMS, results())).decode().splitlines()
    rows = [json.loads(line, parse_float=str, parse_int=str) for line in lines]
    assert list(rows[0]) == ["i", "d", 'm"', "s", "day", "at", "_result_id"]
    assert [list(row.values()) for row in rows] == [
        [
            "1",
            "-0",
            "-9999999999999999.99",
            'a"b\\\n\x01é',
            "1969-12-31",
            "1969-12-31T23:59:59.999999Z",
            f"{1:016x}{10:016x}",
        ],
        ["-5", "NaN", "0.07", "", "1970-01-01", "2023-11-14T22:13:20.123456Z", f"{2:016x}{20:016x}"],
        [None, "-Infinity", None, None, None, None, "f" * 16 + f"{30:016x}"],
    ]


def test_csv_tells_an_empty_text_from_null() -> None:
    sink = io.BytesIO()
    pa_csv.write_csv(with_text_ids(result_table(ITEMS, results())), sink)
    text = sink.getvalue().decode()
    assert ',"",1970-01-01,' in text
    assert text.rstrip().splitlines()[-1].startswith(",-inf,,,,,")
    rows = list(csv.reader(io.StringIO(text)))
    assert rows[1][3] == 'a"b\\\n\x01é'
    assert rows[1][-1] == f"{1:016x}{10:016x}"


def test_parquet_types_are_those_of_sql() -> None:
    table = result_table(ITEMS, results())
    assert [str(field.type) for field in table.schema] == [
        *("int32", "double", "decimal128(18, 2)", "string", "date32[day]", "timestamp[us, tz=UTC]"),
        "fixed_size_binary[16]",
    ]
    assert [column[0].as_py() for column in table.columns[2:]] == [
        Decimal("-9999999999999999.99"),
        'a"b\\\n\x01é',
        date(1969, 12, 31),
        datetime(1969, 12, 31, 23, 59, 59, 999999, UTC),
        (1).to_bytes(8, "big") + (10).to_bytes(8, "big"),
    ]


@given(st.lists(st.one_of(st.none(), st.text(alphabet='ab"\\\n\t\x00\x1f\u2028é😀', max_size=4)), max_size=12))
def test_any_text_survives_json(texts: list[str | None]) -> None:
    valid = np.array([text is not None for text in texts], np.bool_)
    column = file_column(Vector(pa.array([text or "" for text in texts], pa.string()), valid), STRING)
    table = pa.table({"s": column, "n": pa.array(range(len(texts)))})
    lines = json_lines(table).decode().split("\n")
    assert [json.loads(line) for line in lines[:-1]] == [{"s": text, "n": n} for n, text in enumerate(texts)]
