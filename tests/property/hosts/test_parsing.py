"""What the fast parsers accept is what one value, one byte, one line at a time says; what they refuse, too."""

from __future__ import annotations

import io
import json
import math
import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from biclique.core.codec import storage_type
from biclique.hosts.parsing import splitting
from biclique.hosts.parsing.columns import typed_column
from biclique.hosts.parsing.csv_rows import csv_blocks
from biclique.hosts.parsing.csv_split import split_csv
from biclique.hosts.parsing.json_rows import json_blocks
from biclique.hosts.parsing.rows import ParsedBlock, Wanted
from biclique.hosts.parsing.splitting import BlockMax, split_lines, text_blocks
from biclique.hosts.parsing.values import Refused, Value, value_of
from biclique.query.model import Field
from biclique.query.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TINYINT,
    Kind,
    Type,
    decimal,
)
from tests.property.hosts.csv_twin import records_of

TYPES = (TINYINT, SMALLINT, INT, BIGINT, DOUBLE, decimal(5, 2), decimal(18, 0), BOOLEAN, STRING, DATE, TIMESTAMP)

# Small alphabets of pieces, so that almost-values are as common as values.
NUMBERS = st.lists(
    st.sampled_from(["0", "1", "9", "127", "128", "99999", "-", "+", ".", "e", "E", "e2", "e-3", "x", "0x1", " ", "n"]),
    min_size=0,
    max_size=5,
).map("".join)
WORDS = st.sampled_from(
    [
        "nan",
        "NaN",
        "-nan",
        "+NAN",
        "inf",
        "-Infinity",
        "infinit",
        "nan(1)",
        "1e400",
        "-1e400",
        "1e-400",
        "true",
        "TRUE",
        "tRue",
        "t",
        "yes",
        "false",
        "1",
        "0",
        "",
        " ",
        "9223372036854775807",
        "9223372036854775808",
        "İ",
        "٣",
        "999999999999999999",
        "1000000000000000000",
        "-0",
        "0.000000",
        "123.4500",
        "1e99999999999999999999",
    ]
)
TIMES = st.builds(
    "".join,
    st.tuples(
        st.sampled_from(
            ["2020-02-29", "1969-12-31", "0001-01-01", "9999-12-31", "2021-02-29", "0000-01-01", "2020-1-1"]
        ),
        st.sampled_from(["", "T", " ", "t"]),
        st.sampled_from(["", "00", "23:59", "12:30:15", "23:59:59.999999", "24:00", "23:59:60", "1:00", "00:00:00."]),
        st.sampled_from(["", ".5", ".1234567", ".123456789", ".1234567890", ",5"]),
        st.sampled_from(["", "Z", "z", "+00", "+01:30", "-2359", "+24:00", "+12:60", "-23:59", " Z"]),
    ),
)
TEXTS = st.one_of(NUMBERS, WORDS, TIMES)


def refused_or(text: str, kind: Type) -> Value | str:
    try:
        return value_of(text, kind)
    except Refused as refused:
        return f"refused: {refused}"


def same(left: Any, right: Any) -> bool:
    if isinstance(left, float) and isinstance(right, float):
        return (math.isnan(left) and math.isnan(right)) or (
            left == right and math.copysign(1, left) == math.copysign(1, right)
        )
    return type(left) is type(right) and left == right


@given(st.sampled_from(TYPES), st.lists(st.one_of(st.none(), TEXTS), max_size=40), st.integers(1, 4))
def test_a_column_is_its_values_one_by_one(kind: Type, texts: list[str | None], repeat: int) -> None:
    texts = texts * repeat
    array, faults = typed_column(pa.array(texts, pa.string()), kind)
    assert array.type == storage_type(kind)
    for row, (text, got) in enumerate(zip(texts, array.to_pylist(), strict=True)):
        want = None if text is None else refused_or(text, kind)
        if isinstance(want, str) and want.startswith("refused: "):
            assert got is None
            assert faults[row] == want.removeprefix("refused: ")
        else:
            assert row not in faults
            assert same(got, want)


