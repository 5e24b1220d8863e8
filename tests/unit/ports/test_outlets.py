"""What leaves the system, as others read it: rows of JSON keyed by their ids, Arrow streams that bring them, late and
dead records with where they came from."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest

from biclique.core.rows import Vector
from biclique.ports.outlets import STRETCH_BYTES, STRETCH_ROWS, Outlets
from biclique.query.compile import compile_manifest
from biclique.tiers.messages import DeadRecord, LateTuples, Results, SetAside
from tests.unit.tiers.on_topics import on_topics

SCHEMA = "k INT, s STRING, d DECIMAL(6, 2), at TIMESTAMP, unused BIGINT"
ROWS = "SELECT r.s AS s, r.d AS d, r.at AS at FROM r JOIN s ON r.k = s.k WITHIN 1 MINUTE"


def outlets(shape: str = "json", sql: str = ROWS, delivery: str = "exactlyOnce") -> Outlets:
    more, out = f"delivery: {delivery}", f"topic: pairs, format: {shape}"
    return Outlets(compile_manifest(on_topics(sql, more, r=SCHEMA, of_r="eventTime: {column: at}", out=out)))


def results(texts: list[str], valid: list[bool] | None = None) -> Results:
    count = len(texts)
    mask = None if valid is None else np.array(valid)
    columns = (
        Vector(pa.array(texts, pa.string()), mask),
        Vector(np.full(count, -1250, np.int64)),
        Vector(np.full(count, -1, np.int64)),
    )
    ids = np.arange(count, dtype=np.uint64)
    return Results(columns, np.full(count, 1 << 63, np.uint64), ids, np.zeros(count, np.int64))


def test_a_row_is_one_object_keyed_by_its_id_and_without_a_line_end() -> None:
    texts = ['"quoted"\n', "", "ü"]
    (mail,) = outlets().results(results(texts, [True, False, True]))
    rows = [json.loads(value) for value in mail.values]
    assert [row["s"] for row in rows] == ['"quoted"\n', None, "ü"]
    assert rows[0]["d"] == -12.5
    assert rows[0]["at"] == "1969-12-31T23:59:59.999999Z"
    assert [list(row) for row in rows] == [["s", "d", "at", "_result_id"]] * 3
    assert mail.keys == [f"8{'0' * 15}{n:016x}".encode() for n in range(3)]
    assert [row["_result_id"].encode() for row in rows] == mail.keys
    assert not mail.headers
    assert not any(value.endswith(b"\n") for value in mail.values)


def test_rows_are_encoded_by_stretches_and_keep_their_order() -> None:
    texts = [str(n) for n in range(2 * STRETCH_ROWS + 1)]
    mails = list(outlets().results(results(texts)))
    assert [len(mail.values) for mail in mails] == [STRETCH_ROWS, STRETCH_ROWS, 1]
    found = [json.loads(value) for mail in mails for value in mail.values]
    assert [row["s"] for row in found] == texts
    assert [row["_result_id"].encode() for row in found] == [key for mail in mails for key in mail.keys]


def test_an_arrow_message_brings_the_ids_as_its_last_column() -> None:
    (mail,) = outlets("arrow").results(results(["a", "b"]))
    (value,) = mail.values
    table = pa.ipc.open_stream(value).read_all()
    assert list(mail.keys) == [None]
    assert table.schema.types == [pa.string(), pa.decimal128(6, 2), pa.timestamp("us", "UTC"), pa.binary(16)]
    assert table.column_names == ["s", "d", "at", "_result_id"]
    assert table.column("_result_id").to_pylist() == [
        (1 << 63).to_bytes(8, "big") + n.to_bytes(8, "big") for n in range(2)
    ]


@pytest.mark.parametrize(
    "texts", [[""] * (2 * STRETCH_ROWS + 1), ["x" * 100_000] * 20, ["x" * (2 * STRETCH_BYTES), "", "y"]]
)
def test_arrow_messages_are_cut_by_rows_and_by_bytes(texts: list[str]) -> None:
    mails = outlets("arrow").results(results(texts))
    tables = [pa.ipc.open_stream(value).read_all() for mail in mails for value in mail.values]
    assert len(tables) > 1
    assert all(len(table) == 1 or table.nbytes < 1 << 20 for table in tables)
    assert max(map(len, tables)) <= STRETCH_ROWS
    assert [text for table in tables for text in table.column("s").to_pylist()] == texts


def test_no_rows_are_no_messages() -> None:
    for shape in ("json", "arrow"):
        assert list(outlets(shape).results(results([]))) == []


def test_a_late_tuple_says_where_it_came_from_and_what_it_missed() -> None:
    columns = (
        Vector(np.array([1, 2], np.int32)),
        Vector(pa.array(["a", "b"], pa.string())),
        Vector(np.array([100, 200])),
        Vector(np.array([5, 6])),
    )
    late = LateTuples(0, 3, np.array([70, 72]), np.array([5, 6]), columns, 1000)
    first, second = outlets().late(late)
    assert json.loads(second.value) == {
        "k": 2,
        "s": "b",
        "d": 2.0,
        "at": "1970-01-01T00:00:00.000006Z",
        "_event_time": "1970-01-01T00:00:00.000006Z",
    }
    assert dict(first.headers) == {"source": b"r", "partition": b"3", "offset": b"70", "watermark_us": b"1000"}
    assert first.key is None


def test_a_dead_record_is_the_bytes_that_came() -> None:
    record = DeadRecord(7, b"\xff{", "r, partition 3, offset 7", "no JSON")
    (parcel,) = outlets().dead(SetAside(0, 3, (record,)))
    assert parcel.value == b"\xff{"
    assert dict(parcel.headers) == {
        "source": b"r",
        "partition": b"3",
        "offset": b"7",
        "place": b"r, partition 3, offset 7",
        "reason": b"no JSON",
    }


GROUPED = "SELECT r.k, COUNT(*) AS n FROM r JOIN s ON r.k = s.k WITHIN 1 MINUTE GROUP BY r.k"


@pytest.mark.parametrize(
    ("sql", "may_repeat"),
    [
        (ROWS, True),
        (ROWS.replace("SELECT", "SELECT DISTINCT"), True),
        (f"{GROUPED}, TUMBLE(1 MINUTE)", True),
        (GROUPED, False),  # who was thought dead must not write an older row over a newer one
    ],
)
def test_only_rows_that_are_written_once_may_repeat(sql: str, may_repeat: bool) -> None:
    assert outlets(sql=sql, delivery="atLeastOnce").may_repeat is may_repeat
    assert not outlets(sql=sql).may_repeat