@given(st.sampled_from((TINYINT, INT, BIGINT, DOUBLE, decimal(5, 2), decimal(18, 0))), st.one_of(NUMBERS, WORDS))
def test_a_number_is_what_decimal_arithmetic_says(kind: Type, text: str) -> None:
    got = refused_or(text, kind)
    try:
        number = Decimal(text) if text.isascii() and text == text.strip() and "_" not in text else None
    except InvalidOperation:
        number = None
    if number is None or (number.is_nan() and text.lower().lstrip("+-") != "nan"):
        assert isinstance(got, str)
        return
    if kind.kind is Kind.DOUBLE:
        overflow = math.isinf(float(number)) and not number.is_infinite()
        assert isinstance(got, str) if overflow else same(got, float(text))
    elif not number.is_finite() or (kind.kind is Kind.INTEGER and not text.lstrip("+-").isdigit()):
        assert isinstance(got, str)
    elif kind.kind is Kind.INTEGER:
        fits = -(1 << kind.bits - 1) <= int(number) < 1 << kind.bits - 1
        assert got == int(number) if fits else isinstance(got, str)
    else:
        scaled = number.scaleb(kind.scale) if abs(number.adjusted()) < 100 else Decimal("0.5")
        fits = scaled == scaled.to_integral_value() and abs(scaled) < 10**kind.precision
        assert got == int(scaled) if fits else isinstance(got, str)


@given(TIMES)
def test_an_instant_is_what_the_calendar_says(text: str) -> None:
    got = refused_or(text, TIMESTAMP)
    fits = "T" in text[:11] or " " in text[:11] or len(text) == 10
    fits = (
        fits and "," not in text and not text.endswith((" Z", "z", "00:00:00.")) and "." not in text.split(":")[-1][:2]
    )
    try:
        moment = datetime.fromisoformat(text) if fits and not text.endswith(("T", " ")) else None
    except ValueError:
        moment = None
    if moment is None:
        assert isinstance(got, str)
        return
    moment = moment.replace(tzinfo=moment.tzinfo or UTC)
    try:
        since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    except OverflowError:
        since = None
    in_range = since is not None and -62135596800 <= since.total_seconds() < 253402300800
    if isinstance(got, str):
        # what Python reads and we do not: a fraction of a date or of a minute, more digits than nine, a zone of 60 min
        assert not in_range or "." in text or re.search(r"[+-]\d\d:?[6-9]\d$", text)
    else:
        assert since is not None
        assert in_range
        assert got == since // timedelta(microseconds=1)


@given(st.dates())
def test_a_date_counts_days(day: date) -> None:
    assert value_of(day.isoformat(), DATE) == (day - date(1970, 1, 1)).days


# --- records ---------------------------------------------------------------------------------------------------------

CSV_BYTES = st.lists(
    st.sampled_from(
        [b'"', b'""', b",", b"\n", b"\r\n", b"\r", b"a", b"17", b" ", b'"x"', b"\xc3\xa9", b"\xff", b"\xef\xbb\xbf"]
    ),
    max_size=40,
).map(b"".join)


@given(CSV_BYTES, st.integers(1, 5), st.integers(1, 4), st.sampled_from([1, 3, 8, 1000]))
def test_records_end_where_the_twin_ends_them(data: bytes, piece: int, rows: int, most_bytes: int) -> None:
    reader = Piecewise(data, piece)
    blocks = list(text_blocks(reader, split_csv, 0, 0, BlockMax(rows, most_bytes)))
    got = [(block.raw(record), record in block.malformed) for block in blocks for record in range(len(block))]
    want = [(record.raw, record.fields is None) for record in records_of(data)]
    assert got == want
    assert b"".join(block.data for block in blocks) == data
    sizes = [(block.ends - block.starts).tolist() for block in blocks]
    assert sizes == filled([size for some in sizes for size in some], rows, most_bytes)
    for block in blocks:
        rest = text_blocks(
            Piecewise(data, piece),
            split_csv,
            block.first_row + len(block),
            block.next_byte,
            BlockMax(rows, most_bytes),
        )
        assert [(b.first_row, b.data) for b in rest] == [
            (b.first_row, b.data) for b in blocks if b.first_row > block.first_row
        ]


def filled(sizes: list[int], rows: int, most_bytes: int) -> list[list[int]]:
    """The sizes of records, block by block."""
    blocks: list[list[int]] = []
    for size in sizes:
        if not blocks or len(blocks[-1]) == rows or sum(blocks[-1]) + size > most_bytes:
            blocks.append([])
        blocks[-1].append(size)
    return blocks


class Piecewise(io.BytesIO):
    """A file that comes in small pieces, whatever is asked for."""

    def __init__(self, data: bytes, piece: int) -> None:
        super().__init__(data)
        self.piece = piece

    def read(self, size: int | None = -1) -> bytes:
        return super().read(self.piece)


WANTED = Wanted((Field("i", INT), Field("s", STRING, nullable=False), Field("d", DOUBLE)), None)


@settings(max_examples=300)
@given(CSV_BYTES, st.integers(1, 5), st.sampled_from([2, 7, 1000]))
def test_csv_rows_are_the_twins(body: bytes, rows: int, most_bytes: int) -> None:
    header = b"s,other,d,i\r\n"
    most = BlockMax(rows, most_bytes)
    blocks = list(csv_blocks(io.BytesIO(header + body), WANTED, 0, 0, most))
    good, bad = gathered(blocks)
    for row, record in enumerate(records_of(body)):
        want = csv_row(record.fields)
        if want is None:
            assert row not in good
            assert bad.pop(row) == record.raw
        else:
            assert good.pop(row) == want
    assert (good, bad) == ({}, {})
    # from any block on, the rest is the same
    for block in blocks:
        rest = list(csv_blocks(io.BytesIO(header + body), WANTED, block.first_row + block.count, block.resume, most))
        assert [seen(other) for other in rest] == [seen(other) for other in blocks if other.first_row > block.first_row]


def seen(block: ParsedBlock) -> tuple[Any, ...]:
    return (
        block.first_row,
        block.count,
        block.rows.tolist(),
        [c.to_pylist() for c in block.columns],
        block.bad,
        block.resume,
    )


def csv_row(fields: tuple[bytes | None, ...] | None) -> tuple[Any, ...] | None:
    if fields is None or len(fields) != 4:
        return None
    try:
        s, _, d, i = (None if field is None else field.decode() for field in fields)
    except UnicodeDecodeError:
        return None
    if s is None:
        return None
    try:
        return None if i is None else value_of(i, INT), s, None if d is None else value_of(d, DOUBLE)
    except Refused:
        return None


def gathered(blocks: list[ParsedBlock]) -> tuple[dict[int, tuple[Any, ...]], dict[int, bytes]]:
    good: dict[int, tuple[Any, ...]] = {}
    bad: dict[int, bytes] = {}
    first = 0
    for block in blocks:
        assert block.first_row == first
        first += block.count
        columns = [column.to_pylist() for column in block.columns]
        good |= dict(zip(block.rows.tolist(), zip(*columns, strict=True), strict=True))
        bad |= {row.row: row.raw for row in block.bad}
        assert len(block.rows) + len(block.bad) == block.count
    return good, bad


# --- JSON ------------------------------------------------------------------------------------------------------------

JSON_WANTED = Wanted(
    (
        Field("i", INT),
        Field("s", STRING),
        Field("d", DOUBLE),
        Field("m", decimal(5, 2)),
        Field("b", BOOLEAN),
        Field("at", TIMESTAMP, nullable=False),
    ),
    5,
)
MEMBERS = st.lists(
    st.builds(
        lambda key, value: f'"{key}":{value}',
        st.sampled_from(["i", "s", "d", "m", "b", "at", "other", "\\u0069"]),
        st.sampled_from(
            [
                "1",
                "-0",
                "1.0",
                "1e2",
                "2147483648",
                "1e400",
                "0.125",
                "1.25",
                "1.255",
                '"1.25"',
                '"x"',
                '"\\ud800"',
                '"é"',
                "true",
                "false",
                "null",
                "NaN",
                '"NaN"',
                '"Inf"',
                "Infinity",
                "{}",
                '{"i":1,"i":2}',
                "[1]",
                "01",
                "",
                '"2020-01-01T00:00:00"',
                '"2020-01-01T00:00:00Z"',
                '"2020-01-01 00:00:00.1234567"',
                '"\\n\\u0000"',
                "0x1",
            ]
        ),
    ),
    max_size=6,
).map(lambda members: "{" + ",".join(members) + "}")
LINES = st.one_of(
    MEMBERS,
    MEMBERS,
    st.just('{"i":1,"at":"2020-01-01"}'),
    st.sampled_from(["", " ", "{}{}", '{"i":', "null", "[]", "1", ' {"i":1}', '{"i":1} ', '{"i":1}x', "{", "}", "\t"]),
)


@dataclass(frozen=True)
class Members:
    pairs: list[tuple[str, Any]]


def strict_json(line: str) -> dict[str, Any] | None:
    def refuse(word: str) -> None:
        raise ValueError(word)

    try:
        value = json.loads(
            line, parse_float=Decimal, parse_int=Decimal, parse_constant=refuse, object_pairs_hook=Members
        )
    except ValueError:
        return None
    if not isinstance(value, Members):
        return None
    names = [key for key, _ in value.pairs]
    if any(names.count(field.name) > 1 for field in JSON_WANTED.fields):
        return None
    return dict(value.pairs)


def json_row(line: str) -> tuple[Any, ...] | None:
    """By Python's own numbers and strings, but for times, which have a twin of their own."""
    keys = strict_json(line)
    if keys is None:
        return None
    i, s, d, m, b, at = (keys.get(field.name) for field in JSON_WANTED.fields)
    if isinstance(m, str) and m == "1.25":
        m = Decimal(m)
    if isinstance(d, str) and d == "NaN":
        d = Decimal(d)
    is_integer = isinstance(i, Decimal) and str(i).lstrip("-").isdigit() and abs(i) < 1 << 31
    fits = (
        (i is None or is_integer)
        and (s is None or (isinstance(s, str) and s != "\ud800"))
        and (d is None or (isinstance(d, Decimal) and (d.is_nan() or not math.isinf(float(d)))))
        and (m is None or (isinstance(m, Decimal) and m * 100 == (m * 100).to_integral_value() and abs(m) < 1000))
        and (b is None or isinstance(b, bool))
        and isinstance(at, str)
        and at.startswith("2020-01-01")
    )
    if not fits:
        return None
    assert isinstance(at, str)
    double = None if d is None else -0.0 if str(d) == "-0" else float(d)
    return None if i is None else int(i), s, double, None if m is None else int(m * 100), b, value_of(at, TIMESTAMP)


@settings(max_examples=300)
@given(
    st.lists(LINES, max_size=12),
    st.integers(1, 200),
    st.integers(1, 5),
    st.sampled_from([20, 1 << 20]),
    st.sampled_from(["\n", "\r\n"]),
    st.booleans(),
)
def test_json_rows_are_the_twins(
    lines: list[str], repeat: int, rows: int, most_bytes: int, line_end: str, ended: bool
) -> None:
    lines = lines * (repeat if repeat < 6 else 1)
    data = "".join(line + line_end for line in lines).encode()
    if not ended:
        data = data.removesuffix(line_end.encode())
    blocks = list(json_blocks(io.BytesIO(data), JSON_WANTED, 0, 0, BlockMax(1000 if repeat < 4 else rows, most_bytes)))
    good, bad = gathered(blocks)
    found = lines if ended or not lines or lines[-1] else lines[:-1]
    assert sum(block.count for block in blocks) == len(found)
    for row, line in enumerate(found):
        want = json_row(line)
        if want is None:
            assert row not in good, line
            assert bad.pop(row) == line.encode()
        else:
            got = good.pop(row)
            assert all(same(left, right) for left, right in zip(got, want, strict=True)), (line, got, want)
    assert (good, bad) == ({}, {})


@pytest.mark.parametrize("depth", [50, 100_000])
def test_deep_nesting_is_a_bad_record_and_no_crash(depth: int) -> None:
    line = b'{"x":' + b"[" * depth + b"]" * depth + b',"at":"2020-01-01"}\n'
    (block,) = json_blocks(io.BytesIO(line * 3 + b'{"at":"2020-01-01"}\n'), JSON_WANTED, 0, 0)
    assert 3 in block.rows.tolist()
    assert block.count == 4


def test_a_record_beyond_the_bound_is_one_bad_record(monkeypatch: pytest.MonkeyPatch) -> None:
    assert splitting.RECORD_BYTES_MAX == 16 << 20
    data = b'a,b\n1,"' + b"x" * (17 << 20) + b'"\n2,3\n'
    blocks = list(text_blocks(io.BytesIO(data), split_csv, 0, 0))
    assert sum(len(block) for block in blocks) == 3
    assert [block.first_row + record for block in blocks for record in block.malformed] == [1]
    with pytest.raises(splitting.UnreadableFile, match="row 1 is longer than 16 MiB"):
        list(text_blocks(io.BytesIO(b"x" * (30 << 20)), split_lines, 0, 0))
